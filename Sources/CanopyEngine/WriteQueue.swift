public import CanopyTree

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
/// each in its own order. So an owner with many requests delays the others by one batch, and the count of its own
/// is bounded.
///
/// A value type. `add` and each request that is taken cost O(1) on average.
struct WriteQueue {
  private struct Entry {
    let owner: WriteOwner
    let request: any PendingRequest
  }

  /// The requests of one owner that did not fit in a batch, and the index of the first one that is not taken.
  private struct Lane {
    var requests: [any PendingRequest] = []
    var first = 0

    var count: Int { requests.count - first }
  }

  private let countMax: Int
  /// The requests that came since the last batch was taken.
  private var arrived: [Entry] = []
  private var lanes: [WriteOwner: Lane] = [:]
  /// The owners with a lane, in the order of their turns.
  private var turns: [WriteOwner] = []
  /// The number of requests in lanes.
  private var waiting = 0

  /// One owner may have one of so many shares of the queue.
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
  mutating func takeBatch(atMost batchMax: Int) -> [any PendingRequest] {
    var batch: [any PendingRequest] = []
    if lanes.isEmpty && arrived.count <= batchMax {
      batch.reserveCapacity(arrived.count)
      for entry in arrived { batch.append(entry.request) }
      arrived.removeAll(keepingCapacity: true)
      return batch
    }
    divide()
    while batch.count < batchMax, !turns.isEmpty {
      // One round: a request of each owner.
      var left: [WriteOwner] = []
      left.reserveCapacity(turns.count)
      for (index, owner) in turns.enumerated() {
        guard batch.count < batchMax else {
          // The others come first in the next batch.
          left = turns[index...] + left
          break
        }
        if let request = takeFirst(of: owner) { batch.append(request) }
        if lanes[owner] != nil { left.append(owner) }
      }
      turns = left
    }
    assert(waiting == lanes.values.reduce(0) { $0 + $1.count } && turns.count == lanes.count)
    return batch
  }

  /// Removes and returns all requests.
  mutating func takeAll() -> [any PendingRequest] {
    takeBatch(atMost: .max)
  }

  /// Moves the requests that came into the lanes of their owners.
  private mutating func divide() {
    for entry in arrived {
      if lanes[entry.owner] == nil { turns.append(entry.owner) }
      lanes[entry.owner, default: Lane()].requests.append(entry.request)
    }
    waiting += arrived.count
    arrived.removeAll(keepingCapacity: true)
  }

  private mutating func takeFirst(of owner: WriteOwner) -> (any PendingRequest)? {
    // Taken out while it changes, so that its array is not copied.
    guard var lane = lanes.removeValue(forKey: owner), lane.count > 0 else { return nil }
    let request = lane.requests[lane.first]
    lane.first += 1
    waiting -= 1
    if lane.count > 0 {
      if lane.first >= 1024, lane.first * 2 >= lane.requests.count {
        lane.requests.removeFirst(lane.first)
        lane.first = 0
      }
      lanes[owner] = lane
    }
    return request
  }
}
