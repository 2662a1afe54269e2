package import CanopyAccounts
package import CanopyWire

/// The number of connections, in all and of each remote network, and the bounds on both.
///
/// A value without I/O. Connections from this machine count for the bound on all, but not for the
/// bound on each network: a local proxy may serve many people. Each operation costs O(1). The number
/// of connections bounds the memory.
package struct ConnectionAllowance: Sendable {
  /// The reason why a connection is refused.
  package enum Refusal: Sendable {
    /// The server has as many connections as it allows.
    case total
    /// The remote network has as many connections as a network may have.
    case network
  }

  private let connectionsMax: Int
  private let perNetworkMax: Int
  package private(set) var count = 0
  private var counts: [RemoteNetwork: Int] = [:]

  package init(connectionsMax: Int, perNetworkMax: Int) {
    self.connectionsMax = connectionsMax
    self.perNetworkMax = perNetworkMax
  }

  /// The number of remote networks that have connections.
  package var networkCount: Int { counts.count }

  /// Counts a connection. Returns the reason if it is refused, and nil otherwise.
  package mutating func enter(_ network: RemoteNetwork) -> Refusal? {
    guard count < connectionsMax else { return .total }
    if !network.isThisMachine {
      let own = counts[network] ?? 0
      guard own < perNetworkMax else { return .network }
      counts[network] = own + 1
    }
    count += 1
    return nil
  }

  /// Stops counting a connection that `enter` has accepted.
  package mutating func leave(_ network: RemoteNetwork) {
    count -= 1
    assert(count >= 0)
    guard !network.isThisMachine, let own = counts[network] else { return }
    counts[network] = own > 1 ? own - 1 : nil
  }
}

extension ConnectionAllowance.Refusal {
  /// The error for the refused connection.
  package var error: WireError {
    switch self {
    case .total:
      WireError(.overloaded, "the server has as many connections as it allows; try again later")
    case .network:
      WireError(
        .overloaded,
        "your network address has as many connections as one address may have; close some first")
    }
  }
}
