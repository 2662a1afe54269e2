import CanopyTesting
import Testing

/// Expectations on the reply to one request. A violation prints the request and the whole reply, which
/// `#expect` does not for an expression with `await`.
extension LineClient {
  /// Sends a request, and expects this reply.
  func expect(
    _ request: String, _ reply: String, at location: SourceLocation = #_sourceLocation
  ) async throws {
    try await expect(request, "it should be \(reply.shortened)", at: location) { $0 == reply }
  }

  /// Sends a request, and expects that it fails with a code and a sentence that contains a text.
  func expect(
    _ request: String, failsWith code: String, _ text: String = "",
    at location: SourceLocation = #_sourceLocation
  ) async throws {
    try await expect(request, "it should fail with \(code) \(text)", at: location) {
      $0.hasPrefix("-\(code) ") && (text.isEmpty || $0.contains(text))
    }
  }

  /// Sends a request, and expects that it succeeds.
  func expectSuccess(
    of request: String, at location: SourceLocation = #_sourceLocation
  ) async throws {
    try await expect(request, "it should succeed", at: location) { $0.hasPrefix("+") }
  }

  /// Sends a request, and expects that its reply contains a text.
  func expect(
    _ request: String, contains text: String, at location: SourceLocation = #_sourceLocation
  ) async throws {
    try await expect(request, "it should contain \(text.shortened)", at: location) {
      $0.contains(text)
    }
  }

  /// Sends a request, and expects that its reply begins with a text.
  func expect(
    _ request: String, hasPrefix text: String, at location: SourceLocation = #_sourceLocation
  ) async throws {
    try await expect(request, "it should begin with \(text.shortened)", at: location) {
      $0.hasPrefix(text)
    }
  }

  private func expect(
    _ request: String, _ expectation: String, at location: SourceLocation,
    _ isRight: (String) -> Bool
  ) async throws {
    let reply = try await self.request(request)
    guard !isRight(reply) else { return }
    Issue.record(
      """
      the reply to a request is wrong: \(expectation)
      request: \(request.shortened)
      reply:   \(reply.shortened)
      """, sourceLocation: location)
  }
}

extension String {
  /// The text, or its beginning if it is very long.
  fileprivate var shortened: String {
    count > 1_000 ? "\(prefix(1_000))… (\(utf8.count) bytes)" : self
  }
}
