import CanopyEngine
import CanopyTesting
import CanopyTree

@testable import CanopyLineServer

/// A copy of the result of a query, made from the events of a subscription. It survives its connections: a
/// commit counts as seen when all its events have arrived.
struct ListenReplica {
  let listening: Listening
  /// The options of LISTEN, without `since`.
  let options: String
  private(set) var sub: Int64 = 0
  private(set) var problem: String?
  /// The last commit that was seen completely; nil before the first.
  private var seen: Int64?
  private var pending: [Event] = []
  private var initialEventsMissing: Int64 = 0
  private var startSequence: Int64 = 0

  private var children: [(key: String, data: JSONValue)] = []
  private var value: JSONValue?
  private var copy = Tree()

  init(_ listening: Listening, options: String) {
    self.listening = listening
    self.options = options
  }

  var request: String {
    var members = options
    if let seen { members += (members.isEmpty ? "" : ",") + "\"since\":\(seen)" }
    return "LISTEN \(listening.path.quoted) {\(members)}"
  }

  /// Applies the reply to `request`.
  mutating func begin(_ reply: String) throws {
    let reply = try JSONValue(json: String(reply.dropFirst()))
    sub = reply["sub"]?.integer ?? 0
    initialEventsMissing = reply["initial"]?.integer ?? -1
    startSequence = reply["seq"]?.integer ?? -1
    pending = []
    if initialEventsMissing == 0 { see(startSequence) }
  }

  /// Applies an event. A commit takes effect with its last event.
  mutating func take(_ event: Event) throws {
    pending.append(event)
    if initialEventsMissing > 0 { initialEventsMissing -= 1 }
    guard !event.isMore, initialEventsMissing == 0, let sequence = event.sequence else { return }
    let events = pending
    pending = []
    // Removes a moved child first: its neighbour may be a child that is yet to be moved.
    for event in events where event.name == "child_moved" { takeOut(event.key ?? "") }
    for event in events { try apply(event) }
    see(sequence)
  }

  private mutating func see(_ sequence: Int64) {
    if let seen, sequence < seen { problem = "commit \(sequence) came after \(seen)" }
    seen = sequence
  }

  private mutating func apply(_ event: Event) throws {
    switch event.name {
    case "value": value = event.data
    case "put" where listening.form == .child:
      guard case .object(let members)? = event.data else { return children = [] }
      children = members.map { ($0.name, $0.value) }
    case "put":
      // Compares bytes: a slash and a combining mark after it are one character.
      let path = try Location(String(decoding: (event.path ?? "").utf8.dropFirst(), as: UTF8.self))
      copy.apply([Assignment(path, try node(event.data))])
    case "patch":
      guard case .object(let members)? = event.data else { return problem = "an empty patch" }
      copy.apply(
        try members.map { Assignment(try Location($0.name), try node($0.value)) })
    default: applyChild(event)
    }
  }

  /// The value of a copy of the form `sync`.
  var root: Node { copy.root }

  private func node(_ data: JSONValue?) throws -> Node {
    guard let data else { return .absent }
    return try WriteValue(json: data.text, limits: .none).node
  }

  private mutating func applyChild(_ event: Event) {
    guard let key = event.key, let data = event.data else { return problem = "no key or data" }
    let index = children.firstIndex { $0.key.hasBytes(of: key) }
    switch event.name {
    case "child_removed":
      guard let index else { return problem = "\(key) is removed and was not there" }
      children.remove(at: index)
    case "child_added":
      guard index == nil else { return problem = "\(key) is added and was there" }
      insert(key, data, after: event.previous)
    case "child_moved":
      guard index == nil else { return problem = "\(key) is moved twice" }
      insert(key, data, after: event.previous)
    default:
      guard let index else { return problem = "\(key) has changed and was not there" }
      children[index].data = data
    }
  }

  private mutating func takeOut(_ key: String) {
    guard let index = children.firstIndex(where: { $0.key.hasBytes(of: key) }) else {
      return problem = "\(key) is moved and was not there"
    }
    children.remove(at: index)
  }

  /// The children whose previous child is yet to be moved itself.
  private var waiting: [(key: String, data: JSONValue, previous: String)] = []

  private mutating func insert(_ key: String, _ data: JSONValue, after previous: String?) {
    guard let previous else {
      children.insert((key, data), at: 0)
      return insertWaiting()
    }
    guard let index = children.firstIndex(where: { $0.key.hasBytes(of: previous) }) else {
      return waiting.append((key, data, previous))
    }
    children.insert((key, data), at: index + 1)
    insertWaiting()
  }

  private mutating func insertWaiting() {
    let ready = waiting.firstIndex { entry in
      children.contains { $0.key.hasBytes(of: entry.previous) }
    }
    guard let ready else { return }
    let entry = waiting.remove(at: ready)
    insert(entry.key, entry.data, after: entry.previous)
  }

  /// Returns the difference between the copy and the tree; nil if they agree.
  func problem(_ root: Node) throws -> String? {
    if let problem { return "\(problem), listening with \(request)" }
    let node = root.at(listening.path)
    let isRight: Bool
    switch listening.form {
    case .child:
      let expected = try listening.query.children(of: node).map { ($0.key.text, try $0.node.json) }
      isRight =
        waiting.isEmpty && pending.isEmpty
        && children.elementsEqual(expected) { $0.key.hasBytes(of: $1.0) && $0.data == $1.1 }
    case .value:
      let shown = listening.query.value(of: node)
      // Compares members: the reply to a query is an object even if its keys are integers.
      isRight = try members(value) == members(try shown.json)
    case .sync:
      let expected = listening.query.value(of: node)
      if copy.root == expected { return nil }
      return """
        the copy differs, listening with \(request)
        copy:   \(copy.root.json(.export))
        server: \(expected.json(.export))
        """
    }
    return isRight ? nil : "the copy differs, listening with \(request)"
  }

  private func members(_ value: JSONValue?) throws -> Node {
    try node(value ?? .null)
  }
}

extension Path {
  /// The argument of a request.
  var quoted: String {
    var output = JSONOutput()
    output.append(string: "/" + text)
    return output.text
  }
}

extension Node {
  /// The name in an event.
  var json: JSONValue {
    get throws {
      var output = JSONOutput()
      output.append(self)
      return try JSONValue(json: output.text, limits: .none)
    }
  }
}

extension JSONValue {
  /// The text.
  var text: String {
    var output = JSONOutput()
    append(to: &output)
    return output.text
  }

  private func append(to output: inout JSONOutput) {
    switch self {
    case .null: output.append("null")
    case .leaf(let node): output.append(node)
    case .array(let elements):
      output.append("[")
      for (index, element) in elements.enumerated() {
        if index > 0 { output.append(",") }
        element.append(to: &output)
      }
      output.append("]")
    case .object(let members):
      output.append("{")
      for (index, member) in members.enumerated() {
        if index > 0 { output.append(",") }
        output.append(string: member.name)
        output.append(":")
        member.value.append(to: &output)
      }
      output.append("}")
    }
  }
}

extension String {
  /// Compares keys by bytes: two different keys may be equal as Swift strings.
  fileprivate func hasBytes(of other: String) -> Bool { utf8.elementsEqual(other.utf8) }
}
