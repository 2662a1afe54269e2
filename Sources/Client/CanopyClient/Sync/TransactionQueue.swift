internal import CanopyTree

/// The transactions that have not ended.
///
/// Transactions of overlapping locations run one after the other, in the order in which they began:
/// each sees the results of the earlier ones, and is sent after they are confirmed. Waiting
/// transactions of one location are sent together.
struct TransactionQueue: Sendable {
  /// The number of times that a transaction is sent before it is abandoned.
  static let attemptsMax = 25

  enum State: Sendable {
    /// The function was requested and has not returned.
    case running
    /// The result is ready to be sent.
    case ready
    /// The result was sent and awaits a reply.
    case sent
    /// The result was sent; if the server refuses it, it is not tried again, because its location was
    /// written since.
    case overridden

    var isSent: Bool { self == .sent || self == .overridden }
  }

  /// One transaction.
  struct Transaction: Sendable {
    let id: TransactionID
    let path: Path
    let hasLocalEvents: Bool
    /// Its position in the order of the pending writes, from its beginning.
    let writeID: WriteID
    var state = State.running
    /// The number of the current call of its function.
    var attempt = 1
    /// The number of times it was sent.
    var sends = 0
    /// The input of its function.
    var current: Node
    /// The server's value of the location, from the reply to this or an earlier transaction.
    var reported: Node?
    /// The result of its function.
    var output: WriteValue?
  }

  private(set) var all: [TransactionID: Transaction] = [:]
  private var idsByPath = PathTrie<[TransactionID]>()
  private var next: Int64 = 1
  /// The transactions that are ready to be sent.
  private(set) var ready: Set<TransactionID> = []
  /// The transactions that were sent together, by the first of them.
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
    idsByPath.modify(at: path) { $0 = ($0 ?? []) + [id] }
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
    idsByPath.modify(at: transaction.path) { ids in
      ids?.removeAll { $0 == id }
      if ids?.isEmpty == true { ids = nil }
    }
    return transaction
  }

  /// Returns the transactions at, above and below a path, in order.
  func overlapping(_ path: Path) -> [TransactionID] {
    guard !idsByPath.isEmpty else { return [] }
    var found: [TransactionID] = []
    idsByPath.forEach(along: path) { depth, ids in
      if depth < path.count { found += ids }
      return true
    }
    idsByPath.subtrie(at: path)?.forEach { found += $0 }
    return found.sorted()
  }

  /// Returns the next transactions to send together: the first that is ready and waits for no
  /// other, and those directly after it at its location.
  func nextBatch() -> [Transaction] {
    for id in ready.sorted() {
      guard let first = all[id] else { continue }
      let neighbours = overlapping(first.path)
      guard neighbours.first == id else { continue }
      var batch = [first]
      for other in neighbours.dropFirst() {
        // An increment must apply to the server's value, not to the result of an earlier
        // transaction.
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

  /// Returns the transactions that were sent together; none for an unexpected reply.
  mutating func answered(_ first: TransactionID) -> [Transaction] {
    (batches.removeValue(forKey: first) ?? []).compactMap { all[$0] }
  }

  /// Forgets the sent requests.
  ///
  /// - Returns: the transactions that were sent.
  mutating func recall() -> [Transaction] {
    batches = [:]
    return all.values.filter(\.state.isSent).sorted { $0.id < $1.id }
  }
}
