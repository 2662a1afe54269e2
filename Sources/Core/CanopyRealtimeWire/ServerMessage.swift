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
    control("h", to: &output) {
      $0.object {
        $0.member("ts", milliseconds)
        $0.member("v", "5")
        $0.member("h", host)
        $0.member("s", session)
      }
    }
  }

  /// Appends the answer to a ping.
  public static func pong(to output: inout JSONOutput) {
    control("o", to: &output) { $0.object { _ in } }
  }

  /// Appends the message that the connection ends because of an error. The client connects again later.
  public static func error(_ sentence: String, to output: inout JSONOutput) {
    control("e", to: &output) { $0.append(string: sentence) }
  }

  /// Appends the message that the connection ends for good.
  public static func shutdown(_ reason: String, to output: inout JSONOutput) {
    control("s", to: &output) { $0.append(string: reason) }
  }

  /// Appends a message about the connection, with the data that `body` appends.
  private static func control(
    _ type: String, to output: inout JSONOutput, _ body: (inout JSONOutput) -> Void
  ) {
    message("c", to: &output) {
      $0.member("t", type)
      $0.member("d")
      body(&$0)
    }
  }

  /// Appends a message, whose members `body` appends.
  private static func message(
    _ type: String, to output: inout JSONOutput, _ body: (inout JSONOutput) -> Void
  ) {
    output.object {
      $0.member("t", type)
      $0.member("d")
      $0.object(body)
    }
  }

  /// Appends the answer to a request, with the data that `body` appends.
  ///
  /// Its literals are copied as they are, because every request has an answer.
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
    message("d", to: &output) {
      $0.member("a", "ac")
      $0.member("b")
      $0.object {
        $0.member("s", status.rawValue)
        $0.member("d", reason)
      }
    }
  }

  /// Appends the message that a listener was cancelled.
  ///
  /// - Parameter queryText: the JSON of the query as the client wrote it; nil for a listener of the whole location.
  public static func cancelled(_ path: Path, queryText: String?, to output: inout JSONOutput) {
    message("d", to: &output) {
      $0.member("a", "c")
      $0.member("b")
      $0.object {
        $0.member("p", path.text)
        guard let queryText else { return }
        // Clients look for each element of an array.
        $0.member("q")
        $0.array([queryText]) { $0.append(raw: $1) }
      }
    }
  }
}

/// The messages about changes of data: a beginning with the tag of the listener, and a rest that all listeners of a
/// view share. So the two texts are no whole objects, and have their braces as literals.
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
