internal import CanopyTree
internal import Foundation
public import Testing

/// Expectations on the reply to one request. A violation prints the request and the whole reply, which
/// `#expect` does not for an expression with `await`, or for a part of a reply.
extension LineClient {
  /// Sends a request, and expects this reply.
  public func expect(
    _ request: String, _ reply: String, at location: SourceLocation = #_sourceLocation
  ) async throws {
    expectReply(try await self.request(request), to: request, reply, at: location)
  }

  /// Sends a request, and expects that it fails with a code and a sentence that contains a text.
  public func expect(
    _ request: String, failsWith code: String, _ text: String = "",
    at location: SourceLocation = #_sourceLocation
  ) async throws {
    let reply = try await self.request(request)
    expectReply(reply, to: request, failsWith: code, text, at: location)
  }

  /// Sends a request, and expects that it succeeds.
  public func expectSuccess(
    of request: String, at location: SourceLocation = #_sourceLocation
  ) async throws {
    expectReply(try await self.request(request), to: request, hasPrefix: "+", at: location)
  }

  /// Sends a request, and expects that its reply contains a text.
  public func expect(
    _ request: String, contains text: String, at location: SourceLocation = #_sourceLocation
  ) async throws {
    let reply = try await self.request(request)
    expectReply(
      reply, to: request, "it should contain \(text.shortened)", reply.containsBytes(text),
      at: location)
  }

  /// Sends a request, and expects that its reply begins with a text.
  public func expect(
    _ request: String, hasPrefix text: String, at location: SourceLocation = #_sourceLocation
  ) async throws {
    expectReply(try await self.request(request), to: request, hasPrefix: text, at: location)
  }

  /// Reads the reply to a request that was sent before, and expects this reply.
  public func expectNext(
    to request: String, _ reply: String, at location: SourceLocation = #_sourceLocation
  ) async throws {
    expectReply(try await readLine(), to: request, reply, at: location)
  }

  /// Reads the reply to a request that was sent before, and expects a failure with a code and a
  /// sentence that contains a text.
  public func expectNext(
    to request: String, failsWith code: String, _ text: String = "",
    at location: SourceLocation = #_sourceLocation
  ) async throws {
    expectReply(try await readLine(), to: request, failsWith: code, text, at: location)
  }

  /// Reads the reply to a request that was sent before, and expects that it begins with a text.
  public func expectNext(
    to request: String, hasPrefix text: String, at location: SourceLocation = #_sourceLocation
  ) async throws {
    expectReply(try await readLine(), to: request, hasPrefix: text, at: location)
  }
}

/// Expects that the reply to a request is this one.
public func expectReply(
  _ reply: String, to request: String, _ expected: String,
  at location: SourceLocation = #_sourceLocation
) {
  let expectation = "it should be \(expected.shortened)"
  expectReply(reply, to: request, expectation, reply.hasSameBytes(as: expected), at: location)
}

/// Expects that a request failed with a code and a sentence that contains a text.
public func expectReply(
  _ reply: String, to request: String, failsWith code: String, _ text: String = "",
  at location: SourceLocation = #_sourceLocation
) {
  let isRight = reply.hasBytePrefix("-\(code) ") && reply.containsBytes(text)
  expectReply(reply, to: request, "it should fail with \(code) \(text)", isRight, at: location)
}

/// Expects that the reply to a request begins with a text.
public func expectReply(
  _ reply: String, to request: String, hasPrefix text: String,
  at location: SourceLocation = #_sourceLocation
) {
  let expectation = "it should begin with \(text.shortened)"
  expectReply(reply, to: request, expectation, reply.hasBytePrefix(text), at: location)
}

private func expectReply(
  _ reply: String, to request: String, _ expectation: String, _ isRight: Bool,
  at location: SourceLocation
) {
  guard !isRight else { return }
  Issue.record(
    """
    the reply to a request is wrong: \(expectation)
    request: \(request.shortened)
    reply:   \(reply.shortened)
    """, sourceLocation: location)
}

extension String {
  /// Whether the text contains the bytes of another one.
  fileprivate func containsBytes(_ text: String) -> Bool {
    text.isEmpty || Data(utf8).range(of: Data(text.utf8)) != nil
  }

  /// The text, or its beginning if it is very long.
  fileprivate var shortened: String {
    count > 1_000 ? "\(prefix(1_000))… (\(utf8.count) bytes)" : self
  }
}
