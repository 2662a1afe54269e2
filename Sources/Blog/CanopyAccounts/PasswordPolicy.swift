/// What a password must be when it is chosen. Never asked at login: a rule that is tightened
/// later must not lock people out.
enum PasswordPolicy {
  /// The password that `raw` spells, if it may be chosen by this person.
  ///
  /// O(length); the list of common passwords is one look-up in a set.
  ///
  /// - Throws: ``AccountError/invalidPassword(_:)`` with the first rule that it breaks.
  static func accepted(
    _ raw: String, email: EmailAddress, username: String
  ) throws -> NormalizedPassword {
    guard let password = NormalizedPassword(raw) else {
      throw AccountError.invalidPassword(.tooLong)
    }
    guard password.scalarCount >= NormalizedPassword.scalarsMin else {
      throw AccountError.invalidPassword(.tooShort)
    }
    let folded = password.text.lowercased().composed
    if folded == email.normalized || folded == email.localPart {
      throw AccountError.invalidPassword(.sameAsEmail)
    }
    if folded == username.lowercased().composed {
      throw AccountError.invalidPassword(.sameAsUsername)
    }
    if isRun(folded) { throw AccountError.invalidPassword(.tooSimple) }
    if CommonPasswords.contains(folded) { throw AccountError.invalidPassword(.tooCommon) }
    return password
  }

  /// Whether the text is one character repeated, or goes up or down by one character at each
  /// step; after `9` the row of digits goes on with `0`, as it does on a keyboard.
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
