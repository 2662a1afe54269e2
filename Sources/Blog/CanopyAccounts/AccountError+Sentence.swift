extension AccountError {
  /// One sentence, safe to show to anyone, that says what to do.
  public var sentence: String {
    switch self {
    case .invalidEmail:
      "that is not an e-mail address; write it as name@example.org"
    case .invalidPassword(let reason):
      reason.advice
    case .credentialsRefused:
      "the e-mail address or the password is wrong; check both and try again"
    case .tokenRefused:
      "the session is no longer valid; log in again"
    case .rateLimited(let milliseconds):
      "too many attempts; try again in \(Self.duration(milliseconds))"
    case .overloaded:
      "too many log-ins are being checked at this moment; try again in a few seconds"
    case .hashingFailed:
      "the password could not be checked at this moment; try again later"
    case .taken:
      "that e-mail address or user name cannot be used; choose another or log in"
    case .disabled:
      "this account is disabled; ask an administrator to enable it"
    case .notFound:
      "there is no such account; list the accounts to find it"
    case .administratorTokenUnusable(let path, let problem):
      problem.sentence(path: path)
    }
  }

  /// A wait in words, rounded up so that a retry at that time succeeds.
  private static func duration(_ milliseconds: Int64) -> String {
    let wait = max(0, milliseconds)
    let seconds = max(1, wait / 1_000 + (wait % 1_000 == 0 ? 0 : 1))
    guard seconds > 120 else { return seconds == 1 ? "1 second" : "\(seconds) seconds" }
    return "\(seconds / 60 + (seconds % 60 == 0 ? 0 : 1)) minutes"
  }
}

extension AccountError: CustomStringConvertible {
  /// The same as ``sentence``.
  public var description: String { sentence }
}

extension AdministratorTokenProblem {
  fileprivate func sentence(path: String) -> String {
    switch self {
    case .malformed:
      "\(path) does not hold an administrator token; remove it and a new one is made at next start"
    case .notAFile:
      "\(path) is not an ordinary file; remove it and an administrator token is made at next start"
    case .exposed(let mode):
      """
      \(path) has mode \(String(mode, radix: 8)), so others could have read the administrator \
      token; remove it and a new one is made at next start
      """
    case .system(let operation, let reason):
      "cannot \(operation) \(path): \(reason); check the folder and its permissions"
    }
  }
}
