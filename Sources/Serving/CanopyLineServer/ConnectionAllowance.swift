internal import CanopyAccounts
internal import CanopyWire

/// The number of connections there are, in all and of each remote network, and the bounds on both.
///
/// A value without I/O. Connections from this machine count for the bound on all, not for the bound
/// on each network: they are of local programs and proxies, behind which there may be many people.
/// O(1) for each connection; memory is bounded by the number of connections.
struct ConnectionAllowance: Sendable {
  /// The reason for which a connection is refused.
  enum Refusal: Sendable {
    /// The server has as many connections as it takes.
    case total
    /// The remote network has as many connections as one may have.
    case network
  }

  private let connectionsMax: Int
  private let perNetworkMax: Int
  private(set) var count = 0
  private var counts: [RemoteNetwork: Int] = [:]

  init(connectionsMax: Int, perNetworkMax: Int) {
    self.connectionsMax = connectionsMax
    self.perNetworkMax = perNetworkMax
  }

  /// Remote networks that are counted.
  var networkCount: Int { counts.count }

  /// Counts a connection, or says why it is refused.
  mutating func enter(_ network: RemoteNetwork) -> Refusal? {
    guard count < connectionsMax else { return .total }
    if !network.isThisMachine {
      let own = counts[network] ?? 0
      guard own < perNetworkMax else { return .network }
      counts[network] = own + 1
    }
    count += 1
    return nil
  }

  /// Stops counting a connection that was let in.
  mutating func leave(_ network: RemoteNetwork) {
    count -= 1
    assert(count >= 0)
    guard !network.isThisMachine, let own = counts[network] else { return }
    counts[network] = own > 1 ? own - 1 : nil
  }
}

extension ConnectionAllowance.Refusal {
  /// The error for the refused connection.
  var error: WireError {
    switch self {
    case .total:
      WireError(.overloaded, "the server has as many connections as it takes; try again later")
    case .network:
      WireError(
        .overloaded,
        "your network address has as many connections as one may have; close some first")
    }
  }
}
