public import CanopyTree

/// The messages of a server, as text that is appended to an output.
///
/// Official clients read the members of an object by name, so their order is free. It is such that the messages about
/// one commit differ between listeners only in their beginning.
public enum ServerMessage {
  /// Appends the first message of a connection.
  ///
  /// - Parameters:
  ///   - milliseconds: the server's time since 1970.
  ///   - host: the name and the port to which the client connects from now on.
  ///   - session: identifies the connection.
  public static func handshake(
    milliseconds: Int64, host: String, session: String, to output: inout JSONOutput
  ) {
    output.append("{\"t\":\"c\",\"d\":{\"t\":\"h\",\"d\":{\"ts\":")
    output.append(milliseconds)
    output.append(",\"v\":\"5\",\"h\":")
    output.append(string: host)
    output.append(",\"s\":")
    output.append(string: session)
    output.append("}}}")
  }

  /// Appends the answer to a ping.
  public static func pong(to output: inout JSONOutput) {
    output.append("{\"t\":\"c\",\"d\":{\"t\":\"o\",\"d\":{}}}")
  }

  /// Appends the message that the connection ends because of an error. The client connects again later.
  public static func error(_ sentence: String, to output: inout JSONOutput) {
    control("e", sentence, to: &output)
  }

  /// Appends the message that the connection ends for good.
  public static func shutdown(_ reason: String, to output: inout JSONOutput) {
    control("s", reason, to: &output)
  }

  private static func control(
    _ type: StaticString, _ text: String, to output: inout JSONOutput
  ) {
    output.append("{\"t\":\"c\",\"d\":{\"t\":\"")
    output.append(type)
    output.append("\",\"d\":")
    output.append(string: text)
    output.append("}}")
  }

  /// Appends the answer to a request, with the data that `body` appends.
  @inline(__always)
  public static func answer(
    _ number: Int64, _ status: RealtimeStatus, to output: inout JSONOutput,
    _ body: (inout JSONOutput) -> Void
  ) {
    output.append("{\"t\":\"d\",\"d\":{\"r\":")
    output.append(number)
    output.append(",\"b\":{\"s\":\"")
    output.append(raw: status.rawValue)
    output.append("\",\"d\":")
    body(&output)
    output.append("}}}")
  }

  /// Appends the message that the identity of the connection has ended.
  public static func revoked(
    _ status: RealtimeStatus, _ reason: String, to output: inout JSONOutput
  ) {
    output.append("{\"t\":\"d\",\"d\":{\"a\":\"ac\",\"b\":{\"s\":\"")
    output.append(raw: status.rawValue)
    output.append("\",\"d\":")
    output.append(string: reason)
    output.append("}}}")
  }

  /// Appends the message that a listener was cancelled.
  ///
  /// - Parameter queryText: the JSON of the query as the client wrote it; nil for a listener of the whole location.
  public static func cancelled(_ path: Path, queryText: String?, to output: inout JSONOutput) {
    output.append("{\"t\":\"d\",\"d\":{\"a\":\"c\",\"b\":{\"p\":")
    output.append(string: path.text)
    if let queryText {
      // Clients look for each element of an array.
      output.append(",\"q\":[")
      output.append(raw: queryText)
      output.append("]")
    }
    output.append("}}}")
  }
}

/// The messages about changes of data: a beginning with the tag of the listener, and a rest that all listeners of a
/// view share.
public enum PushMessage {
  /// Appends the beginning of a message.
  ///
  /// - Parameter tag: the tag of the listener; nil for a listener of a whole location.
  public static func begin(tag: Int64?, to output: inout JSONOutput) {
    output.append("{\"t\":\"d\",\"d\":{\"b\":{")
    guard let tag else { return }
    output.append("\"t\":")
    output.append(tag)
    output.append(",")
  }

  /// The bytes that `begin` appends.
  public static func beginBytes(tag: Int64?) -> Int {
    19 + (tag.map { 5 + String($0).utf8.count } ?? 0)
  }

  /// Appends the rest of a message with the value of a location, which `body` appends.
  public static func put(
    _ location: Location, to output: inout JSONOutput, _ body: (inout JSONOutput) -> Void
  ) {
    output.append("\"p\":")
    output.append(string: location.text)
    output.append(",\"d\":")
    body(&output)
    output.append("},\"a\":\"d\"}}")
  }

  /// Appends the rest of a message with the values of several locations, which `body` appends as the members of an
  /// object.
  public static func merge(
    _ path: Path, to output: inout JSONOutput, _ body: (inout JSONOutput) -> Void
  ) {
    output.append("\"p\":")
    output.append(string: path.text)
    output.append(",\"d\":{")
    body(&output)
    output.append("}},\"a\":\"m\"}}")
  }

  /// Appends the name of a member of `merge`; its value follows.
  public static func member(
    _ location: Location, isFirst: Bool, to output: inout JSONOutput
  ) {
    if !isFirst { output.append(",") }
    output.append(string: location.text)
    output.append(":")
  }
}
