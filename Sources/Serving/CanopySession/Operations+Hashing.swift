public import CanopyEngine
public import CanopyTree
internal import CanopyWire

/// Hashing large values, for ETags: see `Node.hash`. A value of 7 MB takes about half a second the first time.
extension Operations {
  /// The time after which hashing and decoding give their turn of long work back.
  public static let longTurnMax = Duration.milliseconds(10)

  /// Runs `body`, which hashes a value, as `beside` does, but in as many turns as it needs, each of `longTurnMax`. So
  /// long reads of other clients do not wait for it. One call at a time is under way, as it keeps a version of the tree
  /// between its turns.
  ///
  /// The other calls wait for the one that is under way. So it takes its turns of long work as a network of its own, and
  /// does not wait behind the other work of its client.
  ///
  /// - Parameters:
  ///   - group: the connection and its network, which share their turns.
  ///   - version: called in the first turn. Returns the present version of the tree or of a value, or nil if there is none.
  ///   - turnMax: the time after which a turn ends.
  ///   - body: gets the version, and a closure to call often.
  /// - Returns: nil if there is no version.
  /// - Throws: the error of `body`; `CancellationError` if the task is cancelled before a turn.
  public func hashing<Version: Sendable, R: Sendable>(
    _ group: TurnGroup?, in version: @Sendable () async -> Version?,
    turnMax: Duration = longTurnMax,
    _ body: @escaping @Sendable (Version, _ pause: () throws -> Void) throws -> R
  ) async throws -> R? {
    try await hashWork.withTurn(of: group) { () -> R? in
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

  /// Returns the ETag of a large value that is not to change.
  ///
  /// - Throws: `WireError` if there is no thread; `CancellationError`.
  public func etag(of node: Node, _ group: TurnGroup?) async throws -> String {
    let etag = try await hashing(group, in: { node }) { node, pause in
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
