internal import CanopyAccounts
internal import CanopySession
internal import CanopyWire

/// A connection that has a place among those that the server allows.
protocol PlaceHolder: AnyObject {
  /// The time at which its client last sent something or was answered. It never goes back.
  var lastUse: Int64 { get }
  /// Whether a request is under way, so that the connection must not be ended.
  var isBusy: Bool { get }
}

/// The number of connections, in all and of each remote network, the bounds on both, and the connections that may be
/// ended for newcomers.
///
///     var allowance = ConnectionAllowance<ConnectionPlace>(connectionsMax: 20_000, perNetworkMax: 256)
///     allowance.enter(7, place, from: network, shortage: nil, now: now)   // .admitted(ending: [])
///
/// When a bound on all connections is reached, a newcomer gets the place of another: that of the network with the most
/// connections which has been idle for longest. It must still have fewer connections from its network than the other
/// network has left; so a network keeps its only connection, and a network with the most gets no more.
///
/// A value without I/O. Connections from this machine count for the bound on all, but not for the bound on each network:
/// a local proxy may serve many people. The number of connections bounds the memory. `enter` and `leave` cost O(log n).
/// A choice costs O(log n) for each request that connections of the chosen network have made since an earlier choice,
/// and O(networks) if their connections are busy.
struct ConnectionAllowance<Place: PlaceHolder> {
  /// The reason why a connection is refused.
  enum Refusal: Sendable {
    /// The server has as many connections as it allows.
    case total
    /// The remote network has as many connections as a network may have.
    case network
    /// The other connections hold all the memory that they may.
    case memory
  }

  /// The outcome for a newcomer.
  enum Admission {
    /// It has a place. Those of some others end, and some that are ending must end at once.
    case admitted(ending: [Place], cutOff: [Place])
    case refused(Refusal)
  }

  /// The connections that may be ending at one time; beyond this number, the first of them are cut off. They hold
  /// descriptors besides those of `connectionsMax`.
  static var endingMax: Int { 16 }
  /// The connections that may be ending and cut off at one time; beyond this number, no newcomer replaces another.
  static var leavingMax: Int { 32 }
  /// The most places that a newcomer takes while idle connections hold too much memory: one, and another one for each
  /// `bytesPerPlace` too many.
  static var endedAtOnceMax: Int { 8 }
  static var bytesPerPlace: Int { 64 * 1024 }

  private let connectionsMax: Int
  private let perNetworkMax: Int
  /// The connections that have a place.
  private(set) var count = 0
  /// The connections that were ended for newcomers since the start.
  private(set) var endedCount = 0
  private var networks: [RemoteNetwork: Network] = [:]
  /// The networks by their number of connections.
  private var bySize: [Int: Set<RemoteNetwork>] = [:]
  /// The greatest number of connections of a network.
  private var largest = 0
  /// The connections that have lost their place and are not closed yet, oldest first.
  private var leaving: [(id: Int, place: Place)] = []
  /// The connections of the administrator.
  private var administrators: [Int: IdleHeap<Place>.Entry] = [:]

  private struct Network {
    var count = 0
    /// The connections by standing, but those of the administrator.
    var idle = [IdleHeap<Place>](repeating: IdleHeap(), count: 3)
    /// The standing of each connection.
    var standings: [Int: ConnectionPlace.Standing] = [:]

    /// Returns the connection that has been idle for longest, of those that would lose least; nil if all are busy.
    mutating func longestIdle(now: Int64) -> (id: Int, place: Place)? {
      for standing in idle.indices {
        if let found = idle[standing].longestIdle(now: now) { return found }
      }
      return nil
    }
  }

  init(connectionsMax: Int, perNetworkMax: Int) {
    self.connectionsMax = connectionsMax
    self.perNetworkMax = perNetworkMax
  }

  /// The number of remote networks that have connections.
  var networkCount: Int { networks.count }

  /// Counts a connection, or returns why it is refused.
  ///
  /// - Parameters:
  ///   - id: a number of its own.
  ///   - shortage: the lack of memory; nil if there is enough.
  ///   - now: the time, as that of `PlaceHolder.lastUse`.
  mutating func enter(
    _ id: Int, _ place: Place, from network: RemoteNetwork,
    shortage: MemoryBudget.Shortage? = nil, now: Int64
  ) -> Admission {
    let own = networks[network]?.count ?? 0
    guard network.isThisMachine || own < perNetworkMax else { return .refused(.network) }
    var wanted = max(0, count + 1 - connectionsMax)
    switch shortage {
    case .work: return .refused(.memory)
    case .idle(let excess):
      wanted = max(wanted, min(Self.endedAtOnceMax, 1 + excess / Self.bytesPerPlace))
    case nil: break
    }
    var ending: [Place] = []
    while ending.count < wanted, let other = takeIdle(below: own + 1, now: now) {
      ending.append(other)
    }
    if wanted > 0, ending.isEmpty || count >= connectionsMax {
      return .refused(count >= connectionsMax ? .total : .memory)
    }
    networks[network, default: Network()].idle[0].insert(place, id: id, time: place.lastUse)
    networks[network]?.standings[id] = .new
    resize(network, by: 1)
    return .admitted(ending: ending, cutOff: overdue(beside: ending.count))
  }

  /// Takes the place of the connection that has been idle for longest in the network with the most connections. Returns
  /// nil if no connection is idle. A listener calls this when it has no file descriptor for a newcomer.
  mutating func makeRoom(now: Int64) -> (ending: Place, cutOff: [Place])? {
    takeIdle(below: 1, now: now).map { ($0, overdue(beside: 1)) }
  }

  /// Stops counting a connection that `enter` has admitted, when it is closed.
  mutating func leave(_ id: Int, of network: RemoteNetwork) {
    if let index = leaving.firstIndex(where: { $0.id == id }) {
      leaving.remove(at: index)
      return
    }
    remove(id, of: network)
  }

  /// Changes the standing of a connection. Nothing happens if it has lost its place.
  mutating func move(
    _ id: Int, of network: RemoteNetwork, to standing: ConnectionPlace.Standing
  ) {
    guard let old = networks[network]?.standings[id], old != standing else { return }
    guard let entry = take(id, of: network, old) else { return }
    put(entry, of: network, standing)
  }

  private mutating func take(
    _ id: Int, of network: RemoteNetwork, _ standing: ConnectionPlace.Standing
  ) -> IdleHeap<Place>.Entry? {
    standing == .administrator
      ? administrators.removeValue(forKey: id)
      : networks[network]?.idle[standing.rawValue].remove(id)
  }

  private mutating func put(
    _ entry: IdleHeap<Place>.Entry, of network: RemoteNetwork, _ standing: ConnectionPlace.Standing
  ) {
    networks[network]?.standings[entry.id] = standing
    if standing == .administrator {
      administrators[entry.id] = entry
    } else {
      networks[network]?.idle[standing.rawValue].insert(entry)
    }
  }

  private mutating func remove(_ id: Int, of network: RemoteNetwork) {
    guard let standing = networks[network]?.standings.removeValue(forKey: id) else { return }
    _ = take(id, of: network, standing)
    resize(network, by: -1)
  }

  /// Changes the number of connections of a network by one. O(1).
  private mutating func resize(_ network: RemoteNetwork, by change: Int) {
    count += change
    let old = networks[network]?.count ?? 0
    let new = old + change
    assert(new >= 0 && count >= 0)
    bySize[old]?.remove(network)
    if bySize[old]?.isEmpty == true { bySize[old] = nil }
    networks[network]?.count = new
    if new == 0 { networks[network] = nil } else { bySize[new, default: []].insert(network) }
    // A network that was the largest alone now has one less, or is gone.
    if bySize[largest] == nil { largest = max(0, largest - 1) }
    largest = max(largest, new)
  }

  /// Takes the place of an idle connection of a network that keeps more than `size` connections without it.
  private mutating func takeIdle(below size: Int, now: Int64) -> Place? {
    guard leaving.count < Self.leavingMax,
      let (network, id, place) = findIdle(below: size, now: now)
    else { return nil }
    remove(id, of: network)
    leaving.append((id, place))
    endedCount += 1
    return place
  }

  private mutating func findIdle(
    below size: Int, now: Int64
  ) -> (network: RemoteNetwork, id: Int, place: Place)? {
    var candidate = largest
    while candidate > size {
      for network in bySize[candidate] ?? [] {
        if let (id, place) = networks[network]?.longestIdle(now: now) {
          return (network, id, place)
        }
      }
      candidate = sizeBelow(candidate)
    }
    return nil
  }

  /// Returns the next smaller number of connections that a network has, or 0 if no network has fewer. O(networks).
  private func sizeBelow(_ size: Int) -> Int {
    if bySize[size - 1] != nil { return size - 1 }
    return bySize.keys.reduce(0) { $1 < size ? max($0, $1) : $0 }
  }

  /// The connections that were ended before and must make room now for some more that are ending.
  private func overdue(beside count: Int) -> [Place] {
    leaving.dropLast(count).prefix(max(0, leaving.count - Self.endingMax)).map(\.place)
  }
}

/// Connections in the order of their last use.
///
/// A use changes nothing here. The time of an entry is that of an earlier use, and is corrected when the entry is looked
/// at.
struct IdleHeap<Place: PlaceHolder> {
  struct Entry {
    let id: Int
    let place: Place
    /// At most the time of the last use, unless the connection was busy.
    var time: Int64
  }

  /// The busy connections that are looked at for one choice. The next choice begins behind them.
  static var busyMax: Int { 32 }

  /// A binary heap: no entry is earlier than the one at half of its position.
  private var entries: [Entry] = []
  private var positions: [Int: Int] = [:]

  mutating func insert(_ place: Place, id: Int, time: Int64) {
    insert(Entry(id: id, place: place, time: time))
  }

  /// Adds an entry. O(log n).
  mutating func insert(_ entry: Entry) {
    entries.append(entry)
    positions[entry.id] = entries.count - 1
    rise(entries.count - 1)
  }

  /// Removes an entry. O(log n).
  mutating func remove(_ id: Int) -> Entry? {
    guard let position = positions.removeValue(forKey: id) else { return nil }
    let removed = entries[position]
    let last = entries.removeLast()
    if position < entries.count {
      entries[position] = last
      positions[last.id] = position
      rise(position)
      sink(position)
    }
    return removed
  }

  /// Returns the connection with the earliest last use; nil if all that were looked at are busy.
  ///
  /// - Complexity: O(log n) for each connection that was used since it was looked at.
  mutating func longestIdle(now: Int64) -> (id: Int, place: Place)? {
    var busyLeft = Self.busyMax
    while let first = entries.first {
      if first.place.isBusy {
        guard busyLeft > 0 else { return nil }
        busyLeft -= 1
        delay(until: max(now, first.time))
      } else if first.place.lastUse > first.time {
        delay(until: first.place.lastUse)
      } else {
        return (first.id, first.place)
      }
    }
    return nil
  }

  /// Changes the time of the first entry to a later one.
  private mutating func delay(until time: Int64) {
    entries[0].time = time
    sink(0)
  }

  private mutating func rise(_ start: Int) {
    var position = start
    while position > 0, isEarlier(position, (position - 1) / 2) {
      swap(position, (position - 1) / 2)
      position = (position - 1) / 2
    }
  }

  private mutating func sink(_ start: Int) {
    var position = start
    while true {
      var least = position
      for child in [2 * position + 1, 2 * position + 2]
      where child < entries.count && isEarlier(child, least) {
        least = child
      }
      guard least != position else { return }
      swap(position, least)
      position = least
    }
  }

  /// Whether an entry comes before another one; of equal times that of the older connection.
  private func isEarlier(_ a: Int, _ b: Int) -> Bool {
    (entries[a].time, entries[a].id) < (entries[b].time, entries[b].id)
  }

  private mutating func swap(_ a: Int, _ b: Int) {
    entries.swapAt(a, b)
    positions[entries[a].id] = a
    positions[entries[b].id] = b
  }
}

extension ConnectionAllowance.Refusal {
  /// The error for the refused connection.
  var error: WireError {
    switch self {
    case .total:
      WireError(.overloaded, "the server has as many connections as it allows; try again later")
    case .network:
      WireError(
        .overloaded,
        "your network address has as many connections as one address may have; close some first")
    case .memory: WireError(.overloaded, "the server is short of memory; try again later")
    }
  }
}
