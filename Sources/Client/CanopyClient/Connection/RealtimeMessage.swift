internal import CanopyRealtimeWire
package import CanopyTree
internal import CanopyWire

/// A decoded message of the server in the realtime protocol.
package enum RealtimeMessage: Sendable {
  /// The first message of a connection: the server's time in milliseconds since 1970, and the host of later
  /// connections.
  case handshake(milliseconds: Int64?, host: String?, session: String?)
  /// The client is to connect again, to this host if there is one.
  case reset(host: String?)
  /// The server ends the connection, and the client must not connect again soon.
  case shutdown(String)
  /// A sentence for the developer.
  case notice(String)
  /// The answer to the request with a number: the word for its outcome, and the JSON of its data.
  case answer(Int64, status: String, data: [UInt8])
  /// Locations have new values.
  ///
  /// - path: the location to which the server says that the data belong.
  /// - tag: the listener of a bounded query; nil for those of whole locations.
  case changed(path: Path, tag: Int64?, [Assignment])
  /// A listener was cancelled: that of a query, or nil for that of the whole location.
  case cancelled(Path, Query?)
  /// The identity of the connection has ended.
  case revoked(status: String, reason: String)
  /// A message that needs no reaction, such as the answer to a ping.
  case other

  /// Decodes a message. Data have no limits: the server has checked them.
  ///
  /// - Throws: `TreeError` if the message is malformed. An unknown kind is `other`.
  package init(_ json: UnsafeRawBufferPointer) throws(TreeError) {
    let envelope = try JSONMembers(json)
    guard let data = envelope["d"] else {
      throw .invalidData("a message must have t and d")
    }
    let content = try JSONMembers(data)
    switch envelope.text("t") {
    case "c": self = try RealtimeMessage(control: content)
    case "d":
      guard let body = content["b"] else { throw .invalidData("a data message must have b") }
      if let number = content.integer("r") {
        self = try RealtimeMessage(answer: number, try JSONMembers(body))
      } else {
        self = try RealtimeMessage(action: content.text("a") ?? "", try JSONMembers(body))
      }
    default: throw .invalidData("the t of a message must be c or d")
    }
  }

  private init(control: JSONMembers) throws(TreeError) {
    switch control.text("t") {
    case "h":
      guard let data = control["d"] else { throw .invalidData("a handshake must have d") }
      let handshake = try JSONMembers(data)
      self = .handshake(
        milliseconds: handshake.integer("ts"), host: handshake.text("h"),
        session: handshake.text("s"))
    case "r": self = .reset(host: control.text("d"))
    case "s": self = .shutdown(control.text("d") ?? "")
    case "e": self = .notice(control.text("d") ?? "")
    default: self = .other
    }
  }

  private init(answer number: Int64, _ body: JSONMembers) throws(TreeError) {
    guard let status = body.text("s") else { throw .invalidData("an answer must have s") }
    self = .answer(number, status: status, data: body["d"].map { [UInt8]($0) } ?? [])
  }

  private init(action: String, _ body: JSONMembers) throws(TreeError) {
    switch action {
    case "d", "m":
      guard let data = body["d"] else { throw .invalidData("a change must have d") }
      let location = try Location(body.text("p") ?? "")
      var puts: [Assignment]
      if action == "d" {
        puts = [Assignment(location, try WriteValue(json: data, limits: .none).node)]
      } else {
        puts = []
        for (below, value) in try JSONReader.readUpdate(json: data, limits: .none) {
          let path = location.path.appending(below.path)
          guard path.count <= Limits.depthMax else {
            throw .invalidData("a changed location may have at most \(Limits.depthMax) keys")
          }
          puts.append(
            Assignment(Location(path, isPriority: below.isPriority), value.node))
        }
      }
      self = .changed(path: location.path, tag: body.integer("t"), puts)
    case "c":
      let path = try Path(body.text("p") ?? "")
      guard let bytes = body["q"] else {
        self = .cancelled(path, nil)
        return
      }
      self = .cancelled(path, try RealtimeMessage.query(try JSONValue(json: bytes)))
    case "ac":
      self = .revoked(status: body.text("s") ?? "", reason: body.text("d") ?? "")
    case "sd": self = .notice(body.text("msg") ?? "")
    default: self = .other
    }
  }

  /// Decodes the query of a cancelled listener, which servers write in an array.
  private static func query(_ json: JSONValue) throws(TreeError) -> Query? {
    guard case .array(let queries) = json else { return try Query(wire: json) }
    guard let first = queries.first else { return nil }
    return try Query(wire: first)
  }
}
