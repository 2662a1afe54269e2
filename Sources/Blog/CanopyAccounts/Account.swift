/// One identity: an e-mail address, the hash of a password, and the identifier that everything
/// else in Canopy knows the person by.
///
/// A value as the store keeps it; changing a copy changes nothing. Its `description` and its
/// mirror leave the password hash out, so that an account can be logged.
public struct Account: Sendable, Equatable {
  /// The identifier, 20 characters of `[0-9A-Za-z]`; never reused and never changed.
  public let uid: String
  /// The e-mail address as its owner wrote it, for display.
  public var email: String
  /// The address by which accounts are unique; see ``EmailAddress``.
  public var emailNormalized: String
  /// The user name asked for at sign-up. Opaque here: whether it is free and well formed is
  /// decided by whoever claims it, and later changes of name do not come back to this module.
  public let username: String
  /// The password's hash as text, with its parameters and salt; see ``PasswordHash``.
  public var passwordHash: String
  /// When the account was inserted, in milliseconds since 1970.
  public let createdAt: Int64
  /// Whether an administrator has shut the account: its password opens nothing.
  public var isDisabled: Bool
  /// Whether sign-up has not yet finished: the account holds its e-mail address, no more.
  public var isPending: Bool

  /// Whether the account can be logged in to.
  var isActive: Bool { !isDisabled && !isPending }

  /// An account with the given fields; nothing is checked here.
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
  /// The account without its password hash.
  public var description: String {
    "Account(uid: \(uid), email: \(email), disabled: \(isDisabled), pending: \(isPending))"
  }

  /// The same as ``description``.
  public var debugDescription: String { description }

  /// A mirror without the password hash, so that `dump` does not show it either.
  public var customMirror: Mirror {
    Mirror(
      self,
      children: [
        "uid": uid, "email": email, "isDisabled": isDisabled, "isPending": isPending,
      ]
    )
  }
}
