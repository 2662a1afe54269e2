/// The rules for new passwords. They do not apply to logins, so that a stricter rule does not lock out existing users.
enum PasswordPolicy {
  /// Checks a new password, and returns its normalized form.
  ///
  /// O(length), with one look-up in the set of common passwords.
  ///
  /// - Throws: ``AccountError/invalidPassword(_:)`` with the first rule that it breaks.
  static func accepted(
    _ raw: String, email: EmailAddress?, username: String
  ) throws -> NormalizedPassword {
    guard let password = NormalizedPassword(raw) else {
      throw AccountError.invalidPassword(.tooLong)
    }
    guard password.scalarCount >= NormalizedPassword.scalarsMin else {
      throw AccountError.invalidPassword(.tooShort)
    }
    let folded = password.text.lowercased().composed
    if let email, folded == email.normalized || folded == email.localPart {
      throw AccountError.invalidPassword(.sameAsEmail)
    }
    if folded == username.lowercased().composed {
      throw AccountError.invalidPassword(.sameAsUsername)
    }
    if isRun(folded) { throw AccountError.invalidPassword(.tooSimple) }
    if CommonPasswords.contains(folded) { throw AccountError.invalidPassword(.tooCommon) }
    return password
  }

  /// Whether each character is the same as the one before, or each is the next, or each is the previous one. `0` follows
  /// `9`, as on a keyboard.
  private static func isRun(_ text: String) -> Bool {
    var steps: Set<Int> = []
    for (left, right) in zip(text.unicodeScalars, text.unicodeScalars.dropFirst()) {
      switch (left, right) {
      case ("9", "0"): steps.insert(1)
      case ("0", "9"): steps.insert(-1)
      default: steps.insert(Int(right.value) - Int(left.value))
      }
      guard steps.count == 1 else { return false }
    }
    guard let step = steps.first else { return false }
    return (-1...1).contains(step)
  }
}

/// The reason why a new password was refused.
public enum PasswordRejection: Sendable, Equatable, CaseIterable {
  /// It has fewer than 8 characters.
  case tooShort
  /// It has more than 128 characters.
  case tooLong
  /// It is a common password.
  case tooCommon
  /// It is one repeated character, or consecutive characters such as `12345678`.
  case tooSimple
  /// It is the e-mail address of the account, or the part before the `@`.
  case sameAsEmail
  /// It is the user name of the account.
  case sameAsUsername

  /// A sentence that says what to do.
  var advice: String {
    switch self {
    case .tooShort: "that password is too short; choose one of at least 8 characters"
    case .tooLong: "that password is too long; choose one of at most 128 characters"
    case .tooCommon: "that password is very common; choose another"
    case .tooSimple:
      "that password is one repeated character or a sequence like 12345678; choose another"
    case .sameAsEmail: "the password must not be the e-mail address; choose another"
    case .sameAsUsername: "the password must not be the user name; choose another"
    }
  }
}

/// A password in Unicode's composed form (NFC), in which it is measured and hashed. So `é` is the same whether the
/// keyboard sends one code point or two.
///
/// Its `description` does not contain it.
struct NormalizedPassword: Sendable {
  /// The maximum length in Unicode scalars of the composed form. A longer password is refused and never truncated, because
  /// many passwords would match a truncated one.
  static let scalarsMax = 128
  /// The minimum length of a new password, in Unicode scalars.
  static let scalarsMin = 8

  /// The maximum size in bytes before composition. Composition joins at most four scalars of at most four bytes, so a
  /// longer text cannot become short enough. It is refused without composing it.
  private static let bytesMax = scalarsMax * 4 * 4

  /// The composed password.
  let text: String
  /// The number of Unicode scalars.
  let scalarCount: Int

  /// The bytes to hash.
  var bytes: [UInt8] { Array(text.utf8) }

  /// Creates a password from the text that was typed; nil if it is too long.
  init?(_ raw: String) {
    guard raw.utf8.count <= Self.bytesMax else { return nil }
    let composed = raw.composed
    let count = composed.unicodeScalars.count
    guard count <= Self.scalarsMax else { return nil }
    self.text = composed
    self.scalarCount = count
  }
}

extension NormalizedPassword: CustomStringConvertible, CustomReflectable {
  var description: String { "NormalizedPassword(<redacted>)" }
  var customMirror: Mirror { Mirror(self, children: []) }
}
