internal import CanopyEngine
internal import CanopyMetrics
internal import CanopyRealtime
internal import CanopySession
internal import CanopyTree
internal import CanopyWire
internal import HTTPTypes
internal import NIOCore

/// The state of the server, for programs that watch it.
extension Responder {
  /// Answers whether the server works. A node that is cut off from its journal is not ready: its data may be old.
  func health(_ method: HTTPRequest.Method) -> HTTPAnswer {
    guard method == .get else { return .methodNotAllowed([.get]) }
    guard !operations.engine.isCutOff else {
      return .json(.serviceUnavailable, ["status": .text("unavailable")])
    }
    return .json(["status": .text("ok")])
  }

  /// Answers with the metrics, for programs on this machine and for the administrator: they show how much the server is
  /// used, and by which requests. A web page that a person on this machine has open is not such a program, even if the
  /// name of its server resolves to this machine, and even if its request has no origin, such as that for an image.
  func metrics(_ request: Parsed) async throws -> HTTPAnswer {
    guard request.method == .get else { return .methodNotAllowed([.get]) }
    if !Operations.isThisMachine(connection.address) || request.fields[.origin] != nil
      || isOfAnotherSite(request) || request.host.map(RealtimeConnections.mayBeForeign) ?? false
    {
      guard case .administrator = try await identity(request) else {
        throw WireError.denied
      }
    }
    var answer = HTTPAnswer()
    answer.isForAllOrigins = false
    answer.fields[.contentType] = MetricsText.contentType
    answer.body = .bytes(
      try await inTurn { [operations] in ByteBuffer(string: operations.metrics.text) })
    return answer
  }

  /// Whether a browser says that a page of another site makes the request.
  private func isOfAnotherSite(_ request: Parsed) -> Bool {
    guard let site = Responder.site(request.fields) else { return false }
    return !site.hasSameBytes(as: "none") && !site.hasSameBytes(as: "same-origin")
  }
}
