/// An account: the uid by which all other modules know the user, and usually an e-mail address and the hash of a password.
///
/// An account may have no e-mail address, no password and no user name: an anonymous one, or one that an administrator's
/// custom token created. Then those texts are empty, and `emailNormalized` is ``addressless(_:)`` of the uid.
///
/// A value as the store has it; changing a copy has no effect on the store. Its `description` and mirror do not
/// contain the password hash, so an account can be logged.
public struct Account: Sendable, Equatable {
  /// The identifier: 20 characters of `[0-9A-Za-z]`, or the text that an administrator chose. Never changed.
  public let uid: String
  /// The e-mail address as the user wrote it, for display; empty if the account has none.
  public var email: String
  /// The normalized address, which is unique among accounts. See ``EmailAddress``.
  public var emailNormalized: String
  /// The user name of the sign-up; empty without one. This module does not check it, and does not learn of later changes.
  public let username: String
  /// The hash of the password as text, with its parameters and salt; empty without a password. See ``PasswordHash``.
  public var passwordHash: String
  /// The time of the sign-up, in milliseconds since 1970.
  public let createdAt: Int64
  /// Whether an administrator has disabled the account. Logins are refused then.
  public var isDisabled: Bool
  /// Whether the sign-up has not finished. Until then, the account only reserves its e-mail address.
  public var isPending: Bool
  /// The further data of the account.
  public var details: AccountDetails

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
    isPending: Bool = false,
    details: AccountDetails = AccountDetails()
  ) {
    self.uid = uid
    self.email = email
    self.emailNormalized = emailNormalized
    self.username = username
    self.passwordHash = passwordHash
    self.createdAt = createdAt
    self.isDisabled = isDisabled
    self.isPending = isPending
    self.details = details
  }

  /// Returns the text that takes the place of the normalized address of an account without one. It is
  /// not an address, because ``EmailAddress`` refuses the prefix, and it is unique as the uid is.
  public static func addressless(_ uid: String) -> String { addresslessPrefix + uid }

  /// The prefix of such a text.
  static let addresslessPrefix = "uid:"

  /// The method by which the user logs in: `password`, `custom` (a token of the administrator) or `anonymous`.
  public var provider: String {
    if !passwordHash.isEmpty { return "password" }
    if details.isCustom { return "custom" }
    return email.isEmpty ? "anonymous" : "password"
  }

  /// The latest time of a login that the account can have had, in seconds since 1970. It may be after the present time,
  /// if the clock was set back.
  public var latestLogin: Int64 {
    max(details.validSince, createdAt / 1_000, (details.lastLoginAt ?? 0) / 1_000)
  }

  /// Ends all earlier logins: later tokens have a later ``AccountDetails/validSince``, even within the same second, and
  /// even if the clock was set back since the last login.
  ///
  /// - Parameter now: milliseconds since 1970.
  public mutating func endLogins(at now: Int64) {
    details.validSince = max(latestLogin, now / 1_000).addingSaturated(1)
  }
}

/// The data of an account besides its credentials. A value; the default is that of an account of an older version.
public struct AccountDetails: Sendable, Equatable {
  /// The name for display.
  public var displayName: String?
  /// The address of a picture.
  public var photoURL: String?
  /// Claims that an administrator has set, as the text of a JSON object. They are in every identity token.
  public var claims: String?
  /// Whether the user has proven that the e-mail address is theirs, or an administrator has said so.
  public var isEmailVerified: Bool
  /// Whether a custom token created the account.
  public var isCustom: Bool
  /// The time in seconds since 1970 from which logins count. A token of an earlier login is refused.
  public var validSince: Int64
  /// The latest time of a login in milliseconds since 1970; nil if it is unknown.
  public var lastLoginAt: Int64?
  /// A time within an hour before the last refresh of a token, in milliseconds since 1970; nil if it is unknown.
  public var lastRefreshAt: Int64?

  /// Creates details with the given fields.
  public init(
    displayName: String? = nil, photoURL: String? = nil, claims: String? = nil,
    isEmailVerified: Bool = false, isCustom: Bool = false, validSince: Int64 = 0,
    lastLoginAt: Int64? = nil, lastRefreshAt: Int64? = nil
  ) {
    self.displayName = displayName
    self.photoURL = photoURL
    self.claims = claims
    self.isEmailVerified = isEmailVerified
    self.isCustom = isCustom
    self.validSince = validSince
    self.lastLoginAt = lastLoginAt
    self.lastRefreshAt = lastRefreshAt
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
