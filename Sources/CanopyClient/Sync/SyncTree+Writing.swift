package import CanopyTree

extension SyncTree {
  /// Makes a write here, and queues it for the server. Transactions at, over and under its places are
  /// overridden.
  ///
  /// - Parameter milliseconds: the server's time as far as it is known, for server values.
  package mutating func write(
    _ write: Write, at milliseconds: Int64
  ) -> (id: WriteID, effects: Effects) {
    var effects = Effects()
    let id = newWriteID()
    let assignments = write.resolved(in: present(write, before: id), at: milliseconds)
    let record = PendingWrites.Record(
      write: write, milliseconds: milliseconds, assignments: assignments)
    queue.append(id)
    relatives.add(id, write)
    effects.changes.append(.writeAdded(id, write, milliseconds: milliseconds))
    add(id, record)
    override(assignments.map(\.location.path), &effects)
    tell(&effects)
    return (id, effects)
  }

  /// The server has made a write. What it said of the places is what is seen from now on; where it has
  /// not said anything yet, what was written stays.
  package mutating func acknowledged(_ id: WriteID) -> Effects {
    var effects = Effects()
    end(id, isConfirmed: true, &effects)
    tell(&effects)
    return effects
  }

  /// The server has refused a write: what it did here is undone.
  package mutating func refused(_ id: WriteID) -> Effects {
    var effects = Effects()
    end(id, isConfirmed: false, &effects)
    tell(&effects)
    return effects
  }

  /// Gives up all pending writes and transactions, as if refused.
  ///
  /// - Returns: the writes, in their order.
  package mutating func purgeWrites() -> (ids: [WriteID], effects: Effects) {
    var effects = Effects()
    cancelTransactions(&effects)
    let ids = writes.records.filter { $0.value.write != nil }.keys.sorted()
    for id in ids.reversed() { end(id, isConfirmed: false, &effects) }
    tell(&effects)
    return (ids, effects)
  }

  private mutating func end(_ id: WriteID, isConfirmed: Bool, _ effects: inout Effects) {
    guard let write = writes[id]?.write else { return }
    relatives.remove(id, write)
    effects.changes.append(.writeRemoved(id))
    let paths = remove(id, isConfirmed: isConfirmed)
    resolveAgain(paths, all: !isConfirmed)
    runAgain(paths, isTold: false, &effects)
  }

  mutating func newWriteID() -> WriteID {
    defer { nextWrite += 1 }
    return WriteID(nextWrite)
  }

  /// Adds a write, the newest, to what is pending and to the views.
  mutating func add(_ id: WriteID, _ record: PendingWrites.Record) {
    writes.add(id, record)
    guard record.isVisible else { return }
    for view in views(concernedBy: record.assignments) {
      change(view) { $0.write(record.assignments, $1) }
    }
  }

  /// Removes a write from what is pending and from the views.
  ///
  /// - Returns: where it wrote.
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
  /// A tree with what stands where a write has increments, as far as that is known: the server's data
  /// and the pending writes before it.
  func present(_ write: Write, before id: WriteID) -> Node {
    var root = Node.absent
    for item in write.items {
      for placed in item.value.serverValues {
        guard case .increment = placed.value else { continue }
        let place = item.location.path.appending(placed.path)
        root.set(latest(place, before: id), at: place)
      }
    }
    return root
  }

  /// The latest that is known of a place, with the writes before one that is pending, also those that
  /// listeners do not see.
  func latest(_ path: Path, before id: WriteID? = nil, told: Node? = nil) -> Node {
    let scope = PendingWrites.Scope(before: id, includesHidden: true)
    if writes.shadow(path, scope) != nil { return writes.value(of: path, over: .absent, scope) }
    let base =
      told ?? serverValue(at: path) ?? knownChild(at: path) ?? savedValue(at: path)?.node ?? .absent
    return writes.value(of: path, over: base, scope)
  }

  /// The server's data of a place inside a child that is known completely.
  private func knownChild(at path: Path) -> Node? {
    var result: Node?
    places.forEach(onTheWayTo: path) { _, ids in
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

  /// Resolves increments again after something under them has changed.
  ///
  /// A write that is on its way keeps what it came to: what the server says meanwhile may have it in
  /// already, and adding to that would show a number that never was. Its confirmation follows.
  ///
  /// - Parameter all: also those on their way, as a write that they built upon was refused.
  mutating func resolveAgain(_ paths: [Path], all: Bool = false) {
    for id in relatives.concerned(by: paths) {
      guard var record = writes[id], let write = record.write, all || !record.isSent else {
        continue
      }
      let assignments = write.resolved(in: present(write, before: id), at: record.milliseconds)
      guard assignments != record.assignments else { continue }
      record.assignments = assignments
      replace(id, record)
    }
  }

  /// Gives a pending write another outcome.
  mutating func replace(_ id: WriteID, _ record: PendingWrites.Record) {
    let old = writes[id]?.assignments ?? []
    writes.replace(id, record)
    let both = old + record.assignments
    for view in views(concernedBy: both) {
      change(view) { $0.removed(both, isConfirmed: false, $1) }
    }
  }
}
