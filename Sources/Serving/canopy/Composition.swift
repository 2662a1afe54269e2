import ArgumentParser
import CanopyAccounts
import CanopyBackup
import CanopyEngine
import CanopyEvents
import CanopyGateway
import CanopyIdentity
import CanopyLineServer
import CanopyMetrics
import CanopyRules
import CanopySession
import CanopySocial
import CanopySQLite
import CanopyTree
import Foundation
import Logging

/// The store, the engine and the accounts of one data folder, or of one node of a server on PostgreSQL.
///
/// Only this type knows which implementation each protocol has.
struct Composition: Sendable {
  let store: any ServerStore
  let engine: Engine
  let accounts: AccountService

  /// Opens a data folder.
  ///
  /// - Parameters:
  ///   - hasher: the hasher of passwords, which bounds their number.
  ///   - metrics: takes the measurements of the journal; nil for none.
  ///   - now: the clock of commits, accounts and tokens, in milliseconds since 1970.
  init(
    folder: String, store configuration: SQLiteStore.Configuration = .init(),
    engine: Engine.Configuration = Composition.unwatched, settings: AccountSettings = .init(),
    hasher: PasswordHasher = PasswordHasher(),
    now: @escaping @Sendable () -> Int64 = Composition.now, metrics: MetricsRegistry? = nil,
    logger: Logger
  ) async throws {
    var configuration = configuration
    configuration.logger = logger
    configuration.currentTime = now()
    var store = try SQLiteStore(folder: folder, configuration: configuration)
    if configuration.acceptsLoss { store = try await store.acceptLossesAndReopen().store }
    do {
      try await store.beginNewNumbersIfNeeded(at: now())
      try await self.init(
        store: store, engine: engine, settings: settings, hasher: hasher, now: now,
        metrics: metrics, logger: logger)
    } catch {
      // Otherwise SQLite would copy the log into a file with damaged pages.
      try? store.close()
      throw error
    }
  }

  /// Opens the journal of a store.
  init(
    store: any ServerStore, engine: Engine.Configuration, settings: AccountSettings,
    hasher: PasswordHasher, now: @escaping @Sendable () -> Int64 = Composition.now,
    metrics: MetricsRegistry?, logger: Logger
  ) async throws {
    self.store = store
    var engineConfiguration = engine
    engineConfiguration.indexPlan.formUnion(Layout.indexPlan)
    self.engine = try await Engine(
      journal: metrics.map { Composition.measured(store, in: $0) } ?? store,
      configuration: engineConfiguration, now: now,
      clock: Composition.clock, random: Composition.random, logger: logger)
    accounts = AccountService(
      store: store, hasher: hasher, settings: settings,
      environment: AccountEnvironment(now: now, random: AccountEnvironment.live.random))
  }

  /// Returns a journal that measures a store. It is a `SharedJournal` if the store is one.
  static func measured(_ store: any ServerStore, in metrics: MetricsRegistry) -> any Journal {
    func measured(_ store: some ServerStore) -> any Journal { MeasuredJournal(store, in: metrics) }
    return measured(store)
  }

  /// The time after which a sign-up counts as interrupted on a running server, in milliseconds. The clocks of nodes may
  /// differ by minutes.
  private static let signUpMilliseconds: Int64 = 30 * 60 * 1_000

  /// Completes or removes the sign-ups that the end of a process, or an error of the disk, has interrupted. On a
  /// running server, and on one with several nodes, these are the ones that began half an hour ago or earlier.
  ///
  /// - Parameter isStart: whether the server has not begun to take requests. On a server with one node, all sign-ups
  ///   that are not complete are interrupted ones then.
  func recover(isStart: Bool) async throws {
    let end = engine.isShared || !isStart ? Composition.now() - Self.signUpMilliseconds : .max
    try await accounts.recoverPending(createdBefore: end) { [engine] uid in
      guard let key = try? Key(uid) else { return false }
      return Users.username(of: key, in: engine.root) != nil
    }
  }

  /// Runs the engine during `body`, then closes the folder.
  func use<R: Sendable>(_ body: @Sendable (Composition) async throws -> R) async throws -> R {
    let result = await withTaskGroup(of: Void.self) { group in
      group.addTask { await engine.run() }
      let result: Result<R, any Error>
      do {
        try await recover(isStart: true)
        result = .success(try await body(self))
      } catch {
        result = .failure(error)
      }
      engine.stop()
      await group.waitForAll()
      return result
    }
    try await store.close()
    return try result.get()
  }

  /// The configuration of a command that works on a folder. No client waits for its writer, so the engine does not
  /// measure and log long work.
  static var unwatched: Engine.Configuration {
    var configuration = Engine.Configuration()
    configuration.elapsed = { .zero }
    return configuration
  }

  /// The clock and the random source of accounts and identity tokens.
  static let environment = AccountEnvironment(
    now: Composition.now, random: AccountEnvironment.live.random)

  /// The source of random words for push ids.
  static let random: @Sendable () -> UInt64 = { UInt64.random(in: .min ... .max) }

  /// The clock of the waits of background work.
  static let clock = ContinuousClock()

  /// Returns the time since the start of the program.
  static let uptime: @Sendable () -> Duration = { [began = clock.now] in
    began.duration(to: clock.now)
  }

  /// The system's clock.
  static let now: @Sendable () -> Int64 = AccountEnvironment.live.now
}

/// An error that ends a command with one sentence on stderr and exit code 1.
struct Failure: Error, CustomStringConvertible {
  let description: String

  init(_ sentence: String) {
    description = Output.shown(sentence)
  }

  /// Takes the sentence of an error, or its description if it has none.
  init(_ error: any Error) {
    let description: String
    switch error {
    case let error as Failure:
      self = error
      return
    case let error as StoreError: description = error.sentence
    case let error as BackupError: description = error.sentence
    case let error as JournalError: description = error.description
    case let error as AccountError: description = error.sentence
    case let error as UncertainChange:
      description = "\(error.administratorSentence) (\(error.reason))"
    case let error as SocialError: description = error.sentence
    case let error as TreeError: description = error.sentence
    case let error as EngineError: description = error.sentence
    case let error as ListenError: description = error.sentence
    case let error as GatewayError: description = error.sentence
    case let error as TLSCertificateError: description = error.sentence
    case let error as IdentityKeysError: description = error.sentence
    case let error as OpenFilesError: description = error.sentence
    case let error as NoServer: description = error.sentence
    case let error as LocalSocketError: description = error.sentence
    case let error as RulesError: description = error.description
    case let error as RulesFileError: description = error.sentence
    default: description = "\(error)"
    }
    self.init(description)
  }

  /// Runs `body`, and turns each error except those of the parser into a `Failure`.
  static func explaining<R>(
    isolation: isolated (any Actor)? = #isolation, _ body: () async throws -> R
  ) async throws -> R {
    do {
      return try await body()
    } catch let error as ValidationError {
      throw error
    } catch {
      throw Failure(error)
    }
  }
}
