internal import CanopyTree

extension View {
  /// Returns the events of a step.
  ///
  /// - Parameter old: the result before the step.
  /// - Complexity: O(log n) for each changed child, and O(result) for the value of a bounded query
  ///   with a value listener.
  func events(since old: Shown) -> [DataEvent] {
    guard !kinds.isEmpty else { return [] }
    let wantsChildren = !kinds.isDisjoint(with: .children)
    var events: [DataEvent] = []
    var isChanged = false
    if wantsChildren || !spec.query.isUnbounded {
      let changes = spec.query.changes(from: old.root, to: shown.root)
      isChanged = !changes.isEmpty
      if wantsChildren {
        for change in changes { notify(change, to: &events) }
      }
    }
    guard kinds.contains(.value), shown.isReady else { return events }
    if !isChanged, old.isReady {
      guard spec.query.isUnbounded, shown.root != old.root else { return events }
    }
    let value = spec.query.value(of: shown.root)
    for listener in listeners where listener.kinds.contains(.value) {
      events.append(DataEvent(listener: listener.id, kind: .value, node: value))
    }
    return events
  }

  private func notify(_ change: ChildChange, to events: inout [DataEvent]) {
    let kind = DataEvent.Kind(change.kind)
    for listener in listeners where listener.kinds.contains(.init(kind)) {
      events.append(
        DataEvent(
          listener: listener.id, kind: kind, key: change.key, node: change.node,
          previous: change.previous))
    }
  }

  /// Returns the first events of a new listener: all known data.
  func firstEvents(for listener: ListenerID, _ kinds: DataEvent.Kinds) -> [DataEvent] {
    var events: [DataEvent] = []
    if kinds.contains(.init(.childAdded)) {
      var previous: Key?
      for (key, node) in spec.query.children(of: shown.root) {
        events.append(
          DataEvent(
            listener: listener, kind: .childAdded, key: key, node: node, previous: previous))
        previous = key
      }
    }
    if kinds.contains(.value), shown.isReady {
      let value = spec.query.value(of: shown.root)
      events.append(DataEvent(listener: listener, kind: .value, node: value))
    }
    return events
  }
}

extension DataEvent.Kind {
  fileprivate init(_ kind: ChildChange.Kind) {
    self =
      switch kind {
      case .removed: .childRemoved
      case .added: .childAdded
      case .moved: .childMoved
      case .changed: .childChanged
      }
  }
}
