internal import HeapModule

/// The connections in the order in which a `MemoryBudget` ends them: the largest one of the network whose connections
/// together hold the most. Each that is taken makes its network smaller. Among equals the older connection stays.
///
/// Bytes that a connection takes while it is idle do not count.
///
/// A value type. O(n log n) to create it with n connections, O(log networks) to take one.
struct LargestFirst {
  private struct Network: Comparable {
    /// The bytes of the connections below.
    var excess: Int
    /// The connections, the largest last.
    var connections: [(id: Int, candidate: MemoryBudget.Candidate)]

    private var largest: (Int, Int) {
      connections.last.map { ($0.candidate.amount.excess, $0.id) } ?? (0, 0)
    }

    static func < (left: Network, right: Network) -> Bool {
      left.excess == right.excess ? left.largest < right.largest : left.excess < right.excess
    }

    static func == (left: Network, right: Network) -> Bool {
      left.excess == right.excess && left.largest == right.largest
    }
  }

  private enum Name: Hashable {
    case network(String)
    case connection(Int)

    init(_ id: Int, _ candidate: MemoryBudget.Candidate) {
      self = candidate.network.map(Name.network) ?? .connection(id)
    }
  }

  private var networks: Heap<Network>

  /// Orders connections.
  init(_ candidates: [Int: MemoryBudget.Candidate]) {
    var networks: [Name: Network] = [:]
    for (id, candidate) in candidates {
      let name = Name(id, candidate)
      networks[name, default: Network(excess: 0, connections: [])].excess +=
        candidate.amount.excess
      networks[name]?.connections.append((id, candidate))
    }
    self.networks = Heap(
      networks.values.map { network in
        var network = network
        network.connections.sort {
          ($0.candidate.amount.excess, $0.id) < ($1.candidate.amount.excess, $1.id)
        }
        return network
      })
  }

  /// Removes and returns the next connection; nil if there is none.
  mutating func takeLargest() -> (id: Int, candidate: MemoryBudget.Candidate)? {
    guard var network = networks.popMax(), let largest = network.connections.popLast() else {
      return nil
    }
    network.excess -= largest.candidate.amount.excess
    if !network.connections.isEmpty { networks.insert(network) }
    return largest
  }

  /// Returns the least bytes of other connections that the order has before a connection. O(connections).
  static func bytes(
    before id: Int, _ candidate: MemoryBudget.Candidate,
    among others: [Int: MemoryBudget.Candidate]
  ) -> Int {
    /// The sum of a network, and its largest connection, with which the order begins.
    struct Sum {
      var excess = 0
      var largest = (excess: 0, id: 0, bytes: 0)
    }
    let own = Name(id, candidate)
    var ownExcess = candidate.amount.excess
    var bytes = 0
    var sums: [Name: Sum] = [:]
    for (otherID, other) in others where otherID != id {
      let (name, amount) = (Name(otherID, other), other.amount)
      guard name == own else {
        sums[name, default: Sum()].excess += amount.excess
        if let largest = sums[name]?.largest,
          (largest.excess, largest.id) < (amount.excess, otherID)
        {
          sums[name]?.largest = (amount.excess, otherID, amount.bytes)
        }
        continue
      }
      ownExcess += amount.excess
      if (amount.excess, otherID) > (candidate.amount.excess, id) { bytes += amount.bytes }
    }
    for sum in sums.values where (sum.excess, sum.largest.id) > (ownExcess, id) {
      // The order takes the largest one, and goes on until the network has no more than the connection's own.
      bytes += max(sum.largest.bytes, sum.excess - ownExcess)
    }
    return bytes
  }
}
