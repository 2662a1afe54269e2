internal import CanopyEngine
internal import CanopySession
internal import CanopyTree
internal import CanopyWire
internal import HTTPTypes
internal import HummingbirdCore
internal import NIOCore

/// The security rules, for the administrator.
extension Responder {
  /// Answers a GET or a PUT of the rules.
  func rules(
    _ request: Parsed, _ body: inout RequestBodyReader, _ writer: borrowing ResponseWriter
  ) async throws -> HTTPAnswer {
    guard request.method == .get || request.method == .put else {
      return .methodNotAllowed([.get, .put])
    }
    let identity = try await identity(request)
    guard case .administrator = identity else { throw WireError.denied }
    if request.method == .get {
      let reply = operations.read(.rules, as: identity, in: operations.engine.root)
      guard case .json(.object(let members))? = reply,
        case .text(let text)? = members.first(where: { $0.0 == "text" })?.1
      else { throw WireError(.internalError, "the server made a mistake; its log says more") }
      var answer = HTTPAnswer()
      answer.fields[.contentType] = HTTPAnswer.jsonType
      // The libraries ask for it when an application asks for the rules as JSON.
      answer.body = .bytes(
        try request.wantsStrictJSON
          ? ByteBuffer(bytes: StrictRules.json(text)) : ByteBuffer(string: text))
      return answer
    }
    let bytes = try await body.collect(
      request.fields, upTo: operations.limits.writeBytesMax, writer)
    // The text is a copy.
    try connection.admit(
      bytes.storageCapacity + bytes.readableBytes
        + bytes.withUnsafeReadableBytes { CanopyWire.Request.memoryBytes(text: $0) })
    guard let text = String(validating: bytes.readableBytesView, as: UTF8.self) else {
      throw WireError(.invalidData, "the rules are not UTF-8; encode them as UTF-8")
    }
    let completion = try await withCheckedThrowingContinuation { continuation in
      let begun: Void? = connection.unlessLost {
        operations.begin(.setRules(text), as: identity) { continuation.resume(returning: $0) }
      }
      if begun == nil { continuation.resume(throwing: ConnectionEnds()) }
    }
    if case .failure(let error) = completion.reply { throw error }
    return .json(["status": .text("ok")])
  }
}

extension Responder.Parsed {
  /// Whether the client asks for rules without comments.
  ///
  /// - Throws: `WireError` for another format.
  fileprivate var wantsStrictJSON: Bool {
    get throws(WireError) {
      switch target["format"] {
      case nil: return false
      case "strict": return true
      default: throw WireError(.badRequest, "the format of rules must be strict")
      }
    }
  }
}
