/// The owners that wait for turns at the writer.
///
/// The network that has used the least time of the writer lately comes first, and within it the owner that has used the
/// least (see `LeastUsedFirst`). So a client gets no more time if it opens more accounts, which cost nothing, or sends
/// more expensive requests. An owner without a network counts as a network of its own.
///
/// A value type. Each operation costs O(log owners that wait) on average.
struct WriteTurns {
  private enum Group: Hashable {
    case network(String)
    case owner(WriteOwner)

    init(_ owner: WriteOwner) {
      self = owner.network.map(Group.network) ?? .owner(owner)
    }
  }

  private var groups = LeastUsedFirst<Group>()
  /// The owners of each network.
  private var owners: [String: LeastUsedFirst<WriteOwner>] = [:]
  /// The networks with turns that have not ended.
  private var inTurn: Set<String> = []
  private var tick = 0
  /// The number of owners that wait.
  private(set) var waiting = 0

  /// Whether no owner waits, and no used time still counts.
  var isForgotten: Bool { groups.isForgotten && owners.isEmpty }

  /// Whether an owner, or its network, has used time that still counts. O(1) on average.
  func knows(_ owner: WriteOwner) -> Bool { groups.knows(Group(owner)) }

  /// Sets the time of the clock. O(owners) if another second has begun, else O(networks).
  mutating func advance(to time: Duration) {
    let (seconds, attoseconds) = time.components
    let ticks = Int64(UsedTime.ticksPerSecond)
    let (whole, overflow) = seconds.multipliedReportingOverflow(by: ticks)
    guard !overflow else { return }
    let part = attoseconds / (1_000_000_000_000_000_000 / ticks)
    let tick = Int(clamping: whole.addingReportingOverflow(part).partialValue)
    guard tick > self.tick else { return }
    self.tick = tick
    groups.advance(to: tick)
    for network in owners.keys {
      owners[network]?.advance(to: tick)
      if owners[network]?.isForgotten == true { owners[network] = nil }
    }
  }

  /// Notes that an owner waits for a turn, if it does not wait already.
  mutating func wait(_ owner: WriteOwner) {
    var isNew = true
    if let network = owner.network {
      isNew = withOwners(of: network) { $0.wait(owner) }
      groups.wait(.network(network))
    } else {
      isNew = groups.wait(.owner(owner))
    }
    if isNew { waiting += 1 }
  }

  /// Removes and returns the owner whose turn it is; nil if none waits.
  mutating func next() -> WriteOwner? {
    guard let group = groups.next() else { return nil }
    waiting -= 1
    guard case .network(let network) = group else {
      guard case .owner(let owner) = group else { return nil }
      return owner
    }
    let (owner, isLast) = withOwners(of: network) { ($0.next(), $0.waiting == 0) }
    inTurn.insert(network)
    if !isLast { groups.wait(group) }
    return owner
  }

  /// Ends the turns that were taken: charges the owners of those that were carried out.
  mutating func endTurns(_ served: [(owner: WriteOwner, time: Duration)]) {
    for (owner, time) in served {
      groups.charge(Group(owner), time)
      guard let network = owner.network else { continue }
      withOwners(of: network) { $0.charge(owner, time) }
      inTurn.insert(network)
    }
    groups.endTurns()
    for network in inTurn { withOwners(of: network) { $0.endTurns() } }
    inTurn.removeAll(keepingCapacity: true)
  }

  @discardableResult
  private mutating func withOwners<R>(
    of network: String, _ body: (inout LeastUsedFirst<WriteOwner>) -> R
  ) -> R {
    if owners[network] == nil {
      owners[network] = LeastUsedFirst()
      owners[network]?.advance(to: tick)
    }
    return body(&owners[network, default: LeastUsedFirst()])
  }
}
