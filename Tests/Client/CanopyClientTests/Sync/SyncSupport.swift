import CanopyTree

@testable import CanopyClient

/// A sync tree with listeners whose events are recorded as text.
final class SyncFixture {
  var tree = SyncTree()
  private var names: [ListenerID: String] = [:]

  /// Adds a listener; its name precedes each event.
  func listen(
    _ name: String, to path: String, _ query: Query = .all, for kinds: DataEvent.Kinds = .all
  ) throws -> Effects {
    let id = ListenerID(names.count)
    names[id] = name
    return tree.listen(id, to: QuerySpec(try Path(path), query), for: kinds)
  }

  func unlisten(_ name: String) -> Effects {
    guard let id = names.first(where: { $0.value == name })?.key else { return Effects() }
    return tree.unlisten(id)
  }

  func set(_ path: String, _ json: String, at now: Int64 = 0) throws -> (
    id: WriteID, effects: Effects
  ) {
    tree.write(try Write.set(Location(path), try WriteValue(json: json)), at: now)
  }

  /// Reports a location below a listen, as the server.
  func received(
    _ spec: QuerySpec, _ path: String, _ json: String, isPatch: Bool = false, sequence: Int64 = 1
  ) throws -> Effects {
    guard let tag = tree.listens[spec]?.tag else { return Effects() }
    let assignment = Assignment(try Location(path), try Node(json: json))
    return tree.changed(tag, [assignment], isPatch: isPatch, sequence: sequence)
  }

  /// Returns events as `name kind key value`.
  func texts(_ effects: Effects) -> [String] {
    effects.events.map { event in
      let key = event.key.map { " \($0.text)" } ?? ""
      return "\(names[event.listener] ?? "nobody") \(event.kind)\(key) \(event.node.json(.export))"
    }
  }

  /// Returns the listens that are started and stopped on the server.
  func requests(_ effects: Effects) -> [String] {
    effects.starts.map { listen in
      let since = listen.since.map { " since \($0)" } ?? ""
      return "start \(listen.spec.path)\(listen.spec.query.isUnbounded ? "" : " narrow")\(since)"
    } + effects.stops.map { "stop \($0.number)" }
  }
}

extension QuerySpec {
  init(_ path: String) throws {
    self.init(try Path(path))
  }
}
