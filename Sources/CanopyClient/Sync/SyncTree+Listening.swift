package import CanopyTree

extension SyncTree {
  /// Adds a listener; it is told at once what is known.
  ///
  /// - Parameters:
  ///   - id: new; a listener that has it already is replaced.
  ///   - kinds: what it wants to be told; nothing to have data kept synchronised only.
  package mutating func listen(
    _ id: ListenerID, to spec: QuerySpec, for kinds: DataEvent.Kinds
  ) -> Effects {
    var effects = viewOfListener[id] == nil ? Effects() : unlisten(id)
    let viewID: ViewID
    if let present = viewOfSpec[spec] {
      viewID = present
    } else {
      viewID = ViewID(number: nextView)
      nextView += 1
      let known = knowledge(of: spec)
      views[viewID] = View(spec, server: known.cache, writes)
      viewOfSpec[spec] = viewID
      places.modify(spec.path) { $0 = ($0 ?? []) + [viewID] }
      resolveAgain([spec.path])
      tell(&effects)
      cover(spec, since: known.sequence, &effects)
    }
    viewOfListener[id] = viewID
    let wasKept = views[viewID].map(isKept) ?? false
    views[viewID]?.add(id, kinds)
    if kinds.isEmpty, !wasKept { effects.changes.append(.kept(spec.asked, true)) }
    effects.events += views[viewID]?.firstEvents(for: id, kinds) ?? []
    return effects
  }

  /// Removes a listener; nothing if there is none with this name.
  package mutating func unlisten(_ id: ListenerID) -> Effects {
    var effects = Effects()
    guard let viewID = viewOfListener.removeValue(forKey: id) else { return effects }
    let wasKept = views[viewID].map(isKept) ?? false
    views[viewID]?.remove(id)
    if wasKept, let view = views[viewID], !isKept(view) {
      effects.changes.append(.kept(view.spec.asked, false))
    }
    guard let view = views[viewID], view.listeners.isEmpty else { return effects }
    remove(viewID)
    uncover(view, &effects)
    return effects
  }

  /// The value of a query with the pending writes, if it is known completely: from a listener to it
  /// or to a whole location around it, or from pending writes. O(depth), and O(answer) for a query
  /// that is narrowed down.
  package func value(of spec: QuerySpec) -> Node? {
    if let node = shownValue(at: spec.path) { return spec.query.value(of: node) }
    if let id = viewOfSpec[spec], let view = views[id], view.shown.isReady {
      return spec.query.value(of: view.shown.root)
    }
    return nil
  }

  /// What listeners see of a whole location, as far as it is known.
  private func shownValue(at path: Path) -> Node? {
    var result: Node?
    places.forEach(onTheWayTo: path) { _, ids in
      for id in ids {
        guard let view = views[id], let rest = path.relative(to: view.spec.path) else { continue }
        if view.shown.extent == .whole {
          result = view.shown.root.at(rest)
        } else if view.shown.extent == .filtered, let key = rest.keys.first,
          !view.shown.root.child(key).isAbsent
        {
          result = view.shown.root.at(rest)
        }
        if result != nil { return false }
      }
      return true
    }
    if let result { return result }
    guard writes.shadow(path) != nil else { return nil }
    return writes.value(of: path, over: .absent)
  }

  /// Whether a view has its data kept synchronised.
  func isKept(_ view: View) -> Bool { view.listeners.contains { $0.kinds.isEmpty } }

  mutating func remove(_ id: ViewID) {
    guard let view = views.removeValue(forKey: id) else { return }
    viewOfSpec[view.spec] = nil
    places.modify(view.spec.path) { ids in
      ids?.removeAll { $0 == id }
      if ids?.isEmpty == true { ids = nil }
    }
  }
}

extension SyncTree {
  /// What is known of a location that is listened to for the first time.
  ///
  /// All of it, where a view is of a whole place at or above it, or of a child in which it lies, or
  /// where that was told earlier; else those children that are listened to as a whole.
  ///
  /// - Returns: besides, the commit as of which that is, where the server is to be asked for what
  ///   changed since.
  func knowledge(of spec: QuerySpec) -> (cache: ServerCache, sequence: Int64?) {
    let plan = View.indexPlan(spec.query)
    if let node = serverValue(at: spec.path) { return (ServerCache(whole: node, plan), nil) }
    let old = savedValue(at: spec.path)
    if !spec.query.isUnbounded, let own = saved[spec],
      old.map({ $0.sequence < own.sequence }) ?? true
    {
      return (ServerCache(filtered: own.node, plan), own.sequence)
    }
    if let old {
      // What is narrowed down is asked for anew: more of it is known than its answer will have.
      let sequence = spec.query.isUnbounded ? old.sequence : nil
      return (ServerCache(whole: withNewer(old.node, at: spec.path), plan), sequence)
    }
    var cache = ServerCache(plan)
    var told: [(Key, Node)] = []
    for (key, place) in places.below(spec.path)?.children ?? [:] {
      let whole = place.value?.lazy.compactMap { views[$0] }.first { $0.server.extent == .whole }
      if let whole { told.append((key, whole.server.root)) }
    }
    cache.tell(told)
    return (cache, nil)
  }

  /// Data of a location that was told earlier, with what views of places below know since.
  private func withNewer(_ node: Node, at path: Path) -> Node {
    var below: [ViewID] = []
    places.below(path)?.forEach { below += $0 }
    var node = node
    for id in inOrder(below).reversed() {
      guard let view = views[id], view.server.extent == .whole,
        let rest = view.spec.path.relative(to: path)
      else { continue }
      node.set(view.server.root, at: rest)
    }
    return node
  }

  /// The server's data of a whole location; nil if it is not known.
  ///
  /// Rather from a view of all of a place, as the server tells that of everything there, than from one
  /// of a part, which may be older: then what is asked for next brings what is missing.
  func serverValue(at path: Path) -> Node? {
    var result: Node?
    places.forEach(onTheWayTo: path) { _, ids in
      for id in ids {
        guard let view = views[id], let rest = path.relative(to: view.spec.path) else { continue }
        switch view.server.extent {
        case .whole where view.spec.query.isUnbounded:
          result = view.server.root.at(rest)
          return false
        case .whole where result == nil:
          result = view.server.root.at(rest)
        case .filtered where result == nil:
          guard let key = rest.keys.first, view.server.knows(key) else { continue }
          result = view.server.root.at(rest)
        default: break
        }
      }
      return true
    }
    return result
  }
}
