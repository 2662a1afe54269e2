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
