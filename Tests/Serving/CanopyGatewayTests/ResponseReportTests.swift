import Testing

@Suite(.timeLimit(.minutes(20))) struct ResponseReportTests {
  @Test func `a wrong reply over a WebSocket is reported with its line and as a whole`()
    async throws
  {
    try await withGateway { server in
      try await server.connect { line in
        #expect(try await line.upgrade("/line") == 101)
        for number in 0..<3 {
          try await withKnownIssue {
            switch number {
            case 0: try await line.expect(line: "GET /closed", "+1")
            case 1: try await line.expect(line: "GET /closed", failsWith: "NOT_FOUND")
            default: try await line.expect(line: "GET /closed", hasPrefix: "+")
            }
          } matching: { issue in
            let report = issue.comments.map(\.rawValue).joined()
            return report.contains("request: GET /closed\n")
              && report.contains("reply:   -PERMISSION_DENIED ")
          }
        }
      }
    }
  }

  @Test func `a wrong response is reported with its request and as a whole`() async throws {
    try await withGateway { server in
      try await server.connect { client in
        try await withKnownIssue {
          try await client.expect("GET", "/closed.json", status: 200)
        } matching: { issue in
          let report = issue.comments.map(\.rawValue).joined()
          return report.contains("request:  GET /closed.json HTTP/1.1")
            && report.contains("response: 401 ")
        }
      }
    }
  }
}
