internal import CanopyRealtime
internal import CanopyTree
internal import HTTPTypes
internal import NIOCore

/// Requests for a WebSocket that did not become one, because they are not the first of their connection, lack the fields of
/// an upgrade, or may not.
extension Responder {
  /// The response to a request for a WebSocket that does not ask for the upgrade.
  static var webSocketNeeded: HTTPAnswer {
    var answer = HTTPAnswer.failure(
      .upgradeRequired,
      "this address needs a WebSocket of version 13, opened by the first request of a connection, without a body"
    )
    answer.fields[.upgrade] = "websocket"
    if let version = HTTPField.Name("Sec-WebSocket-Version") { answer.fields[version] = "13" }
    return answer
  }

  /// The response to a request for long polling.
  static var longPollingRefused: HTTPAnswer {
    let refusal = RealtimeConnections.longPollingRefusal
    var answer = HTTPAnswer(HTTPResponse.Status(code: refusal.status))
    answer.fields[.contentType] = HTTPAnswer.jsonType
    answer.body = .bytes(ByteBuffer(string: refusal.body))
    return answer
  }

  /// Returns the response to a request for the line protocol.
  func line(origin: String?, host: String?) -> HTTPAnswer {
    guard sockets.mayOpenLine(origin: origin, host: host, from: connection.address) else {
      return .failure(
        .forbidden,
        "pages of this origin may not use the line protocol; allow it with --allow-origin")
    }
    return Responder.webSocketNeeded
  }
}
