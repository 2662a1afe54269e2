public import CanopyEngine
internal import Synchronization

extension NodeJournal: SharedDisconnectStore {
  /// The milliseconds for which a lease holds.
  public static let leaseMilliseconds: Int64 = 15_000

  /// Reads a page of the writes of this node.
  public func disconnectWrites(
    after group: DisconnectWriteID, countMax: Int, bytesMax: Int
  ) async throws -> [DisconnectWrite] {
    try await pass()
    return memory.state.withLock { state in
      let own = state.disconnectWrites.filter { $0.owner == name }.map(\.write)
      return own.page(after: group, countMax: countMax, bytesMax: bytesMax)
    }
  }

  /// Reads the ids of the writes of this node.
  public func disconnectWriteIDs() async throws -> Set<DisconnectWriteID> {
    try await pass()
    return memory.state.withLock { state in
      Set(state.disconnectWrites.filter { $0.owner == name }.map(\.write.id))
    }
  }

  /// Changes the writes of this node.
  public func changeDisconnectWrites(
    adding request: (identity: String, request: String)?, to group: DisconnectWriteID?,
    exceptions: [DisconnectWriteID: [String]], removing removed: [DisconnectWriteID]
  ) async throws -> DisconnectWriteID? {
    try await pass()
    return memory.state.withLock { state in
      state.disconnectWrites.removeAll { $0.owner == name && removed.contains($0.write.id) }
      for index in state.disconnectWrites.indices where state.disconnectWrites[index].owner == name
      {
        let id = state.disconnectWrites[index].write.id
        state.disconnectWrites[index].write.exceptions += exceptions[id] ?? []
      }
      guard let request else { return nil }
      state.lastDisconnectID += 1
      let write = DisconnectWrite(
        id: state.lastDisconnectID, group: group, identity: request.identity,
        request: request.request)
      state.disconnectWrites.append((name, write))
      return state.lastDisconnectID
    }
  }

  /// Changes the identities of writes of this node.
  public func setDisconnectIdentities(_ identities: [DisconnectWriteID: String]) async throws {
    try await pass()
    memory.state.withLock { state in
      for index in state.disconnectWrites.indices where state.disconnectWrites[index].owner == name
      {
        guard let identity = identities[state.disconnectWrites[index].write.id] else { continue }
        state.disconnectWrites[index].write.identity = identity
      }
    }
  }

  /// Renews the lease by the clock of the database.
  public func renewLease() async throws -> Bool {
    try await pass()
    let now = memory.now()
    let isFirst = beginLease()
    return memory.state.withLock { state in
      let end = state.leases[name]
      state.leases[name] = now + NodeJournal.leaseMilliseconds
      return isFirst || end.map { now < $0 } ?? false
    }
  }

  /// Takes over writes of nodes whose lease has run out, and of nodes without a lease.
  public func takeOverDisconnectWrites(
    countMax: Int, bytesMax: Int
  ) async throws -> [DisconnectWrite] {
    try await pass()
    let now = memory.now()
    return memory.state.withLock { state in
      let isGone = state.disconnectWrites.map { entry in
        entry.owner != name && state.leases[entry.owner].map { $0 <= now } ?? true
      }
      let gone = zip(state.disconnectWrites, isGone).filter(\.1).map(\.0.write)
      let page = gone.page(after: .min, countMax: countMax, bytesMax: bytesMax)
      let ids = Set(page.map(\.id))
      for index in state.disconnectWrites.indices
      where ids.contains(state.disconnectWrites[index].write.id) {
        state.disconnectWrites[index].owner = name
      }
      return page
    }
  }
}

extension [DisconnectWrite] {
  /// Returns whole groups after one, in their order, until the page is full.
  func page(after group: DisconnectWriteID, countMax: Int, bytesMax: Int) -> [DisconnectWrite] {
    var page: [DisconnectWrite] = []
    var bytes = 0
    let writes = filter { $0.group > group }
    for write in writes.sorted(by: { ($0.group, $0.id) < ($1.group, $1.id) }) {
      let isSameGroup = page.last.map { $0.group == write.group } ?? true
      guard isSameGroup || page.count < countMax && bytes < bytesMax else { break }
      bytes += write.bytes
      page.append(write)
    }
    return page
  }
}
