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
      views[viewID] = View(spec, server: knowledge(of: spec), writes)
      viewOfSpec[spec] = viewID
      places.modify(spec.path) { $0 = ($0 ?? []) + [viewID] }
      cover(spec, &effects)
    }
    viewOfListener[id] = viewID
    views[viewID]?.add(id, kinds)
    effects.events += views[viewID]?.firstEvents(for: id, kinds) ?? []
    return effects
  }

  /// Removes a listener; nothing if there is none with this name.
  package mutating func unlisten(_ id: ListenerID) -> Effects {
    var effects = Effects()
    guard let viewID = viewOfListener.removeValue(forKey: id) else { return effects }
    views[viewID]?.remove(id)
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
  /// What other views know of a location that is listened to for the first time.
  ///
  /// All of it, where one is of a whole place at or above it, or of a child in which it lies; else
  /// those children that are listened to as a whole.
  func knowledge(of spec: QuerySpec) -> ServerCache {
    let plan = View.indexPlan(spec.query)
    if let node = serverValue(at: spec.path) { return ServerCache(whole: node, plan) }
    var cache = ServerCache(plan)
    var told: [(Key, Node)] = []
    for (key, place) in places.below(spec.path)?.children ?? [:] {
      let whole = place.value?.lazy.compactMap { views[$0] }.first { $0.server.extent == .whole }
      if let whole { told.append((key, whole.server.root)) }
    }
    cache.tell(told)
    return cache
  }

  /// The server's data of a whole location; nil if it is not known.
  func serverValue(at path: Path) -> Node? {
    var result: Node?
    places.forEach(onTheWayTo: path) { _, ids in
      for id in ids {
        guard let view = views[id], let rest = path.relative(to: view.spec.path) else { continue }
        switch view.server.extent {
        case .whole: result = view.server.root.at(rest)
        case .filtered:
          if let key = rest.keys.first, view.server.knows(key) {
            result = view.server.root.at(rest)
          }
        case .parts: break
        }
        if result != nil { return false }
      }
      return true
    }
    return result
  }
}
