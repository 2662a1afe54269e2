internal import CanopyIdentity
internal import CanopySession
internal import CanopyTree
internal import CanopyWire
internal import HTTPTypes
internal import HummingbirdCore
internal import NIOCore

/// The requests of Firebase's Auth clients.
extension Responder {
  /// Answers a request about accounts and identity tokens.
  func identity(
    _ request: Parsed, _ body: inout RequestBodyReader, _ writer: borrowing ResponseWriter
  ) async throws -> HTTPAnswer {
    guard let service = operations.identityService else {
      return .failure(.notFound, "this server has no accounts for Auth clients")
    }
    let bytes = try await body.collect(
      request.fields, upTo: service.bodyBytesMax, writer)
    // The service gets a copy, and decodes it.
    try connection.admit(
      bytes.storageCapacity + bytes.readableBytes
        + bytes.withUnsafeReadableBytes { CanopyWire.Request.memoryBytes(text: $0) })
    guard connection.unlessLost({ true }) == true else { throw ConnectionEnds() }
    let waits = TurnWaits()
    let identityRequest = IdentityRequest(
      method: request.method.rawValue, path: request.target.path,
      query: request.target.parameters.map { ($0.name, $0.value) },
      authorization: request.fields[.authorization], body: Array(bytes.readableBytesView),
      address: connection.address, isForeign: isForeign(request),
      isOfForeignPage: isOfForeignPage(request),
      turns: operations.computing(for: connection.turns, waits: waits))
    // In a task of its own, which goes on if the connection is lost: a thief must not keep a login that its owner has
    // just ended. Only its waits for turns end, which all come before the change.
    let response = await withTaskCancellationHandler {
      await Task { await service.respond(to: identityRequest) }.value
    } onCancel: {
      waits.cancel()
    }
    var answer = HTTPAnswer(HTTPResponse.Status(code: response.status))
    answer.fields[.contentType] = response.contentType
    answer.body = .bytes(ByteBuffer(bytes: response.body))
    answer.code = response.refusal.map { WireError.Code($0) }
    return answer
  }
}

extension WireError.Code {
  /// Creates the code for a refusal of an identity request.
  fileprivate init(_ refusal: IdentityResponse.Refusal) {
    switch refusal {
    case .invalid: self = .invalidData
    case .unauthenticated: self = .unauthenticated
    case .denied: self = .permissionDenied
    case .notFound: self = .notFound
    case .conflict: self = .conflict
    case .rateLimited: self = .rateLimited
    case .tooLarge: self = .tooLarge
    case .unavailable: self = .unavailable
    }
  }
}
