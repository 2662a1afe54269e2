public import CanopyEngine
internal import CanopyRules
internal import CanopySystem
public import CanopyTree
internal import Dispatch
internal import Foundation
internal import Synchronization

/// The rules in force, and the file that keeps them: `rules.json` in the data folder. Without the file
/// it is the built-in rules that are in force.
///
/// Rules are replaced as a whole, in line with the commits: every commit before is judged, and told, by
/// the old ones, every commit after by the new. What is asked for them reads one reference.
public final class RulesKeeper: Sendable {
  /// Rules, and how they came to be in force.
  final class Version: Sendable {
    let rules: RuleSet
    /// As they were written.
    let text: String
    /// Whether the text is that of the built-in rules, from a file or not.
    let isBuiltIn: Bool
    /// The last commit before them.
    let sequence: Int64

    /// A hash of the text, by which the rules are recognised after a restart.
    var digest: String { Node(text).hash }

    init(rules: RuleSet, text: String, sequence: Int64) {
      self.rules = rules
      self.text = text
      isBuiltIn = text.hasSameBytes(as: BuiltInRules.text)
      self.sequence = sequence
    }
  }

  /// The name of the file in the data folder.
  public static let fileName = "rules.json"

  /// Bytes from which on a file is not read: `RuleSet` allows fewer.
  private static let fileBytesMax = 8 * 1024 * 1024

  private let state: Mutex<Version>
  private let folder: String?
  /// Keeps the record of the rules in force, from `begin` on.
  private let recordStore = Mutex<(any RulesRecordStore)?>(nil)
  /// The replacement that was asked for last: one begins when that before has ended.
  private let last = Mutex<Task<Void, Never>?>(nil)

  /// The rules that a data folder keeps, or the built-in ones.
  ///
  /// - Parameter folder: the data folder, which need not exist yet; nil to keep nothing.
  /// - Throws: `RulesError`, which says where in the file they are wrong; `RulesFileError` when the
  ///   file cannot be read.
  public init(folder: String?) throws {
    self.folder = folder
    // Until `begin` it is not known since when they have been in force: nobody is told of earlier
    // commits as if these rules had judged them.
    guard let folder, let bytes = try Self.read(Self.path(in: folder)) else {
      let rules = try BuiltInRules.load()
      state = Mutex(
        Version(rules: rules, text: BuiltInRules.text, sequence: .max))
      return
    }
    let rules = try RuleSet(utf8: bytes, file: Self.path(in: folder))
    state = Mutex(
      Version(
        rules: rules, text: String(decoding: bytes, as: UTF8.self), sequence: .max))
  }

  /// The indexes that the rules in force declare.
  public var indexPlan: IndexPlan { current.rules.indexPlan }

  /// The rules in force.
  var current: Version { state.withLock { $0 } }

  /// Finds out since when the rules have been in force, and records it from now on. To be called once,
  /// before anything is written.
  ///
  /// They have been in force for as long as the record says, if it is of the same rules. Otherwise they
  /// came into force while no server ran: with another file, or with a program that has other built-in
  /// rules.
  ///
  /// - Parameters:
  ///   - sequence: the sequence number of the last commit.
  ///   - store: keeps the record; beside the commits, so that they are backed up together.
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

  /// Notes since when the rules have been in force, unless that is known.
  func begin(at sequence: Int64) {
    state.withLock { version in
      guard version.sequence == .max else { return }
      version = Version(
        rules: version.rules, text: version.text, sequence: sequence)
    }
  }

  /// Replaces the rules: checks them, has their indexes made, keeps them, and puts them in force.
  ///
  /// Several at once are carried out one after the other. What cannot be kept is not put in force.
  ///
  /// - Parameter text: the rules; nil, or their text, for the built-in ones.
  /// - Returns: the sequence number of the last commit before them.
  /// - Throws: `RulesError` for what is wrong with them; `RulesFileError` or the record store's error
  ///   when they cannot be kept; `EngineError.stopped`.
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
    let text = text.flatMap { $0.hasSameBytes(as: BuiltInRules.text) ? nil : $0 }
    let rules = try text.map { text throws(RulesError) in try RuleSet(text: text) }
    let newRules = try rules ?? BuiltInRules.load()
    try await engine.keepIndexes(of: newRules.indexPlan)
    let store = recordStore.withLock { $0 }
    let old = current
    // First, so that no crash and no error leaves a record of rules that have not been in force since.
    try await store?.setRulesRecord(nil)
    if let folder {
      do {
        // A thread that may wait for the disk.
        try await withCheckedThrowingContinuation { continuation in
          DispatchQueue.global().async {
            continuation.resume(with: Result { try Self.keep(text, in: folder) })
          }
        }
      } catch {
        // Without a record more is told anew after a restart than need be.
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

  /// Puts rules in force, in line with the commits.
  private func putInForce(
    _ rules: RuleSet, _ text: String?, _ engine: Engine
  ) async -> Int64 {
    await withCheckedContinuation { continuation in
      engine.reauthorize {
        let sequence = engine.snapshot.sequence
        self.state.withLock {
          $0 = Version(
            rules: rules, text: text ?? BuiltInRules.text, sequence: sequence)
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

  /// The bytes of the file; nil when there is none. A link that leads nowhere is not none: whoever made
  /// it does not want the built-in rules.
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
