import CanopyTesting
import Testing

@Suite(.timeLimit(.minutes(20))) struct ReplyExpectationTests {
  @Test func `a wrong reply is reported with its request and as a whole`() async throws {
    try await withServer(.inProcess) { server in
      let client = try await server.connect()
      for part in ["request: SHOW x\n", "reply:   -NOT_FOUND "] {
        try await withKnownIssue {
          try await client.expect("SHOW x", failsWith: "PERMISSION_DENIED")
        } matching: { issue in
          issue.comments.contains { $0.rawValue.contains(part) }
        }
      }
    }
  }

  @Test func `a right reply is not reported`() async throws {
    try await withServer(.inProcess) { server in
      let client = try await server.connect()
      try await client.expect("PING", "+\"PONG\"")
      try await client.expectSuccess(of: "WHOAMI")
      try await client.expect("SHOW x", failsWith: "NOT_FOUND")
      try await client.expect("HELLO", hasPrefix: "+{\"server\":")
      try await client.expect("HELLO", contains: "\"protocol\":1")
    }
  }
}
