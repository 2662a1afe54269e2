/// Malformed handshakes, frames and messages of WebSockets.
extension FuzzText {
  /// Returns a request for a WebSocket, in rare cases a malformed one.
  mutating func handshake(_ path: String) -> [UInt8] {
    var key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
    var version = "Sec-WebSocket-Version: 13\r\n"
    var rest = ""
    if oneIn(20) {
      switch below(6) {
      case 0: key = ""
      case 1: key = "Sec-WebSocket-Key: \(junk(below(60)))\r\n"
      case 2: key += key
      case 3: version = pick(["", "Sec-WebSocket-Version: 8\r\n", version + version])
      case 4: rest = "Content-Length: 3\r\n"
      default: rest = "Sec-WebSocket-Protocol: \(junk(20))\r\nOrigin: https://evil.example\r\n"
      }
    }
    return Array(
      ("GET \(path) HTTP/1.1\r\nHost: \(pick(["localhost", "a b", junk(300), ""]))\r\n"
        + "Upgrade: websocket\r\nConnection: Upgrade\r\n\(key)\(version)\(rest)\r\n").utf8)
  }

  /// Returns a frame with a mask.
  ///
  /// - Parameter lengthBytesMin: the least bytes of the length, which may be more than it needs: 1, 2 or 8.
  mutating func frame(
    _ kind: UInt8, _ payload: [UInt8], isMasked: Bool = true, lengthBytesMin: Int = 1
  ) -> [UInt8] {
    var frame = [kind]
    let flag: UInt8 = isMasked ? 0x80 : 0
    if payload.count < 126, lengthBytesMin == 1 {
      frame.append(flag | UInt8(payload.count))
    } else if payload.count <= 0xFFFF, lengthBytesMin <= 2 {
      frame += [flag | 126, UInt8(payload.count >> 8), UInt8(payload.count & 0xFF)]
    } else {
      frame.append(flag | 127)
      for shift in stride(from: 56, through: 0, by: -8) {
        frame.append(UInt8(truncatingIfNeeded: payload.count >> shift))
      }
    }
    guard isMasked else { return frame + payload }
    let mask = bytes(4)
    return frame + mask + payload.enumerated().map { $1 ^ mask[$0 & 3] }
  }

  /// Returns the frames of a text that the server can read: one, fragments, or counted ones.
  mutating func frames(_ text: [UInt8]) -> [UInt8] {
    switch below(12) {
    case 0:
      let parts = parts(text)
      return parts.enumerated().flatMap { index, part in
        let kind: UInt8 = (index == 0 ? 0x01 : 0x00) | (index == parts.count - 1 ? 0x80 : 0)
        return control() + frame(kind, part)
      }
    case 1:
      let parts = parts(text)
      return frame(0x81, Array("\(parts.count)".utf8))
        + parts.flatMap { control() + frame(0x81, $0) }
    case 3: return frame(0x81, text, lengthBytesMin: oneIn(2) ? 2 : 8)
    case 4: return frame(0x81, Array("0".utf8)) + frame(0x81, text)
    case 2: return frame(0x8A, bytes(below(126))) + frame(0x81, text)
    default: return frame(0x81, text)
    }
  }

  /// Divides a text into parts, some of which may be empty.
  private mutating func parts(_ text: [UInt8]) -> [[UInt8]] {
    var rest = text[...]
    var parts: [[UInt8]] = []
    for _ in 0..<below(5) {
      let part = rest.prefix(oneIn(6) ? 0 : below(rest.count + 1))
      parts.append(Array(part))
      rest = rest.dropFirst(part.count)
    }
    return parts + [Array(rest)]
  }

  /// Returns control frames as they may stand between the parts of a message, mostly none.
  private mutating func control() -> [UInt8] {
    guard oneIn(4) else { return [] }
    return frame(oneIn(2) ? 0x89 : 0x8A, bytes(below(126)))
  }

  /// Returns frames that the protocol does not allow, or that announce more or fewer frames than follow. Most end the
  /// connection.
  mutating func wrongFrames() -> [UInt8] {
    let part = frame(0x81, Array("{\"t\":".utf8))
    switch below(10) {
    case 0: return frame(0x81, Array("\(below(20))".utf8)) + part
    case 1: return frame(0x81, Array("\(1 << below(40))".utf8)) + part + part
    case 2: return frame(0x81, Array("2".utf8)) + frame(0x81, Array("3".utf8)) + part
    case 3: return frame(0x81, Array("1".utf8)) + frame(0x81, [])
    case 4: return frame(0x01, Array("{".utf8)) + frame(0x09, bytes(5)) + frame(0x80, [])
    case 5: return frame(0x01, Array("{".utf8)) + part
    case 6: return (0..<below(300)).flatMap { _ in frame(0x00, []) }
    case 7: return frame(0x01, []) + (0..<below(300)).flatMap { _ in frame(0x00, []) }
    case 8: return frame(0x81, [0xFF, 0xC0, 0x80])
    default:
      let code = [0, 999, 1000, 1001, 1004, 1005, 1006, 1015, 2999, 3000, 4999, 5000, 65535][
        below(13)]
      return frame(0x88, [UInt8(code >> 8), UInt8(code & 0xFF)] + bytes(below(124)))
    }
  }

  /// Returns frames after which the connection ends, or must wait.
  mutating func lastFrame() -> [UInt8] {
    if oneIn(3) { return wrongFrames() }
    switch below(16) {
    case 0: return frame(0x80 | UInt8(3 + below(5)), bytes(below(10)))
    case 1: return frame(0x80 | UInt8(11 + below(5)), bytes(below(10)))
    case 2: return frame(0x81 | UInt8(0x10 << below(3)), Array("0".utf8))
    case 3: return frame(0x81, Array("0".utf8), isMasked: false)
    case 4: return [0x81, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 1, 2, 3, 4]
    case 5: return [0x81, 0xFF, 0, 0, 0, 0, 0x7F, 0xFF, 0xFF, 0xFF, 1, 2, 3, 4] + bytes(3000)
    case 6: return [0x81, 0xFF, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0] + Array("12345".utf8)
    case 7: return frame(0x88, [UInt8(below(256)), UInt8(below(256))] + bytes(below(120)))
    case 8: return frame(0x88, oneIn(2) ? [] : [3])
    case 9: return frame(0x09, bytes(5))
    case 10: return frame(0x89, bytes(200))
    case 11: return frame(0x80, bytes(5))
    case 12: return frame(0x01, Array("{".utf8)) + frame(0x01, Array("{".utf8))
    case 13: return frame(0x82, bytes(below(200)))
    case 14: return Array(frame(0x81, bytes(below(400))).dropLast(1 + below(3)))
    default: return bytes(1 + below(600))
    }
  }

  /// Returns a message of the realtime protocol: a valid one, or one with a part that is missing, doubled or of
  /// another type.
  mutating func message(_ number: Int) -> [UInt8] {
    // Text that is not JSON ends the connection.
    isValid = !oneIn(100)
    defer { isValid = false }
    if !isValid, oneIn(4) {
      return Array(
        pick([
          "0", "1", "-1", "007", "99999999999999999999", "2.5", "", "{}", "[]", "null",
          #"{"t":"c"}"#,
          #"{"t":"c","d":{"t":"p","d":{}}}"#, #"{"t":"c","d":{"t":"s","d":"x"}}"#, #"{"t":"x"}"#,
          #"{"t":"d","d":[]}"#, "{\"t\":\"d\",\"d\":{\"r\":\(json(2))}}",
        ]).utf8)
    }
    let action = pick([
      "q", "q", "n", "g", "p", "p", "p", "m", "o", "om", "oc", "auth", "gauth", "unauth", "s",
      "appcheck", "x",
    ])
    var members = ["\"p\":\"\(path())\""]
    switch action {
    case "q", "n", "g":
      if oneIn(3) { members.append("\"q\":\(query())") }
      if oneIn(3) { members.append("\"t\":\(pick(["1", "2", "-1", "1e9", "\"x\"", json(3)]))") }
      members.append("\"h\":\"\(pick(["", junk(28).filter { $0 != "\"" && $0 != "\\" }]))\"")
    case "p", "m", "o", "om":
      members.append("\"d\":\(json(action == "m" || action == "om" ? 0 : 1))")
      if oneIn(6) { members.append("\"h\":\"\(pick(["", "x", "null_etag"]))\"") }
    case "auth", "gauth": members = ["\"cred\":\"\(credential())\""]
    case "s": members = ["\"c\":{\"sdk.js.9-0-0\":1}"]
    case "appcheck": members = ["\"token\":\"\(junk(9).filter { $0 != "\"" && $0 != "\\" })\""]
    default: break
    }
    if oneIn(12), !members.isEmpty { members.remove(at: below(members.count)) }
    if oneIn(12) { members += members }
    if oneIn(12) { members.append("\"\(key())\":\(json(2))") }
    var body = "{" + members.joined(separator: ",") + "}"
    if oneIn(40) { body = json(1) }
    let text =
      #"{"t":"d","d":{"r":\#(oneIn(40) ? json(3) : String(number)),"a":"\#(action)","b":\#(body)}}"#
    return mutated(text)
  }

  private mutating func query() -> String {
    var members: [String] = []
    for name in ["sp", "sn", "sin", "ep", "en", "ein", "l", "vf", "i", "x"] where oneIn(3) {
      let value = pick([
        "1", "-1", "0", "true", "false", "\"l\"", "\"r\"", "\".key\"", "\".value\"", "\"a/b\"",
        "\"a\"", "null", json(3),
      ])
      members.append("\"\(name)\":\(value)")
    }
    return "{" + members.joined(separator: ",") + "}"
  }

  /// Returns a line of the line protocol. It creates no account, because hashing passwords would take the time, and no
  /// post, which every user may create.
  mutating func line() -> [UInt8] {
    let verb = pick([
      "PING", "HELP", "GET", "SET", "UPDATE", "PUSH", "DELETE", "CAS", "LISTEN", "UNLISTEN",
      "ONDISCONNECT", "SHOW", "RECENT", "TOP", "STAR", "COMMENT", "WHOAMI", "COUNT", "AUTH",
      "WATCH", "RULES", "QUIT", "\u{0}", "GET",
    ])
    let words = (0..<below(4)).map { _ -> String in
      switch below(5) {
      case 0, 1: return path()
      case 2: return json(1)
      case 3: return #"{"events":"\#(pick(["value", "child", "sync", "x"]))","limit":\#(json(3))}"#
      default: return credential()
      }
    }
    return mutated(([verb] + words).joined(separator: " "))
  }
}
