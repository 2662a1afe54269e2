import CanopyTesting
import Testing

@Suite(.timeLimit(.minutes(20))) struct ReplyExpectationTests {
  @Test func `a wrong reply is reported with its request and as a whole`() async throws {
    let wrong: [@Sendable (any LineClient) async throws -> Void] = [
      { try await $0.expect("SHOW x", "+null") },
      { try await $0.expect("SHOW x", failsWith: "PERMISSION_DENIED") },
      { try await $0.expectSuccess(of: "SHOW x") },
      { try await $0.expect("SHOW x", contains: "\"id\":") },
      { try await $0.expect("SHOW x", hasPrefix: "+{") },
    ]
    try await expectReports(of: wrong)
  }

  @Test func `a wrong reply to an earlier request is reported in the same way`() async throws {
    let wrong: [@Sendable (any LineClient) async throws -> Void] = [
      { try await $0.expectNext(to: "SHOW x", "+null") },
      { try await $0.expectNext(to: "SHOW x", failsWith: "PERMISSION_DENIED") },
      { try await $0.expectNext(to: "SHOW x", hasPrefix: "+{") },
      { expectReply(try await $0.readLine(), to: "SHOW x", "+null") },
      { expectReply(try await $0.readLine(), to: "SHOW x", failsWith: "NOT_FOUND", "a user") },
      { expectReply(try await $0.readLine(), to: "SHOW x", hasPrefix: "+{") },
    ]
    try await expectReports(of: wrong, sending: "SHOW x\n")
  }

  @Test func `a right reply is not reported`() async throws {
    try await withServer(.inProcess) { server in
      let client = try await server.connect()
      try await client.expect("PING", "+\"PONG\"")
      try await client.expectSuccess(of: "WHOAMI")
      try await client.expect("SHOW x", failsWith: "NOT_FOUND")
      try await client.expect("HELLO", hasPrefix: "+{\"server\":")
      try await client.expect("HELLO", contains: "\"protocol\":1")
      try await client.send("PING\nSHOW x\nHELLO\n")
      try await client.expectNext(to: "PING", "+\"PONG\"")
      try await client.expectNext(to: "SHOW x", failsWith: "NOT_FOUND")
      try await client.expectNext(to: "HELLO", hasPrefix: "+{\"server\":")
    }
  }

  /// Expects that each expectation is violated, and that the issue has the request and the reply.
  private func expectReports(
    of expectations: [@Sendable (any LineClient) async throws -> Void], sending text: String = ""
  ) async throws {
    try await withServer(.inProcess) { server in
      let client = try await server.connect()
      for expectation in expectations {
        try await client.send(text)
        try await withKnownIssue {
          try await expectation(client)
        } matching: { issue in
          let report = issue.comments.map(\.rawValue).joined()
          return report.contains("request: SHOW x\n") && report.contains("reply:   -NOT_FOUND ")
        }
      }
    }
  }
}
