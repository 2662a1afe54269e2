public import CanopyEngine
public import CanopyTree
internal import CanopyWire

/// Hashing large values, for ETags: see `Node.hash`. A value of 7 MB takes about half a second the first time.
extension Operations {
  /// The time after which hashing and decoding give their turn of long work back.
  public static let longTurnMax = Duration.milliseconds(10)

  /// The bytes of JSON up to which hashing a value is short work: about a millisecond.
  static let shortHashBytesMax = 16 * 1024

  /// Runs `body`, which hashes a value, as `beside` does, but in as many turns as it needs, each of `longTurnMax`. So
  /// long reads of other clients do not wait for it. One call at a time is under way, as it keeps a version of the tree
  /// between its turns.
  ///
  /// The other calls wait for the one that is under way. So it takes its turns of long work as a network of its own, and
  /// does not wait behind the other work of its client.
  ///
  /// A value of at most `shortHashBytesMax` is hashed in one turn of a queue of its own. Otherwise a client that changes a
  /// large value again and again, and asks for its hash each time, would make the hash of every small value wait. Each
  /// call first has a turn there, in which the value is measured.
  ///
  /// - Parameters:
  ///   - group: the connection and its network, which share their turns.
  ///   - version: called in the first turn of each queue. Returns the present version of the tree or of a value, or nil if
  ///     there is none.
  ///   - value: returns the value of a version that is to be hashed; nil if it is not to be measured.
  ///   - turnMax: the time after which a turn ends.
  ///   - body: gets the version, and a closure to call often.
  /// - Returns: nil if there is no version.
  /// - Throws: the error of `body`; `CancellationError` if the task is cancelled before a turn.
  public func hashing<Version: Sendable, R: Sendable>(
    _ group: TurnGroup?, in version: @Sendable () async -> Version?,
    of value: (@Sendable (Version) -> Node)? = nil, turnMax: Duration = longTurnMax,
    _ body: @escaping @Sendable (Version, _ pause: () throws -> Void) throws -> R
  ) async throws -> R? {
    if let value {
      switch try await shortHash(group, in: version, of: value, body) {
      case .result(let result): return result
      case .noVersion: return nil
      case .isLong: break
      }
    }
    return try await hashWork.withTurn(of: group) { () -> R? in
      let owner = HashOwner()
      defer { withExtendedLifetime(owner) {} }
      let turns = TurnGroup(network: nil, connection: ObjectIdentifier(owner))
      let begun = try await longWork.withTurn(of: turns) { () -> (PacedWork<R>, R?)? in
        guard let version = await version() else { return nil }
        let work = PacedWork(turnMax: turnMax, elapsed: engine.elapsed) { try body(version, $0) }
        return (work, try await work.go())
      }
      guard let (work, first) = begun else { return nil }
      if let first { return first }
      return try await work.run(in: longWork, of: turns)
    }
  }

  private enum ShortHash<R: Sendable>: Sendable {
    case result(R)
    case noVersion
    /// The value is large.
    case isLong
  }

  /// Hashes a value in one turn, unless it is large.
  private func shortHash<Version: Sendable, R: Sendable>(
    _ group: TurnGroup?, in version: @Sendable () async -> Version?,
    of value: @escaping @Sendable (Version) -> Node,
    _ body: @escaping @Sendable (Version, _ pause: () throws -> Void) throws -> R
  ) async throws -> ShortHash<R> {
    try await shortHashWork.withTurn(of: group) {
      guard let version = await version() else { return .noVersion }
      return try await Operations.onWorker {
        guard value(version).fits(bytes: Operations.shortHashBytesMax) else { return .isLong }
        return .result(try body(version) {})
      }
    }
  }

  /// Returns the ETag of a large value that is not to change.
  ///
  /// - Throws: `WireError` if there is no thread; `CancellationError`.
  public func etag(of node: Node, _ group: TurnGroup?) async throws -> String {
    let etag = try await hashing(group, in: { node }, of: { $0 }) { node, pause in
      try node.etag(pausing: pause)
    }
    guard let etag else { throw WireError(.internalError, "the server made a mistake") }
    return etag
  }
}

/// Stands for the connection in the turns of one hash.
private final class HashOwner: Sendable {}

extension Node {
  /// The tag by which a client distinguishes versions of a value: its hash. An absent value has a tag as well.
  public var etag: String { isAbsent ? "null_etag" : hash }

  /// Returns `etag`.
  ///
  /// - Parameter pause: called often.
  /// - Throws: the error of `pause`.
  func etag(pausing pause: () throws -> Void) throws -> String {
    guard !isAbsent else { return etag }
    return try hash(pausing: pause)
  }
}
