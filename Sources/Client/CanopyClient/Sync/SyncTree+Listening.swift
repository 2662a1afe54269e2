package import CanopyTree

extension SyncTree {
  /// Adds a listener and sends it the known data at once.
  ///
  /// - Parameters:
  ///   - id: a new id; an existing listener with it is replaced.
  ///   - kinds: the kinds of events; empty to only keep data synchronized.
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
      let known = initialCache(for: spec)
      views[viewID] = View(spec, server: known.cache, writes)
      viewOfSpec[spec] = viewID
      viewsByPath.modify(at: spec.path) { $0 = ($0 ?? []) + [viewID] }
      resolveIncrements([spec.path])
      notify(&effects)
      cover(spec, since: known.sequence, &effects)
    }
    viewOfListener[id] = viewID
    let wasKept = views[viewID].map(isKept) ?? false
    views[viewID]?.add(id, kinds)
    if kinds.isEmpty, !wasKept { effects.changes.append(.kept(spec.serverSpec, true)) }
    effects.events += views[viewID]?.firstEvents(for: id, kinds) ?? []
    return effects
  }

  /// Removes a listener, if it exists.
  package mutating func unlisten(_ id: ListenerID) -> Effects {
    var effects = Effects()
    guard let viewID = viewOfListener.removeValue(forKey: id) else { return effects }
    let wasKept = views[viewID].map(isKept) ?? false
    views[viewID]?.remove(id)
    if wasKept, let view = views[viewID], !isKept(view) {
      effects.changes.append(.kept(view.spec.serverSpec, false))
    }
    guard let view = views[viewID], view.listeners.isEmpty else { return effects }
    remove(viewID)
    uncover(view, &effects)
    return effects
  }

  /// Returns the value of a query with the pending writes, if it is completely known: from a
  /// listener to it or to a whole location around it, from pending writes, or from saved data.
  ///
  /// - Complexity: O(depth), and O(result) for a bounded query.
  package func value(of spec: QuerySpec) -> Node? {
    if let node = shownValue(at: spec.path) { return spec.query.value(of: node) }
    if let id = viewOfSpec[spec], let view = views[id], view.shown.isReady {
      return spec.query.value(of: view.shown.root)
    }
    return savedValue(of: spec).map {
      spec.query.value(of: writes.value(of: spec.path, over: $0.node))
    }
  }

  /// Returns the visible value of a whole location, if it is known.
  private func shownValue(at path: Path) -> Node? {
    var result: Node?
    viewsByPath.forEach(along: path) { _, ids in
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

  /// Whether a view keeps its data synchronized.
  func isKept(_ view: View) -> Bool { view.listeners.contains { $0.kinds.isEmpty } }

  mutating func remove(_ id: ViewID) {
    guard let view = views.removeValue(forKey: id) else { return }
    viewOfSpec[view.spec] = nil
    viewsByPath.modify(at: view.spec.path) { ids in
      ids?.removeAll { $0 == id }
      if ids?.isEmpty == true { ids = nil }
    }
  }
}

extension SyncTree {
  /// Returns the initial cache of a location's first view.
  ///
  /// The cache is complete if a view of a whole location at or above it, or of a child that
  /// contains it, has the data, or if it was saved earlier; else it contains the children that are
  /// listened to or saved as a whole.
  ///
  /// - Returns: also the commit of the data, if the server is to send later changes only.
  func initialCache(for spec: QuerySpec) -> (cache: ServerCache, sequence: Int64?) {
    let plan = View.indexPlan(spec.query)
    if let node = serverValue(at: spec.path) { return (ServerCache(whole: node, plan), nil) }
    let old = savedValue(at: spec.path)
    if !spec.query.isUnbounded, let own = saved[spec],
      old.map({ $0.sequence < own.sequence }) ?? true
    {
      return (ServerCache(filtered: own.node, plan), own.resumableSequence)
    }
    if let old {
      // A bounded query needs the whole state: more of it is known than its reply will contain.
      let sequence = spec.query.isUnbounded ? old.resumableSequence : nil
      return (ServerCache(whole: withNewer(old.node, at: spec.path), plan), sequence)
    }
    var cache = ServerCache(plan)
    var reported: [(Key, Node)] = saved.children(of: spec.path)
    for (key, trie) in viewsByPath.subtrie(at: spec.path)?.children ?? [:] {
      let whole = trie.value?.lazy.compactMap { views[$0] }.first { $0.server.extent == .whole }
      if let whole { reported.append((key, whole.server.root)) }
    }
    cache.addReported(reported)
    return (cache, nil)
  }

  /// Returns saved data of a location, updated with the data of views below it.
  private func withNewer(_ node: Node, at path: Path) -> Node {
    var below: [ViewID] = []
    viewsByPath.subtrie(at: path)?.forEach { below += $0 }
    var node = node
    for id in inOrder(below).reversed() {
      guard let view = views[id], view.server.extent == .whole,
        let rest = view.spec.path.relative(to: path)
      else { continue }
      node.set(view.server.root, at: rest)
    }
    return node
  }

  /// Returns the server's data of a whole location; nil if it is not known.
  ///
  /// Prefers a view of a whole location, to which the server sends all changes, over a view of a
  /// part, which may be older; the next listen then completes the data.
  func serverValue(at path: Path) -> Node? {
    var result: Node?
    viewsByPath.forEach(along: path) { _, ids in
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
        case .whole, .filtered, .parts: break
        }
      }
      return true
    }
    return result
  }
}
