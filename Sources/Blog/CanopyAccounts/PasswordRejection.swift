/// Why a password that someone chose was refused.
public enum PasswordRejection: Sendable, Equatable, CaseIterable {
  /// It has fewer than 8 characters.
  case tooShort
  /// It has more than 128 characters.
  case tooLong
  /// It is among the passwords that everyone tries first.
  case tooCommon
  /// It is one character repeated, or characters in a row such as `12345678`.
  case tooSimple
  /// It is the account's e-mail address, or what stands before the `@`.
  case sameAsEmail
  /// It is the account's user name.
  case sameAsUsername

  /// What to do about it, as the end of a sentence.
  var advice: String {
    switch self {
    case .tooShort: "that password is too short; choose one of at least 8 characters"
    case .tooLong: "that password is too long; choose one of at most 128 characters"
    case .tooCommon: "that password is one of the first that others would try; choose another"
    case .tooSimple: "that password is one character repeated or a plain run; choose another"
    case .sameAsEmail: "the password must not be the e-mail address; choose another"
    case .sameAsUsername: "the password must not be the user name; choose another"
    }
  }
}
