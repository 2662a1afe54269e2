import CanopyTree
import CanopyTesting
import Foundation
import Testing

@testable import CanopyClient

/// Scenarios of listens, writes and server messages, each step with the events of Firebase's own
/// clients. They are outside the repository; `CANOPY_CONFORMANCE` is their path.
struct SyncTreeConformance {
  static let folder = Checkout.conformance

  static var isThere: Bool { FileManager.default.fileExists(atPath: folder.path) }

  @Test(.enabled("the conformance tables are not there") { isThere })
  func `every scenario raises the events that Firebase's clients raise`() throws {
    let bytes = try Data(contentsOf: Self.folder.appending(path: "sync-tree.json"))
    let text = try #require(String(data: bytes, encoding: .utf8))
    let scenarios = try #require(try JSONValue(json: text).elements)
    #expect(scenarios.count >= 90)
    var stepCount = 0
    for scenario in scenarios {
      let name = try #require(scenario["name"]?.string)
      let steps = try #require(scenario["steps"]?.elements, "\(name) has no steps")
      var run = ScenarioRun(name: name)
      for (index, step) in steps.enumerated() {
        do {
          let problem = try run.take(step)
          if let problem {
            Issue.record("\(name), step \(index): \(problem)")
            break
          }
        } catch {
          Issue.record("\(name), step \(index) cannot be read: \(error)")
          break
        }
        stepCount += 1
      }
    }
    print("SyncTreeConformance: \(scenarios.count) scenarios, \(stepCount) steps")
  }
}

/// A run of one scenario.
struct ScenarioRun {
  /// An event without its listener.
  struct Received: Equatable, CustomStringConvertible {
    var path: Path
    var kind: DataEvent.Kind
    var key: Key?
    var previous: Key?
    var node: Node

    var description: String {
      "\(kind) \(path) \(key?.text ?? "") after \(previous?.text ?? "-"): \(node.json(.export))"
    }
  }

  let name: String
  private var tree = SyncTree()
  private var writes: [WriteID] = []
  private var listeners: [(spec: QuerySpec, id: ListenerID)] = []
  private var specOfTag: [Int64: QuerySpec] = [:]

  init(name: String) {
    self.name = name
  }

  /// Runs a step.
  ///
  /// - Returns: a description of the first wrong event; nil if all are correct.
  mutating func take(_ step: JSONValue) throws -> String? {
    let type = try Self.text(step, "type")
    let effects: Effects
    switch type {
    case "listen":
      let spec = try Self.spec(step)
      if let tag = try Self.integer(step["params"] ?? .null, "tag") { specOfTag[tag] = spec }
      let id = ListenerID(listeners.count)
      listeners.append((spec, id))
      effects = tree.listen(id, to: spec, for: .all)
    case "unlisten":
      let spec = try Self.spec(step)
      let listener = try #require(listeners.last { $0.spec == spec })
      effects = tree.unlisten(listener.id)
    case "set": effects = try set(step)
    case "update":
      let path = try Path(Self.text(step, "path"))
      effects = write(try Write.update(path, try Self.changes(step)))
    case "serverUpdate":
      let location = try Location(Self.text(step, "path"))
      let assignment = Assignment(location, try Self.node(try #require(step["data"])))
      effects = try serverChanged(step, [assignment], patched: nil)
    case "serverMerge":
      let path = try Path(Self.text(step, "path"))
      let assignments = try Self.changes(step).map { location, value in
        Assignment(
          Location(path.appending(location.path), isPriority: location.isPriority), value.node)
      }
      effects = try serverChanged(step, assignments, patched: path)
    case "ackUserWrite":
      let number = try #require(try Self.integer(step, "writeId"))
      try #require(writes.indices.contains(Int(number)), "no write \(number)")
      let id = writes[Int(number)]
      effects = try Self.bool(step, "revert") ? tree.refused(id) : tree.acknowledged(id)
    case "suppressWarning": return nil
    default: throw TreeError.invalidData("unknown type of step: \(type)")
    }
    return try compare(effects.events, try #require(step["events"]?.elements))
  }

  private mutating func set(_ step: JSONValue) throws -> Effects {
    let location = try Location(Self.text(step, "path"))
    let node = try Self.node(try #require(step["data"]))
    if try step["visible"] == nil || Self.bool(step, "visible") {
      return write(try Write.set(location, WriteValue(node)))
    }
    // A write that listeners do not see is the result of a transaction without local events.
    let (_, effects) = tree.beginTransaction(at: location.path, hasLocalEvents: false)
    let run = try #require(effects.runs.first)
    writes.append(WriteID(-1))
    return tree.transactionRan(
      run.id, attempt: run.attempt, returning: WriteValue(node), at: 0)
  }

  private mutating func write(_ write: Write) -> Effects {
    let (id, effects) = tree.write(write, at: 0)
    writes.append(id)
    return effects
  }

  private mutating func serverChanged(
    _ step: JSONValue, _ assignments: [Assignment], patched: Path?
  ) throws -> Effects {
    let path = assignments.first?.location.path ?? .root
    guard let tag = try Self.integer(step, "tag") else {
      return tree.serverChanged(assignments, of: QuerySpec(path), patched: patched)
    }
    let spec = try #require(specOfTag[tag], "no query has the tag \(tag)")
    return tree.serverChanged(assignments, of: spec, patched: patched)
  }

  // MARK: Comparing

  /// Compares events with the expected ones, for each location and listener in order. The scenarios
  /// do not say which of several listeners of a location receives an event, so their events must be
  /// a possible interleaving of the listeners' events.
  private func compare(_ events: [DataEvent], _ expected: [JSONValue]) throws -> String? {
    var wanted: [Path: [Received]] = [:]
    for event in expected {
      let reported = try Self.received(event)
      wanted[reported.path, default: []].append(reported)
    }
    var raised: [Path: [ListenerID: [Received]]] = [:]
    for event in events {
      guard let path = listeners.first(where: { $0.id == event.listener })?.spec.path else {
        return "an event for nobody: \(event)"
      }
      let reported = Received(
        path: path, kind: event.kind, key: event.key, previous: event.previous, node: event.node)
      raised[path, default: [:]][event.listener, default: []].append(reported)
    }
    for path in Set(wanted.keys).union(raised.keys).sorted() {
      let want = Self.inOrder(wanted[path] ?? [])
      let have = Array((raised[path] ?? [:]).values)
      if !Self.canInterleave(have[...].map { $0[...] }, to: want[...]) {
        return "expected \(want), raised \(have)"
      }
    }
    return nil
  }

  /// Sorts events by kind. Three scenarios list the kinds in another sequence than all others;
  /// within a kind, the sequence is the scenario's.
  private static func inOrder(_ events: [Received]) -> [Received] {
    DataEvent.Kind.allCases.flatMap { kind in events.filter { $0.kind == kind } }
  }

  private static func canInterleave(_ lists: [ArraySlice<Received>], to want: ArraySlice<Received>)
    -> Bool
  {
    guard let next = want.first else { return lists.allSatisfy(\.isEmpty) }
    for i in lists.indices where lists[i].first == next {
      var rest = lists
      rest[i] = rest[i].dropFirst()
      if canInterleave(rest, to: want.dropFirst()) { return true }
    }
    return false
  }

  private static func received(_ event: JSONValue) throws -> Received {
    let kind: DataEvent.Kind
    switch try text(event, "type") {
    case "value": kind = .value
    case "child_added": kind = .childAdded
    case "child_changed": kind = .childChanged
    case "child_moved": kind = .childMoved
    case "child_removed": kind = .childRemoved
    case let type: throw TreeError.invalidData("unknown type of event: \(type)")
    }
    // A removed child and a value have no neighbour, although some scenarios name one; an empty
    // name stands for none.
    let hasPrevious = kind != .childRemoved && kind != .value
    let previous = hasPrevious ? try name(event, "prevName") : nil
    return Received(
      path: try Path(text(event, "path")), kind: kind,
      key: try name(event, "name"), previous: previous,
      node: try node(try #require(event["data"])))
  }

  // MARK: Reading

  private static func name(_ event: JSONValue, _ name: String) throws -> Key? {
    guard let text = event[name]?.string, !text.isEmpty else { return nil }
    return try Key(text)
  }

  private static func text(_ value: JSONValue, _ name: String) throws -> String {
    guard let text = value[name]?.string else {
      throw TreeError.invalidData("no text \(name)")
    }
    return text
  }

  private static func integer(_ value: JSONValue, _ name: String) throws -> Int64? {
    guard let member = value[name] else { return nil }
    guard case .leaf(let node) = member, let integer = node.integerValue else {
      throw TreeError.invalidData("\(name) is no integer")
    }
    return integer
  }

  private static func bool(_ value: JSONValue, _ name: String) throws -> Bool {
    guard let member = value[name] else { return false }
    guard case .leaf(let node) = member, let bool = node.boolValue else {
      throw TreeError.invalidData("\(name) is no bool")
    }
    return bool
  }

  private static func node(_ value: JSONValue) throws -> Node {
    switch value {
    case .null: return .absent
    case .leaf(let node): return node
    case .array(let elements):
      return Node(
        children: try elements.enumerated().map { (Key(index: Int32($0)), try node($1)) })
    case .object(let members):
      let priority = try value[".priority"].map { try node($0) } ?? .absent
      if let leaf = value[".value"] { return try node(leaf).withPriority(priority) }
      let children = try members.filter { $0.name != ".priority" }
        .map { (try Key($0.name), try node($0.value)) }
      return Node(children: children).withPriority(priority)
    }
  }

  private static func changes(_ step: JSONValue) throws -> [(Location, WriteValue)] {
    guard case .object(let members) = step["data"] else {
      throw TreeError.invalidData("the data of an update must be an object")
    }
    return try members.map { (try Location($0.name), WriteValue(try node($0.value))) }
  }

  private static func spec(_ step: JSONValue) throws -> QuerySpec {
    let path = try Path(text(step, "path"))
    guard case .object(let members) = step["params"] else { return QuerySpec(path) }
    var order = Order.priority
    var lower: Query.Bound?
    var upper: Query.Bound?
    var limit: Query.Limit?
    for (name, value) in members {
      switch name {
      case "tag": break
      case "orderByKey": order = .key
      case "orderBy": order = .child(try Path(try #require(value.string)))
      case "startAt", "startAfter", "endAt", "endBefore", "equalTo": break
      case "limitToFirst":
        limit = .first(Int(try #require(try integer(.object(members), name))))
      case "limitToLast":
        limit = .last(Int(try #require(try integer(.object(members), name))))
      default: throw TreeError.invalidData("unknown parameter: \(name)")
      }
    }
    for (name, value) in members {
      switch name {
      case "startAt": lower = try bound(value, order, isInclusive: true)
      case "startAfter": lower = try bound(value, order, isInclusive: false)
      case "endAt": upper = try bound(value, order, isInclusive: true)
      case "endBefore": upper = try bound(value, order, isInclusive: false)
      case "equalTo":
        lower = try bound(value, order, isInclusive: true)
        upper = lower
      default: break
      }
    }
    return QuerySpec(path, try Query(order: order, lower: lower, upper: upper, limit: limit))
  }

  private static func bound(
    _ value: JSONValue, _ order: Order, isInclusive: Bool
  ) throws -> Query.Bound {
    let index = try node(value["index"] ?? .null)
    if order == .key {
      let key = try Key(try #require(index.stringValue))
      return Query.Bound(.absent, key: key, isInclusive: isInclusive)
    }
    let key = try value["name"]?.string.map { try Key($0) }
    return Query.Bound(
      try #require(BoundValue(index)), key: key, isInclusive: isInclusive)
  }
}
