internal import CanopyEngine
internal import CanopySQLite
public import CanopyWire
internal import Foundation
public import Logging
internal import Synchronization

/// The scrub of a running server: reads all rows, the rules and the secrets of all namespaces at a slow pace again and
/// again, and reports damage of the disk long before a client asks for the damaged value.
///
/// Safe to use from any thread.
public final class Scrubber: Sendable {
  /// The work of this process.
  public struct Counts: Equatable, Sendable {
    /// The number of rows that were checked.
    public var rows = 0
    /// The bytes of these rows.
    public var bytes = 0
    /// The number of complete passes.
    public var passes = 0
    /// The problems of the present pass so far, or of the last one if no pass is under way.
    public var problems = 0
    /// The problems of the last complete pass.
    public var lastProblems = 0
    /// The namespaces that the last complete pass could not read, because their databases are of an older version.
    public var lastOlder = 0
    /// The end of the last complete pass, in milliseconds since 1970; nil if there is none.
    public var lastEnd: Int64?
  }

  /// The bytes of rows that are read in a second.
  static let bytesPerSecond = 1024 * 1024
  /// The shortest pause after a step.
  static let pauseMin = Duration.milliseconds(100)
  /// The problems of a pass that are logged. The others are only counted.
  static let loggedMax = 100
  /// The number of times that a step of a busy database is tried.
  private static let triesMax = 10

  private let every: Duration
  private let namespaces: @Sendable () throws -> [(name: NamespaceName, folder: String)]
  /// Returns the problems of the rules and the secrets in the folder of a namespace.
  private let fileProblems: @Sendable (_ name: NamespaceName, _ folder: String) -> [String]
  private let now: @Sendable () -> Int64
  private let logger: Logger
  private let state = Mutex(Counts())

  /// The numbers of this process.
  public var counts: Counts { state.withLock { $0 } }

  /// Creates a scrub.
  ///
  /// - Parameters:
  ///   - every: the time from the beginning of a pass to that of the next one. A longer pass is followed by the next one
  ///     at once.
  ///   - namespaces: returns all namespaces with their folders.
  ///   - fileProblems: returns a sentence for each small file of a namespace with which a server would not start.
  ///   - now: the time in milliseconds since 1970.
  public init(
    every: Duration,
    namespaces: @escaping @Sendable () throws -> [(name: NamespaceName, folder: String)],
    fileProblems: @escaping @Sendable (_ name: NamespaceName, _ folder: String) -> [String] = {
      _, _ in []
    },
    now: @escaping @Sendable () -> Int64, logger: Logger
  ) {
    self.every = every
    self.namespaces = namespaces
    self.fileProblems = fileProblems
    self.now = now
    self.logger = logger
  }

  /// Makes one pass after the other until the task is cancelled. The first one begins at once.
  public func run(clock: some Clock<Duration>) async {
    while !Task.isCancelled {
      let began = clock.now
      guard (try? await pass(clock: clock)) != nil else { return }
      let rest = max(Scrubber.pauseMin, every - began.duration(to: clock.now))
      guard (try? await clock.sleep(for: rest)) != nil else { return }
    }
  }

  /// Reads all rows once.
  ///
  /// - Throws: `CancellationError`.
  func pass(clock: some Clock<Duration>) async throws {
    state.withLock { $0.problems = 0 }
    let all: [(name: NamespaceName, folder: String)]
    do { all = try namespaces() } catch {
      logger.error("the scrub cannot list the namespaces", metadata: ["error": "\(error)"])
      return
    }
    var older = 0
    for (name, folder) in all where try await scrub(name, folder, clock) {
      older += 1
      logger.notice(
        "the scrub cannot read a database of an older version",
        metadata: ["namespace": "\(name)"])
    }
    let problems = state.withLock { [older] counts in
      counts.passes += 1
      counts.lastProblems = counts.problems
      counts.lastOlder = older
      counts.lastEnd = now()
      return counts.problems
    }
    if problems == 0, older == 0 { logger.info("the scrub has read all rows and found no damage") }
  }

  /// Reads the rows of a namespace. Returns whether it cannot, because its database is of an older version.
  private func scrub(
    _ name: NamespaceName, _ folder: String, _ clock: some Clock<Duration>
  ) async throws -> Bool {
    note(fileProblems(name, folder), in: name)
    var scrub: Scrub
    do throws(StoreError) { scrub = try Scrub(folder: folder) } catch {
      // A command may have removed the namespace.
      if FileManager.default.fileExists(atPath: folder) { note([error.sentence], in: name) }
      return false
    }
    defer { scrub.close() }
    note(try await lossOfRules(in: folder, scrub, clock), in: name)
    var tries = 0
    while !scrub.isDone {
      do {
        let step = try await scrub.step()
        tries = 0
        state.withLock { counts in
          counts.rows += step.rows
          counts.bytes += step.bytes
        }
        note(step.problems, in: name)
        if step.isOlder { return true }
        let seconds = Double(step.bytes) / Double(Scrubber.bytesPerSecond)
        try await clock.sleep(for: max(Scrubber.pauseMin, .seconds(seconds)))
      } catch let error as CancellationError {
        throw error
      } catch {
        // The end of the server interrupts a step, and this is no damage.
        try Task.checkCancellation()
        tries += 1
        guard tries < Scrubber.triesMax else {
          note(["the rows cannot be read: \(error)"], in: name)
          return false
        }
        try await clock.sleep(for: .seconds(1))
      }
    }
    return false
  }

  /// Returns a sentence if the file with the rules is lost. The next start would not accept that.
  private func lossOfRules(
    in folder: String, _ scrub: Scrub, _ clock: some Clock<Duration>
  ) async throws -> [String] {
    let path = folder + "/" + RulesFile.name
    for isFirst in [true, false] {
      var status = stat()
      guard lstat(path, &status) != 0, errno == ENOENT, lstat(folder, &status) == 0,
        (try? await scrub.rulesRecord())?.origin == .file
      else { return [] }
      // The file and the record are not replaced in one step, and the administrator may be replacing them now.
      if isFirst { try await clock.sleep(for: .seconds(1)) }
    }
    return [RulesFile.loss(of: path)]
  }

  private func note(_ problems: [String], in name: NamespaceName) {
    for problem in problems {
      let count = state.withLock { counts in
        counts.problems += 1
        return counts.problems
      }
      guard count <= Scrubber.loggedMax else { continue }
      logger.error(
        "the scrub has found damage",
        metadata: ["namespace": "\(name)", "problem": "\(StoreError.ofServer(problem))"])
    }
  }
}
