package import CanopyTree

extension SyncTree {
  /// Applies new values from a listen (`put` and `patch`) by one commit. Drops those of a stopped
  /// listen.
  ///
  /// - Parameters:
  ///   - assignments: relative to the listen's location.
  ///   - isPatch: whether they extend earlier data.
  ///   - sequence: the commit's sequence number.
  package mutating func changed(
    _ tag: ListenTag, _ assignments: [Assignment], isPatch: Bool, sequence: Int64
  ) -> Effects {
    guard let listen = listens[tag] else { return Effects() }
    let spec = listen.spec
    listens.received(tag, sequence)
    let absolute = assignments.map { assignment in
      let location = assignment.location
      return Assignment(
        Location(spec.path.appending(location.path), isPriority: location.isPriority),
        assignment.value)
    }
    let before = listen.isUnfiltered ? filteredResult(of: spec) : nil
    var effects = serverChanged(
      absolute, of: spec, isUnfiltered: listen.isUnfiltered, patched: isPatch ? spec.path : nil)
    guard listen.isUnfiltered else {
      effects.changes.append(.received(spec, assignments, sequence: sequence))
      return effects
    }
    // A store keeps the result of the query, as if the server had filtered it. Its commit is unknown, so
    // the next listen asks for the whole state.
    if let after = filteredResult(of: spec), after != before {
      effects.changes.append(.received(spec, [Assignment(.root, after)], sequence: 0))
    }
    return effects
  }

  /// Returns the result of a query that the tree filters itself; nil if it is not known, or if nothing is
  /// stored.
  ///
  /// - Complexity: O(result).
  func filteredResult(of spec: QuerySpec) -> Node? {
    guard isPersistent, let view = viewOfSpec[spec].flatMap({ views[$0] }),
      view.server.extent == .whole
    else { return nil }
    return spec.query.value(of: view.server.root)
  }

  /// Applies new values with absolute locations.
  ///
  /// - Parameters:
  ///   - spec: the listen that reported them. Data of a whole location applies to every view there,
  ///     data of a bounded query to that query only.
  ///   - isUnfiltered: whether data of a bounded query is that of the whole location.
  ///   - patched: the location of earlier data that this extends; nil for new data.
  mutating func serverChanged(
    _ assignments: [Assignment], of spec: QuerySpec, isUnfiltered: Bool = false, patched: Path?
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
        view.serverChanged(
          assignments, isNarrow: isNarrow && !isUnfiltered, patched: patched, writes)
      }
    }
    let paths = assignments.map(\.location.path)
    resolveIncrements(paths)
    rerunTransactions(paths, isFromServer: true, &effects)
    notify(&effects)
    return effects
  }

  /// Applies the on-disconnect writes of a connection that has ended, in order, as if the server had
  /// reported them. The server may refuse them then, so the next connection requests the whole state
  /// of their locations.
  ///
  /// - Parameter milliseconds: the estimated server time, for server values.
  package mutating func disconnectWritesMade(
    _ made: [Write], at milliseconds: Int64
  ) -> Effects {
    var effects = Effects()
    var paths: [Path] = []
    for write in made {
      // The server applies them to its own data, which has no pending writes.
      let present = present(write, before: WriteID(.min))
      let assignments = write.resolved(in: present, at: milliseconds)
      for id in views(concernedBy: assignments) {
        change(id) { view, writes in
          view.serverChanged(assignments, isNarrow: false, patched: nil, writes)
        }
      }
      paths += assignments.map(\.location.path)
    }
    for listen in listens.all
    where paths.contains(where: { path in
      path.hasPrefix(listen.spec.path) || listen.spec.path.hasPrefix(path)
    }) {
      listens.restart(listen.spec)
    }
    resolveIncrements(paths)
    rerunTransactions(paths, isFromServer: true, &effects)
    notify(&effects)
    return effects
  }

  /// Handles the refusal of a query for which the rules declare no index: the tree filters the whole
  /// location itself.
  ///
  /// - Returns: the listen to the whole location to start instead; nil if the tree can do nothing about
  ///   it.
  package mutating func unindexed(_ tag: ListenTag) -> ServerListen? {
    guard let spec = listens.makeUnfiltered(tag) else { return nil }
    return ServerListen(tag: tag, spec: QuerySpec(spec.path), since: nil)
  }

  /// Handles a refused or cancelled listen. Its listeners are removed; covered listeners below get
  /// listens of their own.
  package mutating func cancelled(_ tag: ListenTag) -> Effects {
    var effects = Effects()
    guard let spec = listens[tag]?.spec else { return effects }
    // The server has already ended it, so there is nothing to stop.
    _ = listens.stop(spec)
    effects.changes.append(.listening(spec, false))
    for id in viewsByPath[spec.path] ?? [] where views[id]?.spec.serverSpec == spec {
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

  /// Handles a new connection. The effects start all listens.
  package mutating func connected() -> Effects {
    var effects = Effects()
    isConnected = true
    for listen in listens.all where !listen.spec.query.isUnbounded {
      let isExact = viewOfSpec[listen.spec].flatMap { views[$0] }?.server.isExact ?? false
      // The rules may declare the index by now, and the changes of the query alone would leave the
      // other children out of date.
      if !isExact || listen.isUnfiltered { listens.restart(listen.spec) }
    }
    listens.renew()
    effects.starts = listens.all.map {
      ServerListen(tag: $0.tag, spec: $0.spec, since: $0.sequence)
    }
    return effects
  }

  /// Handles the loss of the connection. Unanswered requests will be sent again.
  package mutating func disconnected() -> Effects {
    var effects = Effects()
    isConnected = false
    restartQueue(&effects)
    notify(&effects)
    return effects
  }

  /// Returns the views that assignments affect, the deepest first.
  func views(concernedBy assignments: [Assignment]) -> [ViewID] {
    if assignments.count == 1 { return views(concernedBy: assignments[0].location.path) }
    var found: Set<ViewID> = []
    for assignment in assignments { found.formUnion(views(concernedBy: assignment.location.path)) }
    return inOrder(Array(found))
  }
}
