public import CanopyTree

/// The writer of a transaction. When the engine has more to do than fits in a batch, it serves its writers in turn.
public enum WriteOwner: Hashable, Sendable {
  /// The server itself, and its administrator.
  case server
  /// A user, on all connections from one remote network. The network is nil for this machine, because its connections
  /// may serve many people.
  case user(Key, network: String? = nil)
  /// All clients of an address that have not logged in, and its remote network.
  case address(String, network: String? = nil)

  /// The remote network.
  var network: String? {
    switch self {
    case .server: nil
    case .user(_, let network), .address(_, let network): network
    }
  }
}
