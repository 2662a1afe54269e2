internal import Synchronization

/// Admits one task of each network at a time, beside those of other networks. The connections of a network take turns. A
/// connection from this machine counts as a network of its own.
///
/// Tasks that keep something for a long time, such as a thread, wait here. So an address keeps one, however many
/// connections it opens, and no other address waits for it.
public final class NetworkTurns: Sendable {
  private enum Network: Hashable {
    case remote(String)
    case local(ObjectIdentifier)

    init(_ group: TurnGroup) {
      self = group.network.map(Network.remote) ?? .local(group.connection)
    }
  }

  /// The turns of one network, and the number of its tasks that wait or are under way.
  private struct Lane {
    let queue = TurnQueue(width: 1)
    var tasks = 0
  }

  private let lanes = Mutex<[Network: Lane]>([:])

  /// Creates turns for all networks.
  public init() {}

  /// The number of networks with a task.
  public var networks: Int { lanes.withLock { $0.count } }

  /// Runs `body` when it is the caller's turn.
  ///
  /// - Parameter group: the connection and its network; nil for a task that waits for no other.
  /// - Throws: the error of `body`; `CancellationError` if the task is cancelled while it waits.
  public func withTurn<R: Sendable>(
    of group: TurnGroup?, _ body: () async throws -> R
  ) async throws -> R {
    guard let group else { return try await body() }
    let network = Network(group)
    let queue = lanes.withLock { lanes in
      lanes[network, default: Lane()].tasks += 1
      return lanes[network, default: Lane()].queue
    }
    defer {
      lanes.withLock { lanes in
        lanes[network]?.tasks -= 1
        if lanes[network]?.tasks == 0 { lanes[network] = nil }
      }
    }
    return try await queue.withTurn(of: group, body)
  }
}
