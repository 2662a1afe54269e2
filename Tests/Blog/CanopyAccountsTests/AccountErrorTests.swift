import CanopyAccounts
import Testing

@Suite struct AccountErrorTests {
  private static let problems: [PrivateFileProblem] = [
    .malformed, .notAFile, .exposed(mode: 0o644),
    .system(operation: "open", reason: "Permission denied"),
  ]

  private static let all: [AccountError] =
    [
      .invalidEmail, .credentialsRefused, .tokenRefused, .rateLimited(retryAfterMilliseconds: 1),
      .overloaded, .hashingFailed, .taken, .disabled, .notFound, .uidTaken, .codeRefused,
      .codeExpired,
    ] + PasswordRejection.allCases.map { .invalidPassword($0) }
    + problems.map { .administratorTokenUnusable(path: "/data/admin-token", problem: $0) }

  @Test func `each error is one sentence that says what to do`() {
    #expect(Set(Self.all.map(\.sentence)).count == Self.all.count)
    for error in Self.all {
      let sentence = error.sentence
      #expect(sentence.contains("; "), "\(sentence)")
      #expect(!sentence.contains("\n") && !sentence.hasSuffix("."), "\(sentence)")
      #expect("\(error)" == sentence)
    }
  }

  @Test func `a wait is rounded up`() {
    let waits: [(Int64, String)] = [
      (.min, "1 second"), (0, "1 second"), (1, "1 second"), (1_000, "1 second"),
      (1_001, "2 seconds"), (120_000, "120 seconds"), (120_001, "3 minutes"),
      (3_600_000, "60 minutes"), (.max, "153722867280913 minutes"),
    ]
    for (milliseconds, words) in waits {
      let error = AccountError.rateLimited(retryAfterMilliseconds: milliseconds)
      #expect(error.sentence == "too many attempts; try again in \(words)")
    }
  }

  @Test func `the sentence has the mode of an exposed file in octal`() {
    let error = AccountError.administratorTokenUnusable(
      path: "/data/admin-token", problem: .exposed(mode: 0o644))
    #expect(error.sentence.contains("/data/admin-token has mode 644"))
  }
}
