public import CanopyTree
internal import DequeModule

/// The writer of a transaction. When the engine has more to do than fits in a batch, it serves its writers in turn.
public enum WriteOwner: Hashable, Sendable {
  /// The server itself, and its administrator.
  case server
  /// A user on all their connections.
  case user(Key)
  /// All clients of an address that have not logged in.
  case address(String)
}

/// The requests that wait for the engine's thread.
///
/// Requests are served in their order while they fit in one batch. Beyond that the owners are served in turn, and
/// each in its own order. So an owner with many requests, or with expensive ones, delays the others by one batch, and
/// the count of its own is bounded.
///
/// A value type. `add` and each request that is taken cost O(1) on average; `putBack` costs O(requests put back, and
/// owners that wait).
struct WriteQueue {
  /// A request with its owner.
  struct Entry {
    let owner: WriteOwner
    let request: any PendingRequest
  }

  private let countMax: Int
  /// The requests that came since the last batch was taken.
  private var arrived: [Entry] = []
  /// The requests that did not fit in a batch, by owner. A taken request is removed at once, because it may hold a
  /// large write.
  private var lanes: [WriteOwner: Deque<any PendingRequest>] = [:]
  /// The owners with a lane, in the order of their turns.
  private var turns: Deque<WriteOwner> = []
  /// The number of requests in lanes.
  private var waiting = 0

  /// The number of equal shares of the queue. One owner may fill one share.
  private static let shares = 8

  init(countMax: Int) {
    self.countMax = max(1, countMax)
  }

  /// The number of requests.
  var count: Int { arrived.count + waiting }

  var isEmpty: Bool { arrived.isEmpty && waiting == 0 }

  /// Adds a request, unless the queue is full or its owner has more than a share of it.
  ///
  /// A full queue still takes requests of an owner that has few.
  mutating func add(_ request: any PendingRequest, of owner: WriteOwner) -> Bool {
    guard hasRoom(for: owner) else { return false }
    arrived.append(Entry(owner: owner, request: request))
    return true
  }

  /// Adds a request whatever the bound is.
  mutating func add(own request: any PendingRequest) {
    arrived.append(Entry(owner: .server, request: request))
  }

  private func hasRoom(for owner: WriteOwner) -> Bool {
    if lanes.isEmpty { return arrived.count < countMax }
    let own = lanes[owner]?.count ?? 0
    if own >= max(1, countMax / WriteQueue.shares) { return false }
    // The requests that came since the last batch are not counted by owner.
    return count < countMax || (own == 0 && arrived.count < countMax)
  }

  /// Removes and returns the requests of the next batch, at most `batchMax`.
  mutating func takeBatch(atMost batchMax: Int) -> [Entry] {
    var batch: [Entry] = []
    if lanes.isEmpty && arrived.count <= batchMax {
      swap(&batch, &arrived)
      arrived.reserveCapacity(batch.count)
      return batch
    }
    divide()
    // One request of each owner in turn.
    while batch.count < batchMax, let owner = turns.popFirst() {
      if let request = takeFirst(of: owner) { batch.append(Entry(owner: owner, request: request)) }
      if lanes[owner] != nil { turns.append(owner) }
    }
    assertIsConsistent()
    return batch
  }

  /// Removes and returns all requests.
  mutating func takeAll() -> [Entry] {
    takeBatch(atMost: .max)
  }

  /// Returns requests that were taken and not carried out to the front of their owners' lanes: the batch took too long.
  /// Their owners keep the order of their turns, before all others.
  ///
  /// - Parameters:
  ///   - entries: in the order in which they were taken.
  ///   - isFirstUnfinished: whether a part of the first request was carried out. Then its owner has had a turn, and the
  ///     next one comes after those of all owners that wait.
  mutating func putBack(
    _ entries: some BidirectionalCollection<Entry>, isFirstUnfinished: Bool = false
  ) {
    guard !entries.isEmpty else { return }
    // All that came later stands behind them.
    divide()
    // If they went behind the others, an owner with one request could wait for ever: each batch would begin with
    // the next expensive request of the owner that was just served.
    var owners: [WriteOwner] = []
    var first: Set<WriteOwner> = []
    for entry in entries where first.insert(entry.owner).inserted { owners.append(entry.owner) }
    turns = Deque(owners + turns.filter { !first.contains($0) })
    if isFirstUnfinished, let served = turns.popFirst() { turns.append(served) }
    for entry in entries.reversed() {
      lanes[entry.owner, default: []].prepend(entry.request)
    }
    waiting += entries.count
    assertIsConsistent()
  }

  private func assertIsConsistent() {
    assert(waiting == lanes.values.reduce(0) { $0 + $1.count } && turns.count == lanes.count)
  }

  /// Moves the requests that came since the last batch into the lanes of their owners.
  private mutating func divide() {
    for entry in arrived {
      if lanes[entry.owner] == nil { turns.append(entry.owner) }
      lanes[entry.owner, default: []].append(entry.request)
    }
    waiting += arrived.count
    arrived.removeAll(keepingCapacity: true)
  }

  private mutating func takeFirst(of owner: WriteOwner) -> (any PendingRequest)? {
    // Removed while it changes, so that it is not copied.
    guard var lane = lanes.removeValue(forKey: owner), let request = lane.popFirst() else {
      return nil
    }
    waiting -= 1
    if !lane.isEmpty { lanes[owner] = lane }
    return request
  }
}
