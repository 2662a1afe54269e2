import CanopyTesting
import CanopyTree

@testable import CanopyClient

/// The comparison of the client with the model.
extension SyncSimulation {
  mutating func check(_ events: [DataEvent]) {
    var byListener: [ListenerID: [DataEvent]] = [:]
    for event in events { byListener[event.listener, default: []].append(event) }
    for index in listeners.indices {
      let (id, spec, _) = listeners[index]
      let own = byListener.removeValue(forKey: id) ?? []
      guard let view = client.viewOfListener[id].flatMap({ client.views[$0] }) else {
        return fail("listener \(id.number) has no view")
      }
      if let wrong = view.shown.root.brokenInvariant() { return fail(wrong) }
      if let expected = expected(spec) {
        if !view.shown.isReady { return fail("\(spec) is reported, and not ready") }
        if spec.query.value(of: expected) != spec.query.value(of: view.shown.root) {
          return fail(
            "\(spec) shows \(view.shown.root.json(.export)) instead of \(expected.json(.export))")
        }
      }
      let shown = view.shown.isReady ? spec.query.value(of: view.shown.root) : nil
      if let wrong = listeners[index].replica.take(own, children: view.shown.root, value: shown) {
        return fail("listener \(id.number) of \(spec): \(wrong); it was reported \(own)")
      }
    }
    if let stray = byListener.first { fail("\(stray) is for nobody") }
  }

  /// Returns the expected result of a query: the server's reports with all pending writes, in
  /// order; nil if the reports are incomplete.
  func expected(_ spec: QuerySpec) -> Node? {
    let pending = client.writes.records.filter(\.value.isVisible).sorted { $0.key < $1.key }
      .map(\.value.assignments)
    let isShadowed = pending.contains { assignments in
      assignments.contains { !$0.location.isPriority && spec.path.hasPrefix($0.location.path) }
    }
    if let node = wholeTold(spec.path) {
      return Self.applied(pending, to: node, at: spec.path)
    }
    guard let node = reported[spec]?.root else { return nil }
    if isShadowed { return Self.applied(pending, to: node, at: spec.path) }
    if ahead.contains(spec) { return nil }
    // A child outside the result is known only if it was written as a whole.
    var known = Set<Key>()
    node.forEachChild { key, _ in
      known.insert(key)
      return true
    }
    let visible = pending.map { assignments in
      assignments.filter { assignment in
        guard let rest = assignment.location.path.relative(to: spec.path), let key = rest.keys.first
        else { return true }
        if rest.count == 1, !assignment.location.isPriority { known.insert(key) }
        return known.contains(key)
      }
    }
    return Self.applied(visible, to: node, at: spec.path)
  }

  /// Applies writes one after the other to a tree in which only one location is known.
  static func applied(_ writes: [[Assignment]], to node: Node, at path: Path) -> Node {
    var tree = Tree(root: node)
    for assignments in writes {
      var below: [Assignment] = []
      for assignment in assignments {
        let location = assignment.location
        if !location.isPriority, let rest = path.relative(to: location.path) {
          tree = Tree(root: assignment.value.at(rest))
          below = []
          break
        }
        guard let rest = location.path.relative(to: path) else { continue }
        below.append(
          Assignment(Location(rest, isPriority: location.isPriority), assignment.value))
      }
      tree.apply(below)
    }
    return tree.root
  }

  mutating func checkAtRest() {
    guard problem == nil else { return }
    for (id, spec, _) in listeners {
      let shown = client.viewOfListener[id].flatMap { client.views[$0] }?.shown
      let right = spec.query.value(of: server.root.at(spec.path))
      guard let shown, shown.isReady, spec.query.value(of: shown.root) == right else {
        return fail(
          "at rest, \(spec) shows \(shown?.root.json(.export) ?? "nothing") instead of "
            + right.json(.export))
      }
    }
    if !client.increments.isEmpty { fail("something is left of increments") }
  }

  mutating func fail(_ text: String) {
    if problem == nil { problem = text }
  }

  func note(_ text: @autoclosure () -> String) {
    trace?.steps.append(text())
  }

  func describe(_ write: Write) -> String {
    write.items.map {
      let isRelative = $0.value.serverValues.isEmpty ? "" : " and server values"
      return "\($0.location.text)=\($0.value.node.json(.export))\(isRelative)"
    }.joined(separator: ", ")
  }

  func describe(_ assignments: [Assignment]) -> String {
    assignments.map { "\($0.location.text)=\($0.value.json(.export))" }.joined(separator: ", ")
  }
}
