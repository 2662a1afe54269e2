internal import CanopyAccounts
public import CanopyEngine
public import CanopyIdentity

/// The turns of requests about accounts and tokens.
extension Operations {
  /// Returns the group in which requests of a network take turns, for requests whose connection is not known; nil for this
  /// machine, where each request has turns of its own.
  func turns(of network: RemoteNetwork) -> TurnGroup? {
    guard !network.isThisMachine else { return nil }
    return TurnGroup(network: "\(network)", connection: ObjectIdentifier(memory))
  }

  /// Returns the turns of the steps of an identity request that compute: those of `decodeBeside` from `longTextBytes` on,
  /// and those of `shortWork` for fewer.
  ///
  /// - Parameter group: the connection and its network, which share their turns; nil for a request of its own.
  public func computing(for group: TurnGroup?) -> ComputingTurns {
    ComputingTurns { [self] bytes, step in
      if bytes >= Operations.longTextBytes {
        try await decodeBeside(bytes: bytes, group) { step() }
      } else {
        try await shortWork.withTurn(of: group) { step() }
      }
    }
  }
}
