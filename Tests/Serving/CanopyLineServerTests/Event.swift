import CanopyTesting
import CanopyTree

/// A line about a subscription.
struct Event: Equatable, Sendable {
  var sub: Int64
  var name: String
  var key: String?
  var previous: String?
  var path: String?
  var data: JSONValue?
  var sequence: Int64?
  var isMore = false
  var code: String?

  struct NoEvent: Error {
    var line: String
  }

  init(_ line: String) throws {
    guard line.first == ">" else { throw NoEvent(line: line) }
    let value = try JSONValue(json: String(line.dropFirst()))
    guard let sub = value["sub"]?.integer, let name = value["event"]?.string else {
      throw NoEvent(line: line)
    }
    self.sub = sub
    self.name = name
    key = value["key"]?.string
    previous = value["prev"]?.string
    path = value["path"]?.string
    data = value["data"]
    sequence = value["seq"]?.integer
    isMore = value["more"] == .leaf(true)
    code = value["code"]?.string
  }

  /// A short form: `added b after a`, `value`, `put /x`, `cancel PERMISSION_DENIED`.
  var brief: String {
    var words = [name.replacing("child_", with: "")]
    if let key { words.append(key) }
    if let previous { words.append("after \(previous)") }
    if let path { words.append(path) }
    if let code { words.append(code) }
    return words.joined(separator: " ")
  }
}

extension LineClient {
  /// Returns the next line, which must be an event.
  func event() async throws -> Event {
    try Event(try await readLine())
  }

  /// Sends a request. Returns the events before its reply, and the reply.
  func events(until request: String) async throws -> (events: [Event], reply: String) {
    try await send(request + "\n")
    var events: [Event] = []
    while true {
      let line = try await readLine()
      guard line.first == ">" else { return (events, line) }
      events.append(try Event(line))
    }
  }

  /// Returns the short forms of the events until now, including those of all earlier requests.
  func arrived() async throws -> [String] {
    try await events(until: "PING").events.map(\.brief)
  }

  /// Begins a subscription. Returns its number, its first commit number and its first events.
  func begin(
    _ request: String
  ) async throws -> (sub: Int64, sequence: Int64, events: [Event]) {
    let reply = try await value(request)
    guard let sub = reply["sub"]?.integer, let sequence = reply["seq"]?.integer,
      let count = reply["initial"]?.integer
    else { throw LineClientError.unexpected("\(reply)") }
    var events: [Event] = []
    for _ in 0..<count { events.append(try await event()) }
    return (sub, sequence, events)
  }
}
