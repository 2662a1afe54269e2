public import CanopyEngine
internal import CanopyRules
internal import CanopySystem
public import CanopyTree
internal import Dispatch
internal import Foundation
public import Logging
internal import Synchronization

/// The rules in force, and the file that keeps them: `rules.json` in the data folder. Without the file
/// the built-in rules are in force.
///
/// Rules are replaced as a whole, between two commits. The old rules authorize the commits before and their listeners,
/// the new rules the commits after. Reading the rules in force takes one lock and one reference.
public final class RulesKeeper: Sendable {
  /// Rules, their text, and the commit after which they came into force.
  final class Version: Sendable {
    let rules: RuleSet
    /// The text as it was written.
    let text: String
    /// Whether the text is that of the initial rules, from a file or not.
    let isBuiltIn: Bool
    /// Whether they are the built-in rules of the blog, from whose data other data is derived.
    let isAboutBlog: Bool
    /// The last commit before them.
    let sequence: Int64

    /// A hash of the text, by which the rules are recognised after a restart.
    var digest: String { Node(text).hash }

    init(rules: RuleSet, text: String, initial: InitialRules, sequence: Int64) {
      self.rules = rules
      self.text = text
      isBuiltIn = text.hasSameBytes(as: initial.text)
      isAboutBlog = isBuiltIn && initial == .blog
      self.sequence = sequence
    }
  }

  /// The name of the file in the data folder.
  public static let fileName = "rules.json"

  /// Bytes from which on a file is not read: `RuleSet` allows fewer.
  private static let fileBytesMax = 8 * 1024 * 1024

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
  ///   file cannot be read.
  public init(folder: String?, initial: InitialRules = .blog) throws {
    self.folder = folder
    self.initial = initial
    // Until `begin` it is not known since when they have been in force. So no client resumes over earlier commits.
    guard let folder, let bytes = try Self.read(Self.path(in: folder)) else {
      state = Mutex(
        Version(
          rules: try initial.load(), text: initial.text, initial: initial, sequence: .max))
      return
    }
    let rules = try RuleSet(utf8: bytes, file: Self.path(in: folder))
    state = Mutex(
      Version(
        rules: rules, text: String(decoding: bytes, as: UTF8.self), initial: initial,
        sequence: .max))
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
  /// came into force while no server ran: by another file, or by a program with other built-in rules.
  ///
  /// - Parameters:
  ///   - sequence: the sequence number of the last commit.
  ///   - store: keeps the record beside the commits, so that a backup has both.
  /// - Throws: the store's error.
  public func begin(at sequence: Int64, recordingIn store: any RulesRecordStore) async throws {
    let digest = current.digest
    let record = try await store.rulesRecord()
    if let record, record.digest == digest, record.sequence <= sequence {
      begin(at: record.sequence)
    } else {
      try await store.setRulesRecord(RulesRecord(digest: digest, sequence: sequence))
      begin(at: sequence)
    }
    recordStore.withLock { $0 = store }
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
        rules: InitialRules.locked.load(), text: InitialRules.locked.text, initial: initial,
        sequence: sequence)
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
      rules: try rules ?? initial.load(), text: text ?? initial.text, initial: initial,
      sequence: sequence)
  }

  /// Notes since when the rules have been in force, unless that is known.
  func begin(at sequence: Int64) {
    state.withLock { version in
      guard version.sequence == .max else { return }
      version = Version(
        rules: version.rules, text: version.text, initial: initial, sequence: sequence)
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
    // Removed first, so that no crash and no error leaves a record of rules that were not in force all the time.
    try await store?.setRulesRecord(nil)
    if let folder {
      do {
        try await Self.onDiskThread { Result { try Self.keep(text, in: folder) } }.get()
      } catch {
        // The file may have its new contents although the disk has failed. The next start must find the rules in force.
        let text = old.isBuiltIn ? nil : old.text
        await Self.onDiskThread { try? Self.keep(text, in: folder) }
        // Without a record, clients that resume after a restart get everything again.
        try? await store?.setRulesRecord(
          RulesRecord(digest: old.digest, sequence: old.sequence))
        throw error
      }
    }
    let sequence = await putInForce(newRules, text, engine)
    try? await store?.setRulesRecord(
      RulesRecord(digest: current.digest, sequence: sequence))
    return sequence
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
            rules: rules, text: text ?? self.initial.text, initial: self.initial,
            sequence: sequence)
        }
      } completion: {
        continuation.resume(returning: self.current.sequence)
      }
    }
  }
}

/// The file with the rules cannot be read or written.
public struct RulesFileError: Error, Equatable, Sendable {
  /// One sentence.
  public let sentence: String

  fileprivate init(_ path: String, _ what: String) {
    let reason = String(cString: strerror(errno))
    sentence = "\(path) cannot be \(what): \(reason)"
  }

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
    let descriptor = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC)
    guard descriptor >= 0 else {
      let error = RulesFileError(path, "read")
      var status = stat()
      if errno == ENOENT, lstat(path, &status) != 0, errno == ENOENT { return nil }
      throw error
    }
    defer { close(descriptor) }
    var bytes: [UInt8] = []
    var buffer = [UInt8](repeating: 0, count: 65_536)
    while bytes.count < fileBytesMax {
      let count = Foundation.read(descriptor, &buffer, buffer.count)
      if count < 0, errno == EINTR { continue }
      guard count >= 0 else { throw RulesFileError(path, "read") }
      if count == 0 { break }
      bytes += buffer.prefix(count)
    }
    return bytes
  }

  /// Replaces the file, or removes it for nil. A crash leaves either the old file or the new one.
  private static func keep(_ text: String?, in folder: String) throws {
    let path = path(in: folder)
    do throws(FileError) {
      if let text {
        try AtomicFile.replace(path, with: Array(text.utf8))
      } else {
        try AtomicFile.remove(path)
      }
    } catch {
      throw RulesFileError(error)
    }
  }
}
