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
    /// The commit of the data.
    package var sequence: Int64

    package init(node: Node, sequence: Int64) {
      self.node = node
      self.sequence = sequence
    }
  }

  /// The pending writes, in order.
  package var writes: [SavedWrite]
  /// The received data, by query.
  package var queries: [QuerySpec: SavedQuery]

  package init(writes: [SavedWrite] = [], queries: [QuerySpec: SavedQuery] = [:]) {
    self.writes = writes
    self.queries = queries
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
    saved = state.queries
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
  func savedValue(at path: Path) -> (node: Node, sequence: Int64)? {
    guard !saved.isEmpty else { return nil }
    var best: (node: Node, sequence: Int64)?
    for depth in 0...path.count {
      let ancestor = path.prefix(depth)
      guard let found = saved[QuerySpec(ancestor)], let rest = path.relative(to: ancestor) else {
        continue
      }
      if best.map({ $0.sequence < found.sequence }) ?? true {
        best = (found.node.at(rest), found.sequence)
      }
    }
    return best
  }

  /// Saves the received data of a query that is no longer listened to.
  mutating func save(_ view: View) {
    guard isPersistent, view.server.isReady, let sequence = listens[view.spec.serverSpec]?.sequence
    else {
      return
    }
    saved[view.spec.serverSpec] = SavedState.SavedQuery(node: view.server.root, sequence: sequence)
  }
}
