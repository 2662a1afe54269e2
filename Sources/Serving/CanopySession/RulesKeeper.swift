public import CanopyEngine
internal import CanopyRules
internal import CanopySystem
public import CanopyTree
internal import Dispatch
internal import Foundation
public import Logging
internal import Synchronization

/// The rules in force, and the file that keeps them: `rules.json` in the data folder. If there was never such a file, the
/// built-in rules are in force. The record of the rules says whether there was one.
///
/// Rules are replaced as a whole, between two commits. The old rules authorize the commits before and their listeners,
/// the new rules the commits after. Reading the rules in force takes one lock and one reference.
public final class RulesKeeper: Sendable {
  /// Rules, their text, and the commit after which they came into force.
  final class Version: Sendable {
    let rules: RuleSet
    /// The text as it was written.
    let text: String
    /// Whether the text comes from the file, or is in it.
    let isFromFile: Bool
    /// Whether the text is that of the initial rules, from a file or not.
    let isBuiltIn: Bool
    /// Whether they are the built-in rules of the blog, from whose data other data is derived.
    let isAboutBlog: Bool
    /// The last commit before them.
    let sequence: Int64

    /// The record by which the rules are recognised after a restart.
    var record: RulesRecord {
      RulesRecord(
        isFromFile ? .file : .initial, checksum: RulesFile.checksum(of: text), sequence: sequence)
    }

    init(
      rules: RuleSet, text: String, isFromFile: Bool, initial: InitialRules, sequence: Int64
    ) {
      self.rules = rules
      self.text = text
      self.isFromFile = isFromFile
      isBuiltIn = text.hasSameBytes(as: initial.text)
      isAboutBlog = isBuiltIn && initial == .blog
      self.sequence = sequence
    }
  }

  /// The name of the file in the data folder.
  public static let fileName = RulesFile.name

  private let state: Mutex<Version>
  private let folder: String?
  /// The rules without a file.
  private let initial: InitialRules
  /// Keeps the record of the rules in force, from `begin` on.
  private let recordStore = Mutex<(any RulesRecordStore)?>(nil)
  /// The last requested replacement. Each one begins when the one before has ended.
  private let last = Mutex<Task<Void, Never>?>(nil)

  /// Loads the rules of a data folder, or the built-in rules.
  ///
  /// - Parameters:
  ///   - folder: the data folder, which need not exist yet; nil to keep nothing.
  ///   - initial: the rules that are in force without a file.
  /// - Throws: `RulesError` with the places of errors in the file; `RulesFileError` if the
  ///   file cannot be read, or its text is not that of its checksum.
  public init(folder: String?, initial: InitialRules = .blog) throws {
    self.folder = folder
    self.initial = initial
    state = Mutex(try Self.load(folder, initial))
  }

  /// Loads the rules again. Call it before `begin` when the folder is locked: another server or a command may have
  /// replaced the rules until then.
  ///
  /// - Throws: the errors of the initializer.
  public func loadAgain() throws {
    let version = try Self.load(folder, initial)
    state.withLock { $0 = version }
  }

  private static func load(_ folder: String?, _ initial: InitialRules) throws -> Version {
    // Until `begin` it is not known since when they have been in force. So no client resumes over earlier commits.
    guard let folder, let bytes = try Self.read(Self.path(in: folder)) else {
      return Version(
        rules: try initial.load(), text: initial.text, isFromFile: false, initial: initial,
        sequence: .max)
    }
    let file = RulesFile(bytes)
    guard file.isIntact else {
      throw RulesFileError(sentence: RulesFile.damage(of: Self.path(in: folder)))
    }
    let rules = try RuleSet(utf8: file.body, file: Self.path(in: folder))
    return Version(
      rules: rules, text: String(decoding: file.body, as: UTF8.self), isFromFile: true,
      initial: initial, sequence: .max)
  }

  /// The indexes that the rules in force declare.
  public var indexPlan: IndexPlan { current.rules.indexPlan }

  /// Whether the built-in rules of the blog are in force.
  public var isAboutBlog: Bool { current.isAboutBlog }

  /// The rules in force.
  var current: Version { state.withLock { $0 } }

  /// Finds out since when the rules have been in force, and records it from now on. Call it once,
  /// before anything is written.
  ///
  /// If the record is of the same rules, it says since when. Otherwise they
  /// came into force while no server ran: by another file, or by a program with other built-in rules. Logs a warning in the
  /// first case.
  ///
  /// - Parameters:
  ///   - sequence: the sequence number of the last commit.
  ///   - store: keeps the record beside the commits, so that a backup has both.
  ///   - acceptsLoss: whether to go on if the file is lost. Then rules that allow nothing are stored and put in force.
  /// - Throws: `RulesFileError` if the file is lost, or cannot be written; the store's error.
  public func begin(
    at sequence: Int64, recordingIn store: any RulesRecordStore, acceptsLoss: Bool = false,
    logger: Logger
  ) async throws {
    let record = try await store.rulesRecord()
    if isLost(after: record) {
      guard acceptsLoss else {
        throw RulesFileError(sentence: RulesFile.loss(of: Self.path(in: folder ?? "")))
      }
      try await lock(logger)
    } else {
      warn(of: record, logger)
    }
    let found = current.record
    let isKnown = record.map { $0.checksum == found.checksum && $0.sequence <= sequence } ?? false
    begin(at: isKnown ? record?.sequence ?? sequence : sequence)
    let new = current.record
    if record != new { try await store.setRulesRecord(new) }
    recordStore.withLock { $0 = store }
  }

  /// Whether there is no file, although a record says that the rules of a file were in force.
  ///
  /// A record of an older version does not say where the rules came from. If it is of other rules than the initial ones,
  /// they may be those of another version, except in a namespace: no version had others there.
  public func isLost(after record: RulesRecord?) -> Bool {
    guard let record, folder != nil, !current.isFromFile else { return false }
    switch record.origin {
    case .initial: return false
    case .file: return true
    case nil:
      if initial == .blog { return false }
      return ![InitialRules.locked, .open].contains {
        RulesFile.checksum(of: $0.text).hasSameBytes(as: record.checksum)
      }
    }
  }

  /// Logs a warning if the rules are not those of the record, and no newer version of the program explains it.
  private func warn(of record: RulesRecord?, _ logger: Logger) {
    let current = current
    guard let record, folder != nil, !record.checksum.isEmpty,
      !record.checksum.hasSameBytes(as: current.record.checksum)
    else { return }
    if current.isFromFile {
      logger.warning("rules.json has changed since the last run")
    } else if record.origin == nil, initial == .blog {
      logger.warning(
        "there is no rules.json, and the last run had other rules than these built-in ones: its file may be lost"
      )
    }
  }

  /// Stores rules that allow nothing, and puts them in force.
  private func lock(_ logger: Logger) async throws {
    let text = InitialRules.locked.text
    try await keepFile(text)
    let rules = try InitialRules.locked.load()
    state.withLock {
      $0 = Version(rules: rules, text: text, isFromFile: true, initial: initial, sequence: .max)
    }
    logger.critical("rules.json is lost, so nothing is allowed until the administrator sets rules")
  }

  /// Puts the rules of a shared journal in force, and from now on the rules of each commit that replaces them. So the
  /// same rules are in force on all nodes after the same commit. Call it once, before the engine runs.
  ///
  /// - Throws: `RulesError` if this version cannot read the rules.
  public func begin(following engine: Engine, logger: Logger) throws {
    let start = engine.takeMarks { [weak self, weak engine] event in
      guard let self, let engine else { return }
      switch event {
      case .marked(.rules(let text), let sequence):
        take(text, at: sequence, in: engine, logger)
      case .reloaded(let rules?):
        if rules.sequence > current.sequence {
          take(rules.text, at: rules.sequence, in: engine, logger)
        }
      case .reloaded(nil), .marked(.account, _): break
      }
    }
    guard let found = start.rules else {
      // Another version of the program may have had other built-in rules.
      return begin(at: start.sequence)
    }
    let version = try self.version(found.text, at: found.sequence)
    state.withLock { $0 = version }
  }

  /// Puts the rules of a commit in force, on the engine's thread. The listeners are authorized again in later turns.
  ///
  /// Rules that cannot be read, such as those of a later version, are replaced by rules that allow nothing.
  private func take(_ text: String?, at sequence: Int64, in engine: Engine, _ logger: Logger) {
    var version: Version?
    do {
      version = try self.version(text, at: sequence)
    } catch {
      logger.critical(
        "the rules of the journal cannot be read, so this node allows nothing; start the same version on all nodes",
        metadata: ["error": "\(error)", "seq": "\(sequence)"])
      version = try? Version(
        rules: InitialRules.locked.load(), text: InitialRules.locked.text, isFromFile: false,
        initial: initial, sequence: sequence)
    }
    guard let version else { return }
    state.withLock { $0 = version }
    engine.reauthorizeAll()
    let plan = version.rules.indexPlan
    // The indexes affect only the time of queries.
    Task { try? await engine.keepIndexes(of: plan) }
  }

  private func version(_ text: String?, at sequence: Int64) throws -> Version {
    let rules = try text.map { text throws(RulesError) in try RuleSet(text: text) }
    return Version(
      rules: try rules ?? initial.load(), text: text ?? initial.text, isFromFile: false,
      initial: initial, sequence: sequence)
  }

  /// Notes since when the rules have been in force, unless that is known.
  func begin(at sequence: Int64) {
    state.withLock { version in
      guard version.sequence == .max else { return }
      version = Version(
        rules: version.rules, text: version.text, isFromFile: version.isFromFile,
        initial: initial, sequence: sequence)
    }
  }

  /// Replaces the rules: checks them, adds their indexes, writes the file, and puts them in force.
  ///
  /// Several replacements at the same time are carried out one after the other. Rules whose file cannot be written are
  /// not put in force.
  ///
  /// - Parameter text: the rules; nil, or their text, for the initial ones.
  /// - Returns: the sequence number of the last commit before them.
  /// - Throws: `RulesError` for errors in the rules; `RulesFileError` or the record store's error
  ///   if they cannot be stored; `EngineError.stopped`.
  func replace(by text: String?, in engine: Engine) async throws -> Int64 {
    let change = last.withLock { last in
      let change = Task { [last] in
        await last?.value
        return try await self.carryOut(text, engine)
      }
      last = Task { _ = await change.result }
      return change
    }
    return try await change.value
  }

  private func carryOut(_ text: String?, _ engine: Engine) async throws -> Int64 {
    // The text of the built-in rules is not kept, so that the next version of the program uses its own.
    let text = text.flatMap { $0.hasSameBytes(as: initial.text) ? nil : $0 }
    let rules = try text.map { text throws(RulesError) in try RuleSet(text: text) }
    let newRules = try rules ?? initial.load()
    try await engine.keepIndexes(of: newRules.indexPlan)
    if engine.isShared {
      let sequence = try await engine.commit(.rules(text))
      // The reply comes when the new rules have authorized all listeners again.
      await withCheckedContinuation { continuation in
        engine.reauthorize(completion: { continuation.resume() })
      }
      return sequence
    }
    let store = recordStore.withLock { $0 }
    let old = current
    // The record is of a file only while there is one, so that no crash looks like a loss. It has no checksum, so that no
    // crash and no error leaves a record of rules that were not in force all the time.
    let hasFileThroughout = old.isFromFile && text != nil
    try await store?.setRulesRecord(
      RulesRecord(hasFileThroughout ? .file : .initial, sequence: old.sequence))
    do {
      try await keepFile(text)
      if text != nil, !hasFileThroughout {
        try await store?.setRulesRecord(RulesRecord(.file, sequence: old.sequence))
      }
    } catch {
      // The file may have its new contents although the disk has failed. The next start must find the rules in force.
      if old.isFromFile { try? await keepFile(old.text) }
      do {
        try await store?.setRulesRecord(old.record)
        if !old.isFromFile { try await keepFile(nil) }
      } catch {}  // If the record may be of a file, the file stays.
      throw error
    }
    let sequence = await putInForce(newRules, text, engine)
    // Without a checksum in the record, clients that resume after a restart get everything again.
    try? await store?.setRulesRecord(current.record)
    return sequence
  }

  /// Writes the file, or removes it for nil.
  private func keepFile(_ text: String?) async throws {
    guard let folder else { return }
    try await Self.onDiskThread { Result { try Self.keep(text, in: folder) } }.get()
  }

  /// Runs `body` on a thread that may wait for the disk.
  private static func onDiskThread<R: Sendable>(_ body: @escaping @Sendable () -> R) async -> R {
    await withCheckedContinuation { continuation in
      DispatchQueue.global().async { continuation.resume(returning: body()) }
    }
  }

  /// Puts rules in force, between two commits.
  private func putInForce(
    _ rules: RuleSet, _ text: String?, _ engine: Engine
  ) async -> Int64 {
    await withCheckedContinuation { continuation in
      engine.reauthorize {
        let sequence = engine.snapshot.sequence
        self.state.withLock {
          $0 = Version(
            rules: rules, text: text ?? self.initial.text, isFromFile: text != nil,
            initial: self.initial, sequence: sequence)
        }
      } completion: {
        continuation.resume(returning: self.current.sequence)
      }
    }
  }
}

/// The file with the rules cannot be read or written, or it is damaged or lost.
public struct RulesFileError: Error, Equatable, Sendable {
  /// One sentence.
  public let sentence: String

  fileprivate init(sentence: String) { self.sentence = sentence }

  fileprivate init(_ error: FileError) {
    sentence = "cannot \(error.operation) \(error.path): \(error.reason)"
  }
}

extension RulesKeeper {
  private static func path(in folder: String) -> String {
    folder.hasByteSuffix("/") ? folder + fileName : folder + "/" + fileName
  }

  /// Returns the bytes of the file; nil if there is no file. A link to a missing file is an error: its owner does not
  /// want the built-in rules.
  private static func read(_ path: String) throws -> [UInt8]? {
    // `RuleSet` refuses a longer file.
    do throws(FileError) { return try SmallFile.read(path) } catch {
      var status = stat()
      if error.code == ENOENT, lstat(path, &status) != 0, errno == ENOENT { return nil }
      throw RulesFileError(sentence: "\(path) cannot be read: \(error.reason)")
    }
  }

  /// Replaces the file, or removes it for nil. A crash leaves either the old file or the new one.
  private static func keep(_ text: String?, in folder: String) throws {
    let path = path(in: folder)
    do throws(FileError) {
      if let text {
        try AtomicFile.replace(path, with: RulesFile.bytes(of: text))
      } else {
        try AtomicFile.remove(path)
      }
    } catch {
      throw RulesFileError(error)
    }
  }
}
