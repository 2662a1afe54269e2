/// An account: an e-mail address, the hash of a password, and the uid by which all other modules know the user.
///
/// A value as the store has it; changing a copy has no effect on the store. Its `description` and mirror do not
/// contain the password hash, so an account can be logged.
public struct Account: Sendable, Equatable {
  /// The identifier: 20 characters of `[0-9A-Za-z]`. Never reused and never changed.
  public let uid: String
  /// The e-mail address as the user wrote it, for display.
  public var email: String
  /// The normalized address, which is unique among accounts. See ``EmailAddress``.
  public var emailNormalized: String
  /// The user name of the sign-up. This module does not check it, and does not learn of later changes.
  public let username: String
  /// The hash of the password as text, with its parameters and salt. See ``PasswordHash``.
  public var passwordHash: String
  /// The time of the sign-up, in milliseconds since 1970.
  public let createdAt: Int64
  /// Whether an administrator has disabled the account. Logins are refused then.
  public var isDisabled: Bool
  /// Whether the sign-up has not finished. Until then, the account only reserves its e-mail address.
  public var isPending: Bool

  /// Whether the user can log in.
  var isActive: Bool { !isDisabled && !isPending }

  /// Creates an account with the given fields, without checking them.
  public init(
    uid: String,
    email: String,
    emailNormalized: String,
    username: String,
    passwordHash: String,
    createdAt: Int64,
    isDisabled: Bool = false,
    isPending: Bool = false
  ) {
    self.uid = uid
    self.email = email
    self.emailNormalized = emailNormalized
    self.username = username
    self.passwordHash = passwordHash
    self.createdAt = createdAt
    self.isDisabled = isDisabled
    self.isPending = isPending
  }
}

extension Account: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
  /// A text with the uid and the state, without the password hash.
  public var description: String {
    "Account(uid: \(uid), email: \(email), disabled: \(isDisabled), pending: \(isPending))"
  }

  /// The same as ``description``.
  public var debugDescription: String { description }

  /// A mirror without the password hash, so that `dump` does not print it.
  public var customMirror: Mirror {
    Mirror(
      self,
      children: [
        "uid": uid, "email": email, "isDisabled": isDisabled, "isPending": isPending,
      ]
    )
  }
}

/// The generator of the identifiers of accounts.
enum AccountIdentifier {
  /// The number of characters. An identifier has about 119 random bits, so two are never equal.
  static let length = 20

  private static let alphabet = Array(
    "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz".unicodeScalars
  )

  /// Returns a new identifier.
  ///
  /// The low six bits of a byte select a character. Two of the 64 values select none; such a byte is skipped, because
  /// mapping them to characters would make two characters more likely than the others.
  ///
  /// - Parameter random: the source of random bytes.
  static func make(random: RandomBytes) -> String {
    var scalars = String.UnicodeScalarView()
    var made = 0
    while made < length {
      for byte in random(length) where made < length {
        let choice = Int(byte & 0x3F)
        guard choice < alphabet.count else { continue }
        scalars.append(alphabet[choice])
        made += 1
      }
    }
    return String(scalars)
  }
}
