package import CanopyTree
internal import CanopyWire

extension SyncTree {
  /// Begins a transaction. The effects request the first call of its function.
  ///
  /// - Parameter hasLocalEvents: whether its result is visible before the server confirms it.
  package mutating func beginTransaction(
    at path: Path, hasLocalEvents: Bool
  ) -> (id: TransactionID, effects: Effects) {
    var effects = Effects()
    let transaction = transactions.begin(
      at: path, hasLocalEvents: hasLocalEvents, writeID: newWriteID(), current: latest(path))
    effects.runs.append(
      TransactionRun(id: transaction.id, attempt: 1, current: transaction.current))
    return (transaction.id, effects)
  }

  /// Handles the result of a transaction's function: the value to write, or nil to abort.
  package mutating func transactionRan(
    _ id: TransactionID, attempt: Int, returning value: WriteValue?, at milliseconds: Int64
  ) -> Effects {
    var effects = Effects()
    guard var transaction = transactions[id], transaction.state == .running,
      transaction.attempt == attempt
    else { return effects }
    guard let value else {
      end(id, .aborted, &effects)
      rerunTransactions([transaction.path], isFromServer: false, after: id, &effects)
      notify(&effects)
      return effects
    }
    let write: Write
    do throws(TreeError) {
      write = try Write.set(Location(transaction.path), value)
    } catch {
      end(id, .refused(WireError(error)), &effects)
      rerunTransactions([transaction.path], isFromServer: false, after: id, &effects)
      notify(&effects)
      return effects
    }
    let root = Node.absent.setting(transaction.current, at: transaction.path)
    let record = PendingWrites.Record(
      write: nil, milliseconds: milliseconds,
      assignments: write.resolved(in: root, at: milliseconds),
      isVisible: transaction.hasLocalEvents)
    transaction.output = value
    transaction.state = .ready
    transactions.update(transaction)
    if writes[transaction.writeID] == nil, transaction.writeID.number == nextWrite - 1 {
      add(transaction.writeID, record)
    } else {
      replace(transaction.writeID, record)
    }
    rerunTransactions([transaction.path], isFromServer: false, after: id, &effects)
    notify(&effects)
    return effects
  }

  /// Whether a call of a transaction's function is still needed.
  package func needs(_ run: TransactionRun) -> Bool {
    transactions[run.id].map { $0.state == .running && $0.attempt == run.attempt } ?? false
  }

  /// Handles the server's reply to an `Outgoing.compareAndSet`.
  package mutating func transactionAnswered(
    _ id: TransactionID, _ answer: TransactionAnswer
  ) -> Effects {
    var effects = Effects()
    let batch = transactions.answered(id)
    guard let path = batch.first?.path else { return effects }
    switch answer {
    case .committed:
      let committed = batch.last.flatMap { writes[$0.writeID]?.assignments.first?.value }
      for transaction in batch { end(transaction.id, .committed, &effects) }
      if let committed { recordReported(committed, at: path) }
      rerunTransactions([path], isFromServer: false, &effects)
    case .conflict(let node):
      for var transaction in batch {
        if transaction.isOverridden {
          end(transaction.id, .overridden, &effects)
        } else if transaction.sends >= TransactionQueue.attemptsMax {
          end(transaction.id, .tooManyConflicts, &effects)
        } else {
          transaction.state = .ready
          transactions.update(transaction)
        }
      }
      recordReported(node, at: path)
      if let first = batch.first(where: { transactions[$0.id] != nil }) { run(first.id, &effects) }
      rerunTransactions([path], isFromServer: false, &effects)
    case .refused(let error):
      for transaction in batch {
        end(
          transaction.id, transaction.isOverridden ? .overridden : .refused(error),
          &effects)
      }
      rerunTransactions([path], isFromServer: false, &effects)
    }
    notify(&effects)
    return effects
  }

  /// Stores the current value of a location for its transactions, until a listen reports the
  /// location.
  private mutating func recordReported(_ node: Node, at path: Path) {
    for id in transactions.overlapping(path) {
      guard var transaction = transactions[id], transaction.path == path else { continue }
      transaction.reported = node
      transactions.update(transaction)
    }
  }
}

extension SyncTree {
  /// Calls the functions of transactions again if their input has changed.
  ///
  /// - Parameters:
  ///   - isFromServer: whether the server reported data at these paths.
  ///   - earlier: the transaction whose result changed: only later ones depend on it.
  mutating func rerunTransactions(
    _ paths: [Path], isFromServer: Bool, after earlier: TransactionID? = nil,
    _ effects: inout Effects
  ) {
    guard !transactions.all.isEmpty else { return }
    var rerun: [Path] = []
    for id in overlapping(paths, after: earlier) {
      guard var transaction = transactions[id], transaction.state != .sent,
        !transaction.isOverridden
      else { continue }
      if isFromServer, transaction.reported != nil, serverValue(at: transaction.path) != nil {
        transaction.reported = nil
        transactions.update(transaction)
      }
      // A transaction that depends on one that runs again is checked after that one has run: each
      // function is called once, not once for each transaction before it.
      let path = transaction.path
      let isLater = rerun.contains { earlierPath in
        earlierPath.hasPrefix(path) || path.hasPrefix(earlierPath)
      }
      guard !isLater else { continue }
      if present(transaction) != transaction.current {
        run(id, &effects)
        rerun.append(path)
      }
    }
  }

  /// Returns the transactions at, above and below any of the paths, in order.
  private func overlapping(
    _ paths: [Path], after earlier: TransactionID? = nil
  ) -> [TransactionID] {
    if paths.count == 1 { return transactions.overlapping(paths[0], after: earlier) }
    var ids: Set<TransactionID> = []
    for path in paths { ids.formUnion(transactions.overlapping(path, after: earlier)) }
    return ids.sorted()
  }

  private mutating func run(_ id: TransactionID, _ effects: inout Effects) {
    guard var transaction = transactions[id] else { return }
    transaction.current = present(transaction)
    transaction.attempt += 1
    transaction.state = .running
    transactions.update(transaction)
    effects.runs.removeAll { $0.id == id }
    effects.runs.append(
      TransactionRun(id: id, attempt: transaction.attempt, current: transaction.current))
  }

  private func present(_ transaction: TransactionQueue.Transaction) -> Node {
    latest(transaction.path, before: transaction.writeID, reported: transaction.reported)
  }

  /// Overrides the transactions at, above and below written locations.
  ///
  /// A transaction whose result was sent, or will be sent next, keeps its place before the write, but
  /// does not run again. Those that wait for other transactions end.
  mutating func override(_ paths: [Path], _ effects: inout Effects) {
    guard !transactions.all.isEmpty else { return }
    for id in overlapping(paths).reversed() {
      guard var transaction = transactions[id] else { continue }
      if transaction.state == .sent || transactions.isSendable(id) {
        transaction.isOverridden = true
        transactions.update(transaction)
      } else {
        end(id, .overridden, &effects)
        rerunTransactions([transaction.path], isFromServer: false, &effects)
      }
    }
  }

  /// Cancels all transactions.
  mutating func cancelTransactions(_ effects: inout Effects) {
    for id in transactions.all.keys.sorted().reversed() { end(id, .cancelled, &effects) }
  }

  private mutating func end(
    _ id: TransactionID, _ outcome: TransactionEnd.Outcome, _ effects: inout Effects
  ) {
    guard let transaction = transactions.remove(id) else { return }
    effects.runs.removeAll { $0.id == id }
    var isCommitted = false
    if case .committed = outcome { isCommitted = true }
    let committed = writes[transaction.writeID]?.assignments.first?.value
    let paths = remove(transaction.writeID, isConfirmed: isCommitted)
    if !isCommitted { resolveIncrements(paths, after: transaction.writeID, all: true) }
    let node = isCommitted ? committed ?? .absent : transaction.current
    effects.ended.append(TransactionEnd(id: id, outcome: outcome, node: node))
  }
}

extension SyncTree {
  /// Returns the next request to send, in order; nil if there is none, or no connection. Call it
  /// after every step while the connection accepts requests.
  ///
  /// - Complexity: O(1) without transactions that can be sent.
  package mutating func nextRequest() -> Outgoing? {
    guard isConnected else { return nil }
    while let id = queue.first, writes[id]?.isSent ?? true { queue.removeFirst() }
    if let first = transactions.firstSendable, queue.first.map({ first.writeID < $0 }) ?? true {
      let batch = transactions.batch(from: first)
      if let value = batch.last?.output {
        transactions.send(batch)
        return .compareAndSet(first.id, first.path, base: first.current, value: value)
      }
    }
    guard let id = queue.first, let write = writes[id]?.write else { return nil }
    queue.removeFirst()
    writes.setSent(id, true)
    return .write(id, write)
  }

  /// Queues all unanswered requests again.
  mutating func restartQueue(_ effects: inout Effects) {
    let ids = writes.records.filter { $0.value.write != nil }.keys
    for id in ids { writes.setSent(id, false) }
    queue.replaceAll(Array(ids))
    for var transaction in transactions.recall() {
      if transaction.isOverridden {
        end(transaction.id, .overridden, &effects)
      } else {
        transaction.state = .ready
        transactions.update(transaction)
      }
    }
  }
}
