package import CanopyTree
internal import CanopyWire

extension SyncTree {
  /// Begins a transaction; the effects ask for the first call of its function.
  ///
  /// - Parameter hasLocalEvents: whether what it writes is seen here before the server confirms it.
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

  /// A transaction's function has returned: what to write, or nil to abort.
  package mutating func transactionRan(
    _ id: TransactionID, attempt: Int, returning value: WriteValue?, at milliseconds: Int64
  ) -> Effects {
    var effects = Effects()
    guard var transaction = transactions[id], transaction.state == .running,
      transaction.attempt == attempt
    else { return effects }
    guard let value else {
      end(id, .aborted, &effects)
      tell(&effects)
      return effects
    }
    let write: Write
    do throws(TreeError) {
      write = try Write.set(Location(transaction.path), value)
    } catch {
      end(id, .refused(WireError(error)), &effects)
      tell(&effects)
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
    runAgain([transaction.path], isTold: false, &effects)
    tell(&effects)
    return effects
  }

  /// The server has answered an `Outgoing.compareAndSet`.
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
      if let committed { note(committed, at: path) }
      runAgain([path], isTold: false, &effects)
    case .conflict(let node):
      for var transaction in batch {
        if transaction.state == .overridden {
          end(transaction.id, .overridden, &effects)
        } else if transaction.sends >= TransactionQueue.attemptsMax {
          end(transaction.id, .tooManyConflicts, &effects)
        } else {
          transaction.state = .ready
          transactions.update(transaction)
        }
      }
      note(node, at: path)
      if let first = batch.first(where: { transactions[$0.id] != nil }) { run(first.id, &effects) }
      runAgain([path], isTold: false, &effects)
    case .refused(let error):
      for transaction in batch {
        end(
          transaction.id, transaction.state == .overridden ? .overridden : .refused(error),
          &effects)
      }
      runAgain([path], isTold: false, &effects)
    }
    tell(&effects)
    return effects
  }

  /// Notes what stands at a location, for the transactions there, until the server tells of it to a
  /// listener.
  private mutating func note(_ node: Node, at path: Path) {
    for id in transactions.overlapping(path) {
      guard var transaction = transactions[id], transaction.path == path else { continue }
      transaction.told = node
      transactions.update(transaction)
    }
  }
}

extension SyncTree {
  /// Has those transactions run again that would be given something else now.
  ///
  /// - Parameter isTold: whether it is the server that told of something at these paths.
  mutating func runAgain(_ paths: [Path], isTold: Bool, _ effects: inout Effects) {
    guard !transactions.all.isEmpty else { return }
    var ids: Set<TransactionID> = []
    for path in paths { ids.formUnion(transactions.overlapping(path)) }
    for id in ids.sorted() {
      guard var transaction = transactions[id], !transaction.state.isSent else { continue }
      if isTold, transaction.told != nil, serverValue(at: transaction.path) != nil {
        transaction.told = nil
        transactions.update(transaction)
      }
      if present(transaction) != transaction.current { run(id, &effects) }
    }
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
    latest(transaction.path, before: transaction.writeID, told: transaction.told)
  }

  /// Ends transactions at, over and under places that were written now; those on their way to the
  /// server are not tried again.
  mutating func override(_ paths: [Path], _ effects: inout Effects) {
    guard !transactions.all.isEmpty else { return }
    var ids: Set<TransactionID> = []
    for path in paths { ids.formUnion(transactions.overlapping(path)) }
    for id in ids.sorted().reversed() {
      guard var transaction = transactions[id] else { continue }
      if transaction.state.isSent {
        transaction.state = .overridden
        transactions.update(transaction)
      } else {
        end(id, .overridden, &effects)
        runAgain([transaction.path], isTold: false, &effects)
      }
    }
  }

  /// Ends all transactions.
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
    if !isCommitted { resolveAgain(paths, all: true) }
    let node = isCommitted ? committed ?? .absent : latest(transaction.path)
    effects.ended.append(TransactionEnd(id: id, outcome: outcome, node: node))
  }
}

extension SyncTree {
  /// The next request to send, in order; nil if there is none now, or no connection. To be asked after
  /// every step, as long as the connection takes more. O(1), but for transactions.
  package mutating func nextRequest() -> Outgoing? {
    guard isConnected else { return nil }
    while let id = queue.first, writes[id]?.isSent ?? true { queue.removeFirst() }
    let batch = transactions.nextBatch()
    if let first = batch.first, let last = batch.last, let value = last.output,
      queue.first.map({ first.writeID < $0 }) ?? true
    {
      transactions.send(batch)
      return .compareAndSet(first.id, first.path, base: first.current, value: value)
    }
    guard let id = queue.first, let write = writes[id]?.write else { return nil }
    queue.removeFirst()
    writes.setSent(id, true)
    return .write(id, write)
  }

  /// What was sent and not answered is to be sent again.
  mutating func restartQueue(_ effects: inout Effects) {
    let ids = writes.records.filter { $0.value.write != nil }.keys
    for id in ids { writes.setSent(id, false) }
    queue.replaceAll(Array(ids))
    for var transaction in transactions.recall() {
      if transaction.state == .overridden {
        end(transaction.id, .overridden, &effects)
      } else {
        transaction.state = .ready
        transactions.update(transaction)
      }
    }
  }
}
