/// Malformed requests of HTTP.
extension FuzzText {
  /// Returns a request that is valid for the parser, so that the connection continues, with a target, fields and a
  /// body that are wrong in many ways.
  mutating func request() -> [UInt8] {
    if oneIn(40) { return identityRequest() }
    let method = pick([
      "GET", "GET", "GET", "PUT", "PATCH", "POST", "DELETE", "OPTIONS", "HEAD", "TRACE", "PROPFIND",
      "LINK", "SEARCH",
    ])
    var head =
      "\(method) \(target()) HTTP/1.1\r\nHost: \(pick(["localhost", "", "[::1]:1", "x y"]))\r\n"
    for _ in 0..<below(oneIn(30) ? 240 : 4) { head += field() }
    guard ["PUT", "PATCH", "POST"].contains(method) || oneIn(20) else {
      return Array((head + "\r\n").utf8)
    }
    let body = mutated(method == "PATCH" ? update() : json(), oneIn: 6)
    if oneIn(4) { return Array((head + "Transfer-Encoding: chunked\r\n\r\n").utf8) + chunks(body) }
    return Array((head + "Content-Length: \(body.count)\r\n\r\n").utf8) + body
  }

  /// Returns the data of an update of several locations.
  private mutating func update() -> String {
    let members = (0..<below(4)).map { _ in "\"\(path().dropFirst(oneIn(4) ? 0 : 6))\":\(json(1))" }
    return "{" + members.joined(separator: ",") + "}"
  }

  private mutating func target() -> String {
    var text = ""
    switch below(24) {
    case 0: text = pick(["/health", "/.lp", "/line", "/.ws", "/.well-known/jwks.json", "/", "/x"])
    case 1: text = pick(["/.json", "/safe.json", "/secret.json", "/.settings/rules.json"])
    case 2:
      text =
        "/identitytoolkit.googleapis.com/v1/"
        + pick(["accounts:lookup", "accounts:update", "accounts:delete", "x", "accounts:"])
    case 3: text = "/securetoken.googleapis.com/v1/token"
    case 4: text = String(repeating: "/", count: below(4000)) + ".json"
    case 5: text = "/fuzz/" + String(repeating: "%41", count: below(4000)) + ".json"
    case 6: text = "http://other" + (oneIn(2) ? "/fuzz.json" : "")
    case 7: text = "/" + junk(1 + below(200)).filter { $0 != " " }
    default: text = "/" + escaped(path()) + ".json"
    }
    guard oneIn(2) else { return text }
    let parameters = (0..<(1 + below(oneIn(40) ? 400 : 4))).map { _ in parameter() }
    return text + "?" + parameters.joined(separator: "&")
  }

  /// Returns a path as a target may have it: some of its characters are escaped, in rare cases wrongly.
  private mutating func escaped(_ path: String) -> String {
    path.utf8.map { byte -> String in
      let isPlain = byte > 0x20 && byte < 0x7F && byte != UInt8(ascii: "#")
      if isPlain, !oneIn(10) { return String(decoding: [byte], as: UTF8.self) }
      if oneIn(8) {
        return pick(["%", "%z1", "%4", "%00", "%ff", "%C3%28", "%25%32%46", "+", "%%"])
      }
      let digits = String(byte, radix: 16)
      return "%" + (digits.utf8.count < 2 ? "0" : "") + digits
    }.joined()
  }

  private mutating func parameter() -> String {
    let name = pick([
      "orderBy", "startAt", "startAfter", "endAt", "endBefore", "equalTo", "limitToFirst",
      "limitToLast", "shallow", "print", "format", "download", "timeout", "writeSizeLimit", "auth",
      "access_token", "auth_variable_override", "x-http-method-override", "ns", "callback", "",
    ])
    let value: String
    switch below(8) {
    case 0: value = "%22" + key().filter { $0.isASCII && $0 > " " } + "%22"
    case 1: value = pick(["%22$key%22", "%22$value%22", "%22$priority%22", "%22a/b%22", "%22%22"])
    case 2: value = pick(["-1", "0", "1", "99999999999999999999", "1e3", "3s", "1e9min", "-5ms"])
    case 3: value = pick(["true", "false", "pretty", "silent", "export", "tiny", "unlimited"])
    case 4: value = escaped(json(2))
    case 5: value = escaped(credential())
    case 6: value = pick(["PUT", "PATCH", "DELETE", "get", "%", "%zz", "%00", "null", "{}"])
    default: value = junk(below(30)).filter { $0 != "#" }
    }
    return name + (oneIn(12) ? "" : "=") + value
  }

  private mutating func field() -> String {
    switch below(14) {
    case 0: "Authorization: \(pick(["Bearer", "bearer", "Basic", ""])) \(visible(credential()))\r\n"
    case 1: "If-Match: \(pick(["null_etag", "x", "*", "", junk(30)]))\r\n"
    case 2: "If-None-Match: \(pick(["null_etag", "*", junk(300)]))\r\n"
    case 3: "X-Firebase-ETag: \(pick(["true", "TRUE", "false", ""]))\r\n"
    case 4: "X-HTTP-Method-Override: \(pick(["PUT", "PATCH", "delete", "BREW", "", "GET"]))\r\n"
    case 5: "Origin: \(pick(["https://evil.example", "null", "", junk(100)]))\r\n"
    case 6: "Accept-Encoding: \(pick(["gzip", "gzip;q=0", "gzip;q=x", ",,,", "*", "br"]))\r\n"
    case 7: "Accept: \(pick(["*/*", "text/event-stream;q=0", ";;;", "application/json"]))\r\n"
    case 8: "Content-Type: \(pick(["application/json", "", junk(50)]))\r\n"
    case 9: "Connection: \(pick(["keep-alive", "Keep-Alive, x", "x"]))\r\n"
    case 10: "Access-Control-Request-Headers: \(visible(junk(below(300))))\r\n"
    case 11: "X-\(below(100)): \(visible(junk(below(oneIn(20) ? 8000 : 60))))\r\n"
    case 12: "Cookie: \(visible(junk(below(500))))\r\n"
    default: "User-Agent: fuzz\r\n"
    }
  }

  private func visible(_ text: String) -> String {
    text.filter { $0.isASCII && $0 >= " " && $0 != "\u{7F}" }
  }

  /// Returns a body in chunks.
  private mutating func chunks(_ body: [UInt8]) -> [UInt8] {
    var result: [UInt8] = []
    var rest = body[...]
    while !rest.isEmpty {
      let part = rest.prefix(1 + below(rest.count))
      rest = rest.dropFirst(part.count)
      result += Array(String(part.count, radix: 16).utf8)
      if oneIn(8) { result += Array(";x=\(below(9))".utf8) }
      result += [13, 10] + part + [13, 10]
    }
    return result + Array((oneIn(8) ? "0\r\nX-Trailer: 1\r\n\r\n" : "0\r\n\r\n").utf8)
  }

  /// Returns bytes after which the parser cannot continue, or after which the connection ends.
  mutating func lastRequest() -> [UInt8] {
    let put = "PUT /fuzz/a.json HTTP/1.1\r\nHost: localhost\r\n"
    let chunked = put + "Transfer-Encoding: chunked\r\n\r\n"
    switch below(30) {
    case 0: return Array((put + "Content-Length: 100\r\n\r\n{\"a\":").utf8)
    case 1: return Array((put + "Content-Length: 2\r\n\r\n{\"a\":1}").utf8)
    case 2: return Array((put + "Content-Length: -1\r\n\r\n1").utf8)
    case 3: return Array((put + "Content-Length: 1\r\nContent-Length: 2\r\n\r\n12").utf8)
    case 4: return Array((put + "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n1").utf8)
    case 5: return Array((put + "Transfer-Encoding: gzip, x\r\n\r\nabc").utf8)
    case 6: return Array((chunked + "zz\r\n1\r\n0\r\n\r\n").utf8)
    case 7: return Array((chunked + "ffffffffffffffffff\r\n1").utf8)
    case 8: return Array((chunked + "5\r\n1\r\n0\r\n\r\n").utf8)
    case 9: return Array((chunked + "1\n1\n0\n\n").utf8)
    case 10: return Array((chunked + "1;" + junk(below(70_000)) + "\r\n1\r\n").utf8)
    case 11: return Array((chunked + "3\r\n12").utf8)
    case 12: return Array("GET /fuzz.json HTTP/1.1\r\nHost: a\u{0}b\r\n\r\n".utf8)
    case 13: return Array("GET /fuzz.json HTTP/1.1\r\nHost: x\r\nno colon\r\n\r\n".utf8)
    case 14: return Array("GET /fuzz.json HTTP/1.1\r\nHost: x\r\nA: 1\r\n  folded\r\n\r\n".utf8)
    case 15: return Array("GET /fuzz.json HTTP/\(below(10)).\(below(10))\r\n\r\n".utf8)
    case 16: return Array("GET /fuzz.json\r\n\r\n".utf8)
    case 17: return Array("GET / HTTP/1.1\r\nHost: x\r\nX: \(junk(66_000))\r\n\r\n".utf8)
    case 18:
      return Array(
        ("GET / HTTP/1.1\r\nHost: x\r\n" + String(repeating: "A: b\r\n", count: 400) + "\r\n").utf8)
    case 19: return Array("GET /a b c HTTP/1.1\r\nHost: x\r\n\r\n".utf8)
    case 20: return bytes(1 + below(2000))
    case 21: return [0x16, 0x03, 0x01, 0x02, 0x00, 0x01, 0x00, 0x01, 0xFC, 0x03, 0x03] + bytes(400)
    case 22: return Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8) + bytes(30)
    case 23: return Array("GET /fuzz.json HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".utf8)
    case 24: return Array("GET /fuzz.json HTTP/1.1\r\nHost: x\r\nUpgrade: h2c\r\n\r\n".utf8)
    case 25: return Array((put + "Content-Length: 99999999999999\r\n\r\n" + junk(300)).utf8)
    case 26: return Array((put + "Content-Length: 99999999999999999999999999\r\n\r\n").utf8)
    case 27: return Array("CONNECT localhost:1 HTTP/1.1\r\nHost: x\r\n\r\n".utf8)
    case 28:
      return Array((put + "Expect: 100-continue\r\nContent-Length: 5\r\n\r\n").utf8)
    default:
      return Array(
        "GET /fuzz.json?\(parameter()) HTTP/1.1\r\nHost: x\r\nAccept: text/event-stream\r\n\r\n"
          .utf8)
    }
  }
}
