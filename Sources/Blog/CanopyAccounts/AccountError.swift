/// The reason why an account operation was refused.
///
/// Errors of the store or of a claim are thrown unchanged. No case contains a password, a token or a hash. No case that a
/// stranger can cause reveals whether an e-mail address has an account.
public enum AccountError: Error, Equatable, Sendable {
  /// The text is not an e-mail address.
  case invalidEmail
  /// The new password is not acceptable, for the given reason.
  case invalidPassword(PasswordRejection)
  /// The e-mail address or the password is wrong. The error does not reveal which.
  case credentialsRefused
  /// The token is malformed, unknown, expired or revoked. The error does not reveal which.
  case tokenRefused
  /// Too many attempts were made. The next one is possible after the given time.
  case rateLimited(retryAfterMilliseconds: Int64)
  /// Too many passwords wait to be hashed.
  case overloaded
  /// The hash function failed, for example because it got no memory.
  case hashingFailed
  /// The e-mail address or the user name is not available. The error does not reveal which.
  case taken
  /// The password was right, but an administrator has disabled the account.
  case disabled
  /// The account does not exist. Only administrators and the account's own user get this error.
  case notFound
  /// The e-mail address is not that of the user who is logged in. The error reveals nothing about other accounts.
  case otherAccount
  /// An account with this uid exists already. Only administrators get this error.
  case uidTaken
  /// The code of an e-mail is malformed, unknown or used. The error does not reveal which.
  case codeRefused
  /// The code of an e-mail has expired.
  case codeExpired
  /// The administrator token in the file at `path` cannot be used.
  case administratorTokenUnusable(path: String, problem: PrivateFileProblem)
}

/// A problem with a file that only its owner may read.
public enum PrivateFileProblem: Error, Equatable, Sendable {
  /// The content is not a token or not a list of keys.
  case malformed
  /// It is not an ordinary file.
  case notAFile
  /// The group or others have a permission. `mode` has the permission bits.
  case exposed(mode: UInt32)
  /// A system call failed, for the given reason.
  case system(operation: String, reason: String)
}

extension AccountError {
  /// One sentence that says what to do. It contains no secret.
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
      "the server is checking too many passwords at the moment; try again in a few seconds"
    case .hashingFailed:
      "the password could not be checked; try again later"
    case .taken:
      "that e-mail address or user name is not available; choose another or log in"
    case .disabled:
      "this account is disabled; ask an administrator to enable it"
    case .notFound:
      "the account does not exist; list the accounts to find its name"
    case .otherAccount:
      "the e-mail address is not that of your account; use the address of your login"
    case .uidTaken:
      "an account with that identifier exists; choose another"
    case .codeRefused:
      "the code is not valid; request another"
    case .codeExpired:
      "the code has expired; request another"
    case .administratorTokenUnusable(let path, let problem):
      problem.sentence(path: path, content: "administrator token")
    }
  }

  /// Returns a wait in words, rounded up, so that a retry after that time succeeds.
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

extension PrivateFileProblem {
  /// Returns one sentence that says what to do.
  ///
  /// - Parameters:
  ///   - path: the file.
  ///   - content: the content of the file, without an article.
  package func sentence(path: String, content: String) -> String {
    switch self {
    case .malformed:
      "\(path) does not contain the \(content); remove it, and the next start creates a new one"
    case .notAFile:
      "\(path) is not a regular file; remove it, and the next start creates the \(content)"
    case .exposed(let mode):
      """
      \(path) has mode \(String(mode, radix: 8)), so others could have read the \(content); remove \
      it, and the next start creates a new one
      """
    case .system(let operation, let reason):
      "cannot \(operation) \(path): \(reason); check the folder and its permissions"
    }
  }
}
