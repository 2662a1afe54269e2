import Testing

@Suite(.timeLimit(.minutes(20))) struct EndingTests {
  @Test func `a wrong ending is reported with the command, its output and its errors`()
    async throws
  {
    let script = "echo an output; echo a problem >&2; exit 3"
    let ending = try await Command.run(["-c", script], program: "/bin/sh")
    ending.expect(status: 3)
    expectReport { ending.expect(status: 0) }
    expectReport { ending.expectSentence("a comment") }
  }

  /// Expects that an expectation on the ending is violated, and that the issue has the whole ending.
  private func expectReport(of expectation: () -> Void) {
    withKnownIssue {
      expectation()
    } matching: { issue in
      let report = issue.comments.map(\.rawValue).joined()
      return ["command: /bin/sh -c echo", "status:  3", "output:  an out", "errors:  a problem"]
        .allSatisfy { report.contains($0) }
    }
  }
}
