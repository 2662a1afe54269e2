import CanopyTree

/// The requests of one connection that speaks the realtime protocol. They build on each other, so that many of them are
/// accepted: a listener that is removed exists, and a condition can hold. Half of them are then changed.
struct FuzzConversation {
  /// The actions of the protocol, by their names.
  static let actions = [
    "q", "n", "g", "p", "m", "o", "om", "oc", "auth", "gauth", "unauth", "s", "appcheck",
  ]

  /// The actions of the requests, by their numbers.
  private(set) var sent: [Int: String] = [:]
  /// The members that name each listener.
  private var listeners: [[(name: String, value: FuzzJSON)]] = []
  /// The hash of `/safe`, which does not change.
  private static let safeHash = (try? WriteValue(json: FuzzRun.data))?.node.hash ?? ""

  /// Returns a message with a request.
  mutating func message(_ number: Int, _ text: inout FuzzText) -> [UInt8] {
    text.isValid = true
    defer { text.isValid = false }
    let action = text.pick(Self.actions + ["q", "q", "n", "g", "p", "p", "p", "m", "m", "o"])
    var body = body(action, &text)
    if text.oneIn(2) {
      for _ in 0...text.below(3) { text.change(&body) }
    }
    var request: [(name: String, value: FuzzJSON)] = [
      ("r", .text("\(number)")), ("a", .string(action)), ("b", body),
    ]
    if text.oneIn(60) {
      request[1].value = .string(text.pick(["x", "", "Q", "stats", "listen", "\\u0000"]))
    } else if text.oneIn(200) {
      // The connection may end.
      var changed = FuzzJSON.object(request)
      text.change(&changed)
      return Self.envelope(changed)
    } else {
      sent[number] = action
    }
    if text.oneIn(10) { request.swapAt(0, text.below(3)) }
    return Self.envelope(.object(request))
  }

  private static func envelope(_ request: FuzzJSON) -> [UInt8] {
    Array("{\"t\":\"d\",\"d\":\(request.description)}".utf8)
  }

  private mutating func body(_ action: String, _ text: inout FuzzText) -> FuzzJSON {
    switch action {
    case "q":
      var target = Self.target(&text)
      if !text.oneIn(6) {
        listeners.append(target)
        if listeners.count > 50 { listeners.removeFirst() }
      }
      target.append(("h", .string(text.oneIn(4) ? Self.safeHash : "")))
      return .object(target)
    case "n":
      guard !listeners.isEmpty else { return .object(Self.target(&text)) }
      return .object(listeners.remove(at: text.below(listeners.count)))
    case "g": return .object(Array(Self.target(&text).prefix(2)))
    case "p":
      if text.oneIn(4) {
        // Nothing is there, as the hash says.
        let path = "/fuzz/new/\(text.below(1_000_000_000))"
        return .object([("p", .string(path)), ("d", Self.value(&text)), ("h", .string(""))])
      }
      var members: [(name: String, value: FuzzJSON)] = [
        ("p", .string(Self.path(&text))), ("d", Self.value(&text)),
      ]
      if text.oneIn(4) { members.append(("h", .string(text.pick(["", Self.safeHash, "x"])))) }
      return .object(members)
    case "o": return .object([("p", .string(Self.path(&text))), ("d", Self.value(&text))])
    case "m", "om":
      let changes = (0..<text.below(4)).map { _ in
        (name: String(Self.path(&text).dropFirst("/fuzz/".utf8.count)), value: Self.value(&text))
      }
      return .object([("p", .string("/fuzz")), ("d", .object(changes))])
    case "oc": return .object([("p", .string(Self.path(&text))), ("d", .text("null"))])
    case "auth", "gauth": return .object([("cred", .string(text.credential()))])
    case "s": return .object([("c", .object([("sdk.js.9-0-0", .text("1"))]))])
    case "appcheck": return .object([("token", .string("a.b.c"))])
    default: return .object([])
    }
  }

  /// Returns the members of a location with a query or without one.
  private static func target(_ text: inout FuzzText) -> [(name: String, value: FuzzJSON)] {
    let place = text.oneIn(3) ? text.pick(["/fuzz", "/safe", "/.info/connected"]) : path(&text)
    guard text.oneIn(2) else { return [("p", .string(place))] }
    return [
      ("p", .string(place)), ("q", query(&text)), ("t", .text("\(1 + text.below(1_000_000))")),
    ]
  }

  private static func query(_ text: inout FuzzText) -> FuzzJSON {
    let order = text.pick([".key", ".value", ".priority", "a", "a/b"])
    let bound =
      order == ".key" ? "\"\(text.pick(["a", "c", "9"]))\"" : text.pick(["1", "\"m\"", "null"])
    var members: [(name: String, value: FuzzJSON)] = [("i", .string(order))]
    if text.oneIn(2) {
      members.append(("sp", .text(bound)))
      if order != ".key", text.oneIn(2) { members.append(("sn", .string("b"))) }
      if text.oneIn(3) { members.append(("sin", .text(text.pick(["true", "false"])))) }
    }
    if text.oneIn(3) {
      members.append(("ep", .text(order == ".key" ? "\"x\"" : "\"z\"")))
      if text.oneIn(3) { members.append(("ein", .text(text.pick(["true", "false"])))) }
    }
    if text.oneIn(2) {
      members += [
        ("l", .text("\(1 + text.below(20))")), ("vf", .text(text.pick(["\"l\"", "\"r\""]))),
      ]
    }
    return .object(members)
  }

  /// Returns a path below `/fuzz` whose keys are valid.
  private static func path(_ text: inout FuzzText) -> String {
    let depth = text.oneIn(40) ? 20 + text.below(12) : 1 + text.below(4)
    return "/fuzz"
      + (0..<depth).map { _ in "/" + text.pick(["a", "b", "c", "d", "e-\(text.below(50))", "7"]) }
      .joined()
  }

  private static func value(_ text: inout FuzzText) -> FuzzJSON {
    switch text.below(8) {
    case 0: .text("null")
    case 1: .text(#"{".sv":{"increment":\#(text.below(9))}}"#)
    case 2: .text(#"{".sv":"timestamp"}"#)
    case 3:
      .object([(".value", .text("\(text.below(99))")), (".priority", .text("\(text.below(9))"))])
    case 4: .text("\"\(String(repeating: "v", count: text.below(text.oneIn(20) ? 20_000 : 40)))\"")
    case 5, 6:
      .object(
        (0..<(1 + text.below(4))).map {
          ("abcdefgh".split(separator: "")[$0].description, value(&text))
        })
    default: .text("\(text.below(100_000))")
    }
  }
}
