package import CanopyTree

/// What survives a restart of the process: what the server told, and what it has not confirmed.
package struct SavedState: Sendable {
  /// A write that was pending.
  package struct SavedWrite: Sendable {
    package var id: WriteID
    package var write: Write
    /// When it was made, in milliseconds since 1970.
    package var milliseconds: Int64

    package init(id: WriteID, write: Write, milliseconds: Int64) {
      self.id = id
      self.write = write
      self.milliseconds = milliseconds
    }
  }

  /// What a listen of the server had told.
  package struct SavedQuery: Sendable {
    /// What the query shows.
    package var node: Node
    /// The commit as of which it is.
    package var sequence: Int64

    package init(node: Node, sequence: Int64) {
      self.node = node
      self.sequence = sequence
    }
  }

  /// In the order in which they were made.
  package var writes: [SavedWrite]
  /// By what the server was asked for.
  package var queries: [QuerySpec: SavedQuery]

  package init(writes: [SavedWrite] = [], queries: [QuerySpec: SavedQuery] = [:]) {
    self.writes = writes
    self.queries = queries
  }
}

extension SyncTree {
  /// A tree that goes on where an earlier one ended, without a connection.
  ///
  /// What the server had told is known to be old: it answers listeners at once, and the server is asked
  /// for what changed since. The writes are pending, and seen.
  package init(restoring state: SavedState) {
    self.init()
    isPersistent = true
    saved = state.queries
    for one in state.writes.sorted(by: { $0.id < $1.id }) {
      let assignments = one.write.resolved(
        in: present(one.write, before: one.id), at: one.milliseconds)
      let record = PendingWrites.Record(
        write: one.write, milliseconds: one.milliseconds, assignments: assignments)
      writes.add(one.id, record)
      relatives.add(one.id, one.write)
      queue.append(one.id)
      nextWrite = max(nextWrite, one.id.number + 1)
    }
  }

  /// The store has dropped what was told of these: they are not in use.
  package mutating func forget(_ specs: [QuerySpec]) {
    for spec in specs { saved[spec] = nil }
  }

  /// What was told earlier of a whole location.
  func savedValue(at path: Path) -> (node: Node, sequence: Int64)? {
    guard !saved.isEmpty else { return nil }
    var best: (node: Node, sequence: Int64)?
    for depth in 0...path.count {
      let place = path.prefix(depth)
      guard let found = saved[QuerySpec(place)], let rest = path.relative(to: place) else {
        continue
      }
      if best.map({ $0.sequence < found.sequence }) ?? true {
        best = (found.node.at(rest), found.sequence)
      }
    }
    return best
  }

  /// Keeps what the server told of a query that is no longer asked for.
  mutating func save(_ view: View) {
    guard isPersistent, view.server.isReady, let sequence = listens[view.spec.asked]?.sequence
    else {
      return
    }
    saved[view.spec.asked] = SavedState.SavedQuery(node: view.server.root, sequence: sequence)
  }
}
