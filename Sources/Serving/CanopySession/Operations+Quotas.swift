internal import CanopyAccounts
internal import CanopyEngine
internal import CanopyTree
internal import CanopyWire

/// The admission of writes: the same for all protocols. The free space of the disk comes first, and then the quotas.
extension Operations {
  /// The bytes of a write that are measured on the caller's thread. The others are measured where the write is made, and
  /// count then.
  static let bytesCountedAtOnceMax = Operations.bytesEncodedAtOnceMax

  /// Returns the owner for which the writes of a caller count.
  ///
  /// - Parameters:
  ///   - address: the address of the client.
  ///   - turns: its connection and its network.
  func quotaOwner(
    _ identity: Identity, at address: String, _ turns: TurnGroup?
  ) -> WriteQuotas.Owner {
    guard let quotas else { return WriteQuotas.Owner() }
    if case .administrator = identity { return WriteQuotas.Owner() }
    var user: Key?
    if let session = identity.session, session.isValid(at: now()) { user = session.uid }
    guard let turns else {
      let network = RemoteNetwork(address)
      return quotas.owner(user: user, network: network.isThisMachine ? nil : "\(network)")
    }
    return quotas.owner(user: user, network: turns.network)
  }

  /// Admits a write, and counts it.
  ///
  /// - Throws: `WireError` if the write is refused for now.
  func admit(
    _ request: WriteRequest, as identity: Identity, for owner: WriteQuotas.Owner
  ) throws(WireError) {
    var origin: WriteOrigin?
    if case .once(let sent, _) = request {
      origin = sent
      origin?.owner = self.owner(identity)
    }
    try checkFreeSpace(as: identity, isRemoval: request.isRemoval, once: origin)
    // A write of an exempt caller has no bytes to count, but must not overtake one that was refused for lack of space.
    guard let quotas else { return }
    let bytes = owner.isExempt ? 0 : request.bytes(atMost: Operations.bytesCountedAtOnceMax)
    if let refusal = quotas.admit(owner, bytes: bytes, once: origin, now: now()) { throw refusal }
  }

  /// Admits an on-disconnect write that is to be set, and counts it.
  ///
  /// - Parameter bytes: the bytes of its request.
  /// - Throws: `WireError` if it is refused for now.
  func admit(
    onDisconnect request: DisconnectRequest, bytes: Int, as identity: Identity,
    for owner: WriteQuotas.Owner
  ) throws(WireError) {
    // A cancellation frees what a request has taken.
    if case .cancel = request { return }
    try checkFreeSpace(as: identity, isRemoval: request.isRemoval, once: nil)
    guard let quotas, !owner.isExempt else { return }
    if let refusal = quotas.admit(owner, bytes: bytes, once: nil, now: now()) { throw refusal }
  }

  /// Counts the bytes of a large write that `admit` has not counted. O(size).
  func countRest(of request: TreeWrite, for owner: WriteQuotas.Owner) {
    guard let quotas, !owner.isExempt else { return }
    let bytes = request.bytes(atMost: .max / 2)
    quotas.charge(owner, bytes: bytes - Operations.bytesCountedAtOnceMax, now: now())
  }

  /// - Throws: `WireError` if the disk is almost full, unless the administrator removes data.
  private func checkFreeSpace(
    as identity: Identity, isRemoval: @autoclosure () -> Bool, once origin: WriteOrigin?
  ) throws(WireError) {
    guard freeSpace.isLow else { return }
    if case .administrator = identity, isRemoval() { return }
    if let origin { quotas?.noteRefusal(of: origin, now: now()) }
    throw freeSpace.refuse()
  }
}
