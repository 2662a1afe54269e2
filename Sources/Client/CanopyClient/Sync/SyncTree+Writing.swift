package import CanopyTree

extension SyncTree {
  /// Applies a write locally and queues it for the server. Overrides the transactions at, above and
  /// below its locations.
  ///
  /// - Parameter milliseconds: the estimated server time, for server values.
  package mutating func write(
    _ write: Write, at milliseconds: Int64
  ) -> (id: WriteID, effects: Effects) {
    var effects = Effects()
    let id = newWriteID()
    let assignments = write.resolved(in: present(write, before: id), at: milliseconds)
    let record = PendingWrites.Record(
      write: write, milliseconds: milliseconds, assignments: assignments)
    queue.append(id)
    increments.add(id, write)
    effects.changes.append(.writeAdded(id, write, milliseconds: milliseconds))
    add(id, record)
    override(assignments.map(\.location.path), &effects)
    notify(&effects)
    return (id, effects)
  }

  /// Handles the confirmation of a write. The server's data replaces it where there is any;
  /// elsewhere the written values stay visible.
  package mutating func acknowledged(_ id: WriteID) -> Effects {
    var effects = Effects()
    end(id, isConfirmed: true, &effects)
    notify(&effects)
    return effects
  }

  /// Handles the refusal of a write: undoes its local effect.
  package mutating func refused(_ id: WriteID) -> Effects {
    var effects = Effects()
    end(id, isConfirmed: false, &effects)
    notify(&effects)
    return effects
  }

  /// Drops all pending writes and transactions, as if refused.
  ///
  /// - Returns: the writes, in order.
  package mutating func purgeWrites() -> (ids: [WriteID], effects: Effects) {
    var effects = Effects()
    cancelTransactions(&effects)
    let ids = writes.records.filter { $0.value.write != nil }.keys.sorted()
    for id in ids.reversed() { end(id, isConfirmed: false, &effects) }
    notify(&effects)
    return (ids, effects)
  }

  private mutating func end(_ id: WriteID, isConfirmed: Bool, _ effects: inout Effects) {
    guard let write = writes[id]?.write else { return }
    increments.remove(id, write)
    effects.changes.append(.writeRemoved(id))
    let paths = remove(id, isConfirmed: isConfirmed)
    resolveIncrements(paths, after: id, all: !isConfirmed)
    rerunTransactions(paths, isFromServer: false, &effects)
  }

  mutating func newWriteID() -> WriteID {
    defer { nextWrite += 1 }
    return WriteID(nextWrite)
  }

  /// Adds the newest write to the pending ones and to the views.
  mutating func add(_ id: WriteID, _ record: PendingWrites.Record) {
    writes.add(id, record)
    guard record.isVisible else { return }
    for view in views(concernedBy: record.assignments) {
      change(view) { $0.write(record.assignments, $1) }
    }
  }

  /// Removes a write from the pending ones and from the views.
  ///
  /// - Returns: the written paths.
  @discardableResult
  mutating func remove(_ id: WriteID, isConfirmed: Bool) -> [Path] {
    guard let record = writes.remove(id) else { return [] }
    if record.isVisible {
      for view in views(concernedBy: record.assignments) {
        change(view) {
          $0.removed(record.assignments, isConfirmed: isConfirmed, $1)
        }
      }
    }
    return record.assignments.map(\.location.path)
  }
}

extension SyncTree {
  /// Returns a tree with the known values at a write's increments: the server's data with the
  /// earlier pending writes.
  func present(_ write: Write, before id: WriteID) -> Node {
    var root = Node.absent
    for item in write.items {
      for placed in item.value.serverValues {
        guard case .increment = placed.value else { continue }
        let location = item.location.path.appending(placed.path)
        root.set(latest(location, before: id), at: location)
      }
    }
    return root
  }

  /// Returns the latest known value of a location, with the writes before a pending one, including
  /// invisible ones.
  func latest(_ path: Path, before id: WriteID? = nil, reported: Node? = nil) -> Node {
    let scope = PendingWrites.Scope(before: id, includesHidden: true)
    if writes.shadow(path, scope) != nil { return writes.value(of: path, over: .absent, scope) }
    let base =
      reported ?? serverValue(at: path) ?? knownChild(at: path) ?? savedValue(at: path)?.node
      ?? .absent
    return writes.value(of: path, over: base, scope)
  }

  /// Returns the server's data of a location inside a completely known child.
  private func knownChild(at path: Path) -> Node? {
    var result: Node?
    viewsByPath.forEach(along: path) { _, ids in
      for id in ids {
        guard let view = views[id], let rest = path.relative(to: view.spec.path),
          let key = rest.keys.first, view.server.knows(key)
        else { continue }
        result = view.server.root.at(rest)
        return false
      }
      return true
    }
    return result
  }

  /// Resolves increments again after values below them have changed.
  ///
  /// A sent write keeps its result: the server's data may already include it, and adding again
  /// would show a wrong number. Its confirmation follows.
  ///
  /// - Parameters:
  ///   - earlier: the write that was removed: only later ones depend on it.
  ///   - all: whether to include sent writes, because a write that they depend on was refused.
  /// - Complexity: O(log n) for each write whose result changes, and for one more at each location:
  ///   the results after that one stay as they are.
  mutating func resolveIncrements(
    _ paths: [Path], after earlier: WriteID? = nil, all: Bool = false
  ) {
    var waiting = increments.first(concernedBy: paths, after: earlier)
    while let id = waiting.min() {
      waiting.remove(id)
      guard var record = writes[id], let write = record.write else { continue }
      var isChanged = false
      if all || !record.isSent {
        let assignments = write.resolved(in: present(write, before: id), at: record.milliseconds)
        isChanged = assignments != record.assignments
        if isChanged {
          record.assignments = assignments
          replace(id, record)
        }
      }
      // The result of an increment is a whole value, on which the next one builds. That of a priority
      // covers no value.
      if isChanged || write.hasPriorityServerValue {
        waiting.formUnion(increments.next(after: id, write))
      }
    }
  }

  /// Replaces the assignments of a pending write.
  mutating func replace(_ id: WriteID, _ record: PendingWrites.Record) {
    let old = writes[id]?.assignments ?? []
    writes.replace(id, record)
    let both = old + record.assignments
    for view in views(concernedBy: both) {
      change(view) { $0.removed(both, isConfirmed: false, $1) }
    }
  }
}

extension Write {
  /// Whether a priority in the write is a server value.
  fileprivate var hasPriorityServerValue: Bool {
    items.contains { item in
      item.value.serverValues.contains { $0.isPriority || item.location.isPriority }
    }
  }
}
