package import CanopyTree

extension SyncTree {
  /// What stands at places below a listen's location now (`put` and `patch`), by one commit.
  ///
  /// What comes for a listen that was stopped is dropped.
  ///
  /// - Parameters:
  ///   - assignments: relative to the location of the listen, which is the root.
  ///   - isPatch: whether this adds to data that the server sent before.
  ///   - sequence: that of the commit.
  package mutating func changed(
    _ tag: ListenTag, _ assignments: [Assignment], isPatch: Bool, sequence: Int64
  ) -> Effects {
    guard let spec = listens[tag]?.spec else { return Effects() }
    listens.told(tag, sequence)
    let absolute = assignments.map { assignment in
      let location = assignment.location
      return Assignment(
        Location(spec.path.appending(location.path), isPriority: location.isPriority),
        assignment.value)
    }
    var effects = serverChanged(absolute, of: spec, patched: isPatch ? spec.path : nil)
    effects.changes.append(.told(spec, assignments, sequence: sequence))
    return effects
  }

  /// What stands at places now, from the root down.
  ///
  /// - Parameters:
  ///   - spec: what it was told for. What is told of a whole location counts for every view there;
  ///     what is told of a narrow query for that query only.
  ///   - patched: where the server had sent data before, to which this adds; nil for new data.
  mutating func serverChanged(
    _ assignments: [Assignment], of spec: QuerySpec, patched: Path?
  ) -> Effects {
    var effects = Effects()
    let isNarrow = !spec.query.isUnbounded
    let concerned: [ViewID]
    if isNarrow {
      concerned = viewOfSpec[spec].map { [$0] } ?? []
    } else {
      concerned = views(concernedBy: assignments)
    }
    for id in concerned {
      change(id) { view, writes in
        view.serverChanged(assignments, isNarrow: isNarrow, patched: patched, writes)
      }
    }
    let paths = assignments.map(\.location.path)
    resolveAgain(paths)
    runAgain(paths, isTold: true, &effects)
    tell(&effects)
    return effects
  }

  /// The server has refused or ended a listen. The listeners that it served are gone; those below it,
  /// which it covered, get listens of their own.
  package mutating func cancelled(_ tag: ListenTag) -> Effects {
    var effects = Effects()
    guard let spec = listens[tag]?.spec else { return effects }
    // The server has ended it already: there is nothing to stop.
    _ = listens.stop(spec)
    effects.changes.append(.asked(spec, false))
    for id in places[spec.path] ?? [] where views[id]?.spec.asked == spec {
      guard let view = views[id] else { continue }
      for listener in view.listeners {
        viewOfListener[listener.id] = nil
        effects.cancelled.append(listener.id)
      }
      if isKept(view) { effects.changes.append(.kept(spec, false)) }
      remove(id)
    }
    startUncovered(below: spec, since: nil, &effects)
    return effects
  }

  /// There is a connection, on which nothing has been asked yet. The effects have all listens.
  package mutating func connected() -> Effects {
    var effects = Effects()
    isConnected = true
    for listen in listens.all where !listen.spec.query.isUnbounded {
      let isExact = viewOfSpec[listen.spec].flatMap { views[$0] }?.server.isExact ?? false
      if !isExact { listens.beginAnew(listen.spec) }
    }
    listens.renew()
    effects.starts = listens.all.map {
      ServerListen(tag: $0.tag, spec: $0.spec, since: $0.sequence)
    }
    return effects
  }

  /// The connection is lost. What was sent and not answered will be sent again.
  package mutating func disconnected() -> Effects {
    var effects = Effects()
    isConnected = false
    restartQueue(&effects)
    tell(&effects)
    return effects
  }

  /// The views that assignments concern, the deepest first.
  func views(concernedBy assignments: [Assignment]) -> [ViewID] {
    if assignments.count == 1 { return views(concernedBy: assignments[0].location.path) }
    var found: Set<ViewID> = []
    for assignment in assignments { found.formUnion(views(concernedBy: assignment.location.path)) }
    return inOrder(Array(found))
  }
}
