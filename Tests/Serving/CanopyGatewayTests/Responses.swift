import CanopyTesting
import Testing

/// Expectations on the response to one request. A violation prints the request and the whole response, which `#expect` does
/// not for an expression with `await`, or for a part of a response.
extension HTTPClient {
  /// Sends a request, and expects a response with this status, and with this text.
  func expect(
    _ method: String, _ target: String, _ fields: [String: String] = [:], _ body: String? = nil,
    status: Int? = nil, text: String? = nil, at location: SourceLocation = #_sourceLocation
  ) async throws {
    let response = try await request(method, target, fields, body)
    if let status {
      #expect(response.status == status, "\(response)", sourceLocation: location)
    }
    if let text { #expect(response.text == text, "\(response)", sourceLocation: location) }
  }
}

/// Expectations on the reply to a line over a WebSocket.
extension HTTPClient {
  /// Sends a line, and expects this reply.
  func expect(
    line: String, _ reply: String, at location: SourceLocation = #_sourceLocation
  ) async throws {
    try await send(message: line)
    expectReply(try await message(), to: line, reply, at: location)
  }

  /// Sends a line, and expects that it fails with a code.
  func expect(
    line: String, failsWith code: String, at location: SourceLocation = #_sourceLocation
  ) async throws {
    try await send(message: line)
    expectReply(try await message(), to: line, failsWith: code, at: location)
  }

  /// Sends a line, and expects that its reply begins with a text.
  func expect(
    line: String, hasPrefix text: String, at location: SourceLocation = #_sourceLocation
  ) async throws {
    try await send(message: line)
    expectReply(try await message(), to: line, hasPrefix: text, at: location)
  }
}

extension HTTPClient.Response: CustomStringConvertible {
  /// The request and the response.
  var description: String {
    let fields = fields.sorted { $0.key < $1.key }.map { "\($0.key): \($0.value)" }
    return """
      the response to a request is wrong
      request:  \(request.shortened)
      response: \(status) \(fields)
      \(text.shortened)
      """
  }
}

extension String {
  /// The text, or its beginning if it is very long.
  fileprivate var shortened: String {
    count > 1_000 ? "\(prefix(1_000))… (\(utf8.count) bytes)" : self
  }
}
