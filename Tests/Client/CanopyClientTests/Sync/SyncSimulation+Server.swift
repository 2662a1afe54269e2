import CanopyTesting
import CanopyTree

@testable import CanopyClient

/// The server.
extension SyncSimulation {
  mutating func serve() {
    guard !toServer.isEmpty else { return }
    switch toServer.removeFirst() {
    case .listen(let listen):
      subscriptions.append(Subscription(tag: listen.tag, spec: listen.spec))
      guard listen.since != sequence else { return }
      let node = listen.spec.query.value(of: server.root.at(listen.spec.path))
      toClient.append(
        .changed(listen.tag, [Assignment(.root, node)], isPatch: false, sequence: sequence))
    case .unlisten(let tag):
      subscriptions.removeAll { $0.tag == tag }
    case .send(.write(let id, let write)):
      guard !random.oneIn(8) else { return toClient.append(.refused(id)) }
      commit(write)
      toClient.append(.acknowledged(id))
    case .send(.compareAndSet(let id, let path, let base, let value)):
      let present = server.root.at(path)
      guard present.hash == base.hash else {
        return toClient.append(.answered(id, .conflict(present)))
      }
      if let write = try? Write.set(Location(path), value) { commit(write) }
      toClient.append(.answered(id, .committed))
    }
  }

  mutating func somebodyElseWrites() {
    let write =
      random.oneIn(5)
      ? try? Write.set(Location(counter), WriteValue(Node(Int64(committed) + 100)))
      : writes.next(&random)
    guard let write else { return }
    note("somebody else: \(describe(write))")
    commit(write)
  }

  mutating func commit(_ write: Write) {
    let before = server.root
    let done = server.apply(write.resolved(in: before, at: 0))
    sequence += 1
    for subscription in subscriptions {
      let spec = subscription.spec
      let (old, new) = (before.at(spec.path), server.root.at(spec.path))
      guard old != new else { continue }
      let puts = spec.query.isUnbounded ? Self.puts(done, spec.path, new) : []
      let narrow = spec.query.changes(from: old, to: new).filter { $0.kind != .moved }.map {
        Assignment(Path.root.child($0.key), $0.kind == .removed ? .absent : $0.node)
      }
      let assignments = spec.query.isUnbounded ? puts : narrow
      guard !assignments.isEmpty else { continue }
      let isPatch = !assignments.contains { $0.location == Location(.root) }
      toClient.append(
        .changed(subscription.tag, assignments, isPatch: isPatch, sequence: sequence))
    }
  }

  /// Returns the written locations at and below a path, relative to it.
  static func puts(
    _ assignments: [Assignment], _ path: Path, _ node: Node
  ) -> [Assignment] {
    var result: [Assignment] = []
    for assignment in assignments {
      let location = assignment.location
      if !location.isPriority, path.hasPrefix(location.path) { return [Assignment(.root, node)] }
      guard let rest = location.path.relative(to: path) else { continue }
      result.append(
        Assignment(Location(rest, isPriority: location.isPriority), assignment.value))
    }
    return result
  }
}
