internal import CanopyAccounts
public import CanopyEngine
internal import CanopyTree
public import CanopyWire

/// The admission of writes: the same for all protocols. The free space of the disk and the bound on the tree come first,
/// and then the quotas.
extension Operations {
  /// The bytes of a write to the tree that are measured on the caller's thread. The others are measured where the write is
  /// made, and count then.
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

  /// Checks that the quotas have room for any write of a caller, before the data of a long one is decoded.
  ///
  /// - Parameters:
  ///   - address: the address of the client.
  ///   - turns: its connection and its network.
  /// - Throws: `WireError` if all writes of the caller are refused for now.
  public func checkQuotas(
    of identity: Identity, at address: String, _ turns: TurnGroup?
  ) throws(WireError) {
    if let refusal = quotas?.refuse(quotaOwner(identity, at: address, turns), now: now()) {
      throw refusal
    }
  }

  /// Admits a write, and counts it.
  ///
  /// - Parameter origin: identifies a write that its client may send again; nil for others.
  /// - Throws: `WireError` if the write is refused for now.
  func admit(
    _ request: WriteRequest, as identity: Identity, for owner: WriteQuotas.Owner,
    once origin: WriteOrigin? = nil
  ) throws(WireError) {
    // It is refused with an error of its own, and has no bytes to count.
    if case .undecoded = request { return }
    try checkFreeSpace(as: identity, isRemoval: request.isRemoval)
    let counts = quotas?.countsGrowth(of: owner) == true
    let growth =
      counts || tree?.isFull == true
      ? request.growth(over: engine.root, by: identity.session?.uid) : 0
    try checkTree(as: identity, growth: growth)
    let bytes = owner.isExempt ? 0 : request.bytes(atMost: Operations.bytesCountedAtOnceMax)
    if let refusal = writeOrder.admit(
      origin, of: owner, bytes: bytes, growth: growth, by: quotas, now: now())
    {
      throw refusal
    }
  }

  /// Admits a request that sets or cancels on-disconnect writes, and counts it.
  ///
  /// A cancellation counts as well: each changes the store, and a client may cancel the locations of one write one by one.
  ///
  /// - Parameter bytes: the bytes of the request.
  /// - Throws: `WireError` if it is refused for now.
  func admit(
    onDisconnect request: DisconnectRequest, bytes: Int, as identity: Identity,
    for owner: WriteQuotas.Owner
  ) throws(WireError) {
    var growth = 0
    switch request {
    // It frees what a request has taken.
    case .cancel: break
    case .set, .update:
      try checkFreeSpace(as: identity, isRemoval: request.isRemoval)
      if !request.isRemoval, quotas?.countsGrowth(of: owner) == true || tree?.isFull == true {
        let values = request.treeWrite?.growthAtOnce(over: engine.root) ?? 0
        growth = max(values, bytes + request.locationCount * 64)
      }
      try checkTree(as: identity, growth: growth)
    }
    guard let quotas, !owner.isExempt else { return }
    if let refusal = quotas.admit(owner, bytes: bytes, growth: growth, now: now()) {
      throw refusal
    }
  }

  /// The bytes of the paths of leaves for which a write counts one byte, if it has less data. The checkpoint has each leaf
  /// of a large branch with its whole path.
  static let leafPathBytesPerCountedByte = 8

  /// Returns the write of a request that was admitted. Counts the paths of its leaves if they are much longer than the
  /// request.
  ///
  /// - Complexity: O(locations) if the values are small; else O(size).
  /// - Throws: `TreeError`, as `TreeWrite.made` does.
  func made(_ request: TreeWrite, for owner: WriteQuotas.Owner) throws -> Write {
    let (write, leafPathBytes) = try request.made(limits)
    guard leafPathBytes > 0, let quotas, !owner.isExempt else { return write }
    let bytes = leafPathBytes / Operations.leafPathBytesPerCountedByte
    quotas.charge(owner, bytes: bytes - request.bytes(atMost: bytes), now: now())
    return write
  }

  /// Counts the bytes that a commit has besides those of its write: priorities, and the memory of branches that it has
  /// unpacked. Only the engine knows them, because earlier writes may be under way when a write is admitted.
  func count<Result: Sendable>(_ committed: Committed<Result>, for owner: WriteQuotas.Owner) {
    count(priorityBytes: committed.priorityBytes, for: owner)
    count(unpackedBytes: committed.unpackedBytes, for: owner.network)
  }

  /// Counts the memory of branches that a commit has unpacked: see `Committed.unpackedBytes`.
  ///
  /// - Parameter network: the remote network whose write it was; nil for this machine.
  func count(unpackedBytes bytes: Int, for network: String?) {
    if bytes > 0 {
      quotas?.charge(WriteQuotas.Owner(network: network), growth: bytes, now: now())
    }
  }

  /// Counts the priorities that a commit has besides those of its write: see `Committed.priorityBytes`.
  func count(priorityBytes bytes: Int, for owner: WriteQuotas.Owner) {
    if bytes > 0 { quotas?.charge(owner, bytes: bytes, now: now()) }
  }

  /// Counts the bytes of a large write that `admit` has not counted. O(size).
  func countRest(of request: TreeWrite, for owner: WriteQuotas.Owner) {
    guard let quotas, !owner.isExempt else { return }
    let bytes = request.bytes(atMost: .max / 2)
    quotas.charge(owner, bytes: bytes - Operations.bytesCountedAtOnceMax, now: now())
    guard quotas.countsGrowth(of: owner) else { return }
    quotas.charge(owner, growth: request.growthLater(over: engine.root), now: now())
  }

  /// Counts the bytes that a request for on-disconnect writes adds to the tree and that `admit` has not counted. O(size)
  func countRest(of request: DisconnectRequest, for owner: WriteQuotas.Owner) {
    guard let quotas, quotas.countsGrowth(of: owner), let write = request.treeWrite else { return }
    quotas.charge(owner, growth: write.growthLater(over: engine.root), now: now())
  }

  /// - Throws: `WireError` if the trees have reached their bound and the write makes one larger, unless it is the
  ///   administrator's.
  private func checkTree(as identity: Identity, growth: Int) throws(WireError) {
    guard let tree, tree.isFull, growth > 0 else { return }
    if case .administrator = identity { return }
    throw tree.refuse()
  }

  /// - Throws: `WireError` if the disk is almost full, unless the administrator removes data.
  private func checkFreeSpace(
    as identity: Identity, isRemoval: @autoclosure () -> Bool
  ) throws(WireError) {
    guard freeSpace.isLow else { return }
    if case .administrator = identity, isRemoval() { return }
    throw freeSpace.refuse()
  }
}
