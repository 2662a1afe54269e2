/// Why an account operation was refused.
///
/// What the store or the claim of a profile throws is not wrapped: it passes through as it is.
/// No case carries a password, a token or a hash, and none that a stranger can provoke says
/// whether an e-mail address has an account.
public enum AccountError: Error, Equatable, Sendable {
  /// The text is not an e-mail address.
  case invalidEmail
  /// The password may not be chosen, for the given reason.
  case invalidPassword(PasswordRejection)
  /// The e-mail address or the password is wrong; which of them is not said.
  case credentialsRefused
  /// The token is malformed, unknown, expired or revoked; which of them is not said.
  case tokenRefused
  /// There were too many attempts; the next may come after the given time.
  case rateLimited(retryAfterMilliseconds: Int64)
  /// More passwords wait to be hashed than the server takes on.
  case overloaded
  /// The hash function could not do its work, for want of memory for instance.
  case hashingFailed
  /// The e-mail address or the user name cannot be had; which of them is not said.
  case taken
  /// The password was right, but an administrator has shut the account.
  case disabled
  /// There is no such account. Only for administration, which may know.
  case notFound
  /// The administrator token in the file at `path` cannot be used.
  case administratorTokenUnusable(path: String, problem: AdministratorTokenProblem)
}

/// What is wrong with the file of the administrator token.
public enum AdministratorTokenProblem: Error, Equatable, Sendable {
  /// Its content is not a token.
  case malformed
  /// It is not an ordinary file.
  case notAFile
  /// Group or others may do something with it; `mode` has its permission bits.
  case exposed(mode: UInt32)
  /// The system refused an operation, with the reason that it gave.
  case system(operation: String, reason: String)
}
