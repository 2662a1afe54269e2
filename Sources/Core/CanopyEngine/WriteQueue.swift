public import CanopyTree
internal import DequeModule

/// The requests that wait for the engine's thread.
///
/// The engine serves requests in their order while they fit in one batch and no owner among them has used much time
/// lately. Otherwise it serves the owners in turn, and the requests of each owner in their order. Turns go by time and
/// not by requests: the engine reports how long each request held the writer. The owner that has used the least time
/// lately is served first, by network and then by account (see `WriteTurns`).
///
/// This is fair for the following reasons.
/// - An owner that sends one small request at a time has used less than its share. So each of its requests is served in
///   the next batch, before the requests of all owners that have used more.
/// - Owners that always wait use the same time, because an owner that has used more waits until the others have used as
///   much.
/// - A rest gives an owner no advantage: its amount falls only to that of a new owner. Many requests give it none
///   either: the number of its own is bounded.
/// - No owner waits for ever, because its amount falls to that of a new owner too.
///
/// A value type. `add` costs O(1) on average. Beyond one batch, each request that is taken, and each that is put back,
/// costs O(log owners that wait).
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
  /// The owners with a lane.
  private var turns = WriteTurns()
  /// The number of requests in lanes.
  private var waiting = 0

  /// The number of equal shares of the queue. One owner may fill one share.
  private static let shares = 8
  /// The requests that are not counted by owner in any case: counting fewer would change the order of small queues.
  private static let undividedMax = 64

  private var share: Int { max(1, countMax / WriteQueue.shares) }

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
    // Counted by owner, before one of them fills the queue while a batch takes long.
    if arrived.count >= max(share, WriteQueue.undividedMax) { divide() }
    guard hasRoom(for: owner) else { return false }
    arrived.append(Entry(owner: owner, request: request))
    return true
  }

  /// Adds a request whatever the bound is.
  mutating func add(own request: any PendingRequest, of owner: WriteOwner = .server) {
    arrived.append(Entry(owner: owner, request: request))
  }

  private func hasRoom(for owner: WriteOwner) -> Bool {
    if lanes.isEmpty { return arrived.count < countMax }
    let own = lanes[owner]?.count ?? 0
    if own >= share { return false }
    // The latest requests are not counted by owner.
    return count < countMax || (own == 0 && arrived.count < countMax)
  }

  /// Removes and returns the requests of the next batch, at most `batchMax`. `endBatch` must follow if the owners are served
  /// in turn.
  ///
  /// - Parameter time: the time of the engine's clock, which never goes back.
  mutating func takeBatch(atMost batchMax: Int, at time: Duration) -> Requests {
    turns.advance(to: time)
    var batch = Requests()
    // All requests fit, and their owners have used equal time.
    if lanes.isEmpty, arrived.count <= batchMax,
      arrived.count < 2 || turns.isForgotten || !arrived.contains(where: { turns.knows($0.owner) })
    {
      swap(&batch.entries, &arrived)
      arrived.reserveCapacity(batch.entries.count)
      return batch
    }
    batch.isInTurn = true
    divide()
    while batch.entries.count < batchMax, let owner = turns.next() {
      if let request = takeFirst(of: owner) {
        batch.entries.append(Entry(owner: owner, request: request))
      }
      if lanes[owner] != nil { turns.wait(owner) }
    }
    assertIsConsistent()
    return batch
  }

  /// The requests of a batch.
  struct Requests {
    var entries: [Entry] = []
    /// Whether the owners are served in turn.
    var isInTurn = false
  }

  /// Removes and returns all requests.
  mutating func takeAll() -> [Entry] {
    let all = takeBatch(atMost: .max, at: .zero)
    if all.isInTurn { turns.endTurns([]) }
    return all.entries
  }

  /// Ends a batch: charges the owners of its requests, and takes back those that were not carried out, because the batch
  /// took too long.
  ///
  /// - Parameters:
  ///   - served: the owners of the requests that were carried out, or a part of them, with the time that each took.
  ///   - unserved: the other requests in the order in which they were taken. They come before the later ones of their
  ///     owners, and their owners keep their places among those that have used as much time. A request of which a part was
  ///     carried out is among them.
  mutating func endBatch(
    _ served: [(owner: WriteOwner, time: Duration)],
    unserved: some BidirectionalCollection<Entry>
  ) {
    for entry in unserved.reversed() {
      lanes[entry.owner, default: []].prepend(entry.request)
    }
    waiting += unserved.count
    for entry in unserved { turns.wait(entry.owner) }
    turns.endTurns(served)
    assertIsConsistent()
  }

  private func assertIsConsistent() {
    assert(
      waiting == lanes.values.reduce(0) { $0 + $1.count } && turns.waiting == lanes.count,
      "each owner with a lane waits for a turn")
  }

  /// Moves the requests that came since the last batch into the lanes of their owners.
  private mutating func divide() {
    for entry in arrived {
      lanes[entry.owner, default: []].append(entry.request)
      turns.wait(entry.owner)
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
