internal import CanopyTree

/// The transactions that have not ended.
///
/// Transactions of overlapping locations run one after the other, in the order in which they began:
/// each sees the results of the earlier ones, and is sent after they are confirmed. Waiting
/// transactions of one location are sent together.
///
/// - Complexity: beginning, running and ending one costs O(depth + transactions at and below its
///   location), whatever else is pending.
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
  }

  /// One transaction.
  struct Transaction: Sendable {
    let id: TransactionID
    let path: Path
    let hasLocalEvents: Bool
    /// Its position in the order of the pending writes, from its beginning.
    let writeID: WriteID
    var state = State.running
    /// Whether a later write covers its location. Its result is still sent before that write, but it
    /// does not run again: if the server refuses the result, the transaction ends.
    var isOverridden = false
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
  /// The transactions that are ready to be sent and wait for no earlier one.
  private var sendable: Set<TransactionID> = []
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
    idsByPath.modify(at: path) { ids in
      if ids == nil { ids = [] }
      ids?.append(id)
    }
    return transaction
  }

  mutating func update(_ transaction: Transaction) {
    guard all[transaction.id] != nil else { return }
    all[transaction.id] = transaction
    if transaction.state == .ready {
      noteIfSendable(transaction.id)
    } else {
      sendable.remove(transaction.id)
    }
  }

  /// Adds a transaction to those that can be sent, if it is ready and waits for no other.
  private mutating func noteIfSendable(_ id: TransactionID) {
    guard let transaction = all[id], transaction.state == .ready else { return }
    let isFirst = idsByPath.visit(overlapping: transaction.path) { _, ids in
      ids.first.map { id <= $0 } ?? true
    }
    if isFirst { sendable.insert(id) }
  }

  /// Whether the result of a transaction is to be sent, and no other transaction delays it.
  func isSendable(_ id: TransactionID) -> Bool { sendable.contains(id) }

  mutating func remove(_ id: TransactionID) -> Transaction? {
    guard let transaction = all.removeValue(forKey: id) else { return nil }
    sendable.remove(id)
    idsByPath.modify(at: transaction.path) { ids in
      if let index = ids?.firstIndex(of: id) { ids?.remove(at: index) }
      if ids?.isEmpty == true { ids = nil }
    }
    var next: [TransactionID] = []
    idsByPath.forEach(overlapping: transaction.path) { ids in
      if let first = ids.first { next.append(first) }
    }
    for id in next { noteIfSendable(id) }
    return transaction
  }

  /// Returns the transactions at, above and below a path, in order.
  ///
  /// - Parameter earlier: excludes this transaction and all before it.
  func overlapping(_ path: Path, after earlier: TransactionID? = nil) -> [TransactionID] {
    guard !idsByPath.isEmpty else { return [] }
    var found: [TransactionID] = []
    var lists = 0
    idsByPath.forEach(overlapping: path) { ids in
      lists += 1
      guard let earlier else { return found += ids }
      // The newest ones are usually the last few.
      found += ids[(ids.lastIndex { $0 <= earlier }.map { $0 + 1 } ?? 0)...]
    }
    return lists > 1 ? found.sorted() : found
  }

  /// The first transaction to send; nil if there is none.
  var firstSendable: Transaction? { sendable.min().flatMap { all[$0] } }

  /// Returns the transactions to send together: `first` and those directly after it at its location.
  func batch(from first: Transaction) -> [Transaction] {
    var batch = [first]
    // A write of this client follows an overridden transaction: later ones depend on that write.
    guard !first.isOverridden else { return batch }
    for other in overlapping(first.path, after: first.id) {
      // An increment must apply to the server's value, not to the result of an earlier transaction.
      guard let other = all[other], other.path == first.path, other.state == .ready,
        other.output?.serverValues.isEmpty ?? false
      else { break }
      batch.append(other)
    }
    return batch
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
    return all.values.filter { $0.state == .sent }.sorted { $0.id < $1.id }
  }
}
