package import CanopyTree

/// The state that survives a restart of the process: the received data and the unconfirmed writes.
package struct SavedState: Sendable {
  /// A pending write.
  package struct SavedWrite: Sendable {
    package var id: WriteID
    package var write: Write
    /// The time of the write, in milliseconds since 1970.
    package var milliseconds: Int64

    package init(id: WriteID, write: Write, milliseconds: Int64) {
      self.id = id
      self.write = write
      self.milliseconds = milliseconds
    }
  }

  /// The received data of a query.
  package struct SavedQuery: Sendable {
    /// The query's result.
    package var node: Node
    /// The commit of the data; 0 if it is not known, because the data was read once.
    package var sequence: Int64

    /// The commit after which the server can send changes; nil if it must send the whole state.
    var resumableSequence: Int64? { sequence > 0 ? sequence : nil }

    package init(node: Node, sequence: Int64) {
      self.node = node
      self.sequence = sequence
    }
  }

  /// The pending writes, in order.
  package var writes: [SavedWrite]
  /// The received data, by query.
  package var queries: [QuerySpec: SavedQuery]
  /// The highest id that any write had, pending or not; -1 if there was none.
  package var lastWrite: WriteID

  package init(
    writes: [SavedWrite] = [], queries: [QuerySpec: SavedQuery] = [:],
    lastWrite: WriteID = WriteID(-1)
  ) {
    self.writes = writes
    self.queries = queries
    self.lastWrite = lastWrite
  }
}

extension SyncTree {
  /// Creates a tree that continues from the saved state of an earlier one, without a connection.
  ///
  /// The received data answers listeners at once but may be outdated, so the client requests later
  /// changes from the server. The writes are pending and visible.
  package init(restoring state: SavedState) {
    self.init()
    isPersistent = true
    saved = SavedQueries(state.queries)
    nextWrite = max(nextWrite, state.lastWrite.number + 1)
    for one in state.writes.sorted(by: { $0.id < $1.id }) {
      let assignments = one.write.resolved(
        in: present(one.write, before: one.id), at: one.milliseconds)
      let record = PendingWrites.Record(
        write: one.write, milliseconds: one.milliseconds, assignments: assignments)
      writes.add(one.id, record)
      increments.add(one.id, one.write)
      queue.append(one.id)
      nextWrite = max(nextWrite, one.id.number + 1)
    }
  }

  /// Drops the saved data of queries that the store has dropped. They are not in use.
  package mutating func forget(_ specs: [QuerySpec]) {
    for spec in specs { saved[spec] = nil }
  }

  /// Returns the newest saved data of a whole location.
  func savedValue(at path: Path) -> SavedState.SavedQuery? {
    guard let spec = saved.newest(containing: path), var found = saved[spec],
      let rest = path.relative(to: spec.path)
    else { return nil }
    found.node = found.node.at(rest)
    return found
  }

  /// Returns the newest saved data of a query.
  func savedValue(of spec: QuerySpec) -> SavedState.SavedQuery? {
    let whole = savedValue(at: spec.path)
    guard !spec.query.isUnbounded, let own = saved[spec] else { return whole }
    return whole.map { $0.sequence >= own.sequence ? $0 : own } ?? own
  }

  /// Keeps data that was read once, if it is not listened to.
  package mutating func fetched(_ node: Node, of spec: QuerySpec) -> Effects {
    var effects = Effects()
    let spec = spec.serverSpec
    guard isPersistent, listens[spec] == nil, serverValue(at: spec.path) == nil else {
      return effects
    }
    guard spec.query.isUnbounded else {
      save(node, of: spec, &effects)
      return effects
    }
    if let upper = saved.newest(containing: spec.path), upper != spec {
      update(upper, spec.path, node, &effects)
    } else {
      save(node, of: spec, &effects)
    }
    for lower in saved.wholes(below: spec.path) {
      guard let rest = lower.path.relative(to: spec.path) else { continue }
      update(lower, lower.path, node.at(rest), &effects)
    }
    return effects
  }

  /// Saves data of an unknown commit. The server sends the whole state when the query is listened to.
  private mutating func save(_ node: Node, of spec: QuerySpec, _ effects: inout Effects) {
    saved[spec] = SavedState.SavedQuery(node: node, sequence: 0)
    effects.changes.append(.received(spec, [Assignment(.root, node)], sequence: 0))
    // Data that is not in use is dropped in the order of its last use.
    effects.changes.append(.listening(spec, false))
  }

  /// Replaces a location in saved data by newer data. The commit stays: the changes after it, which
  /// the server sends, lead to the same state from the newer data.
  private mutating func update(
    _ spec: QuerySpec, _ path: Path, _ node: Node, _ effects: inout Effects
  ) {
    guard var query = saved[spec], let rest = path.relative(to: spec.path) else { return }
    query.node.set(node, at: rest)
    saved[spec] = query
    effects.changes.append(
      .received(spec, [Assignment(rest, node)], sequence: query.sequence))
  }

  /// Saves the received data of a query that is no longer listened to.
  mutating func save(_ view: View) {
    guard isPersistent, view.server.isReady, let listen = listens[view.spec.serverSpec],
      let sequence = listen.sequence
    else {
      return
    }
    guard !listen.isUnfiltered else {
      guard view.server.extent == .whole else { return }
      let result = view.spec.query.value(of: view.server.root)
      saved[view.spec] = SavedState.SavedQuery(node: result, sequence: 0)
      return
    }
    saved[view.spec.serverSpec] = SavedState.SavedQuery(node: view.server.root, sequence: sequence)
  }
}
