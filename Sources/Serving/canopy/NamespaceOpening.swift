import CanopyEngine
import CanopyMetrics
import CanopySession
import CanopySQLite
import CanopySystem
import CanopyWire
import Logging

/// Opens the namespaces of a data folder for a server. An emulator creates those that do not exist.
struct NamespaceOpening: NamespaceSource {
  let folders: NamespaceFolders
  let store: SQLiteStore.Configuration
  let engine: Engine.Configuration
  let isEmulator: Bool
  let metrics: MetricsRegistry
  let logger: Logger

  /// The most namespaces in the folder of an emulator, beyond which it creates no others.
  private static let createdMax = 1_000

  func availability(of name: NamespaceName) -> NamespaceAvailability {
    if folders.exists(name) { return .stored }
    if folders.isMissing(name) { return .lost }
    guard isEmulator else { return .missing }
    let count = (try? folders.names().count) ?? 0
    return count < Self.createdMax ? .creatable : .full(countMax: Self.createdMax)
  }

  func names() async throws -> [NamespaceName] {
    do { return try await Self.beside { [folders] in try folders.names() } } catch {
      throw Failure(error)
    }
  }

  func open(_ name: NamespaceName) async throws -> NamespaceParts {
    do { return try await openFolder(name) } catch { throw Failure(error) }
  }

  private func openFolder(_ name: NamespaceName) async throws -> NamespaceParts {
    let folder = folders.path(of: name)
    var configuration = store
    configuration.currentTime = Composition.now()
    let logger = Self.labelled(logger, name)
    configuration.logger = logger
    // A command may remove the namespace now.
    configuration.createsFolder = isEmulator
    // A namespace gets its name when its folder has tables.
    configuration.hasBeenUsed = true
    let (opened, rules) = try await Self.beside { [configuration, folders, isEmulator] in
      try folders.checkIsNotMissing(name)
      if isEmulator, !folders.exists(name) { try folders.create(name) }
      try folders.forgetRemoval(of: name)
      // The rules come first: with invalid rules nothing is opened.
      let rules = try RulesKeeper(folder: folder, initial: isEmulator ? .open : .locked)
      return (try SQLiteStore(folder: folder, configuration: configuration), rules)
    }
    let store =
      try await configuration.acceptsLoss ? opened.acceptLossesAndReopen().store : opened
    do {
      try await Self.beside { try rules.loadAgain() }
      try await store.beginNewNumbersIfNeeded(at: Composition.now())
      var configuration = engine
      configuration.indexPlan = rules.indexPlan
      let engine = try await Engine(
        journal: MeasuredJournal(store, in: metrics), configuration: configuration,
        now: Composition.now, clock: Composition.clock,
        random: Composition.random, logger: logger)
      try await rules.begin(
        at: engine.snapshot.sequence, recordingIn: store, acceptsLoss: self.store.acceptsLoss,
        logger: logger)
      logger.info("a namespace is open", metadata: ["seq": "\(engine.snapshot.sequence)"])
      return NamespaceParts(engine: engine, disconnectStore: store, rules: rules) {
        try await Self.beside { try store.close() }
        logger.info("a namespace is closed")
      }
    } catch {
      try? await Self.beside { try store.close() }
      throw error
    }
  }

  private static func labelled(_ logger: Logger, _ name: NamespaceName) -> Logger {
    var logger = logger
    logger[metadataKey: "namespace"] = "\(name)"
    return logger
  }

  /// Runs a closure that waits for the disk on a thread of its own.
  private static func beside<R: Sendable>(
    _ body: @escaping @Sendable () throws -> R
  ) async throws -> R {
    try await withCheckedThrowingContinuation { continuation in
      let hasStarted = WorkerThread.start { continuation.resume(with: Result { try body() }) }
      if !hasStarted {
        continuation.resume(
          throwing: Failure("the system gives no more threads; stop some programs"))
      }
    }
  }
}
