internal import CanopyTree

/// The transactions that have not ended.
///
/// Transactions of overlapping locations happen one after the other, in the order in which they began:
/// each sees what those before it wrote, and waits for them to be confirmed before it is sent. Those of
/// one location that wait at the same time are sent as one.
struct TransactionQueue: Sendable {
  /// How often a transaction is sent before it is given up.
  static let attemptsMax = 25

  enum State: Sendable {
    /// Its function has been asked for, and has not returned.
    case running
    /// It has something to send.
    case ready
    /// It waits for the answer of the server.
    case sent
    /// The same; should the server not take it, it is not tried again, as something else was written
    /// at its location since.
    case overridden

    var isSent: Bool { self == .sent || self == .overridden }
  }

  /// One transaction.
  struct Transaction: Sendable {
    let id: TransactionID
    let path: Path
    let hasLocalEvents: Bool
    /// Its place in the order of the pending writes, from its beginning.
    let writeID: WriteID
    var state = State.running
    /// The number of the present call of its function.
    var attempt = 1
    /// How often it was sent.
    var sends = 0
    /// What its function was given.
    var current: Node
    /// What the server said stands there when it did not take it, or took the one before.
    var told: Node?
    /// What its function returned.
    var output: WriteValue?
  }

  private(set) var all: [TransactionID: Transaction] = [:]
  private var places = PathTrie<[TransactionID]>()
  private var next: Int64 = 1
  /// Those that have something to send.
  private(set) var ready: Set<TransactionID> = []
  /// Those that are sent as one, by the first of them.
  private var batches: [TransactionID: [TransactionID]] = [:]

  subscript(id: TransactionID) -> Transaction? { all[id] }

  mutating func begin(
    at path: Path, hasLocalEvents: Bool, writeID: WriteID, current: Node
  ) -> Transaction {
    let id = TransactionID(number: next)
    next += 1
    let transaction = Transaction(
      id: id, path: path, hasLocalEvents: hasLocalEvents, writeID: writeID, current: current)
    all[id] = transaction
    places.modify(path) { $0 = ($0 ?? []) + [id] }
    return transaction
  }

  mutating func update(_ transaction: Transaction) {
    guard all[transaction.id] != nil else { return }
    all[transaction.id] = transaction
    if transaction.state == .ready {
      ready.insert(transaction.id)
    } else {
      ready.remove(transaction.id)
    }
  }

  mutating func remove(_ id: TransactionID) -> Transaction? {
    guard let transaction = all.removeValue(forKey: id) else { return nil }
    ready.remove(id)
    places.modify(transaction.path) { ids in
      ids?.removeAll { $0 == id }
      if ids?.isEmpty == true { ids = nil }
    }
    return transaction
  }

  /// The transactions at, above and below a path, in order.
  func overlapping(_ path: Path) -> [TransactionID] {
    guard !places.isEmpty else { return [] }
    var found: [TransactionID] = []
    places.forEach(onTheWayTo: path) { depth, ids in
      if depth < path.count { found += ids }
      return true
    }
    places.below(path)?.forEach { found += $0 }
    return found.sorted()
  }

  /// The next transactions that can be sent as one: the first that has something to send and waits for
  /// no other, with those right behind it at its location.
  func nextBatch() -> [Transaction] {
    for id in ready.sorted() {
      guard let first = all[id] else { continue }
      let neighbours = overlapping(first.path)
      guard neighbours.first == id else { continue }
      var batch = [first]
      for other in neighbours.dropFirst() {
        // An increment counts from what the server has, and not from what an earlier one of these wrote.
        guard let other = all[other], other.path == first.path, other.state == .ready,
          other.output?.serverValues.isEmpty ?? false
        else { break }
        batch.append(other)
      }
      return batch
    }
    return []
  }

  mutating func send(_ batch: [Transaction]) {
    for var transaction in batch {
      transaction.state = .sent
      transaction.sends += 1
      update(transaction)
    }
    if let first = batch.first { batches[first.id] = batch.map(\.id) }
  }

  /// Those that were sent as one; none if the answer is to something that is not waited for.
  mutating func answered(_ first: TransactionID) -> [Transaction] {
    (batches.removeValue(forKey: first) ?? []).compactMap { all[$0] }
  }

  /// Forgets what was sent.
  ///
  /// - Returns: what was.
  mutating func recall() -> [Transaction] {
    batches = [:]
    return all.values.filter(\.state.isSent).sorted { $0.id < $1.id }
  }
}
