/// Somebody who is signed in.
public struct User: Sendable, Equatable {
  /// What tells the account from all others.
  public let uid: String
  /// The e-mail address; nil for the administrator.
  public let email: String?
  /// The name under which others know this person; nil for the administrator.
  public let displayName: String?
  /// Whether this is the administrator of the server, whom the security rules do not bind. Canopy's own
  /// addition.
  public let isAdministrator: Bool

  static let administrator = User(
    uid: "administrator", email: nil, displayName: nil, isAdministrator: true)
}

/// What a login or a sign-up comes to.
public struct AuthDataResult: Sendable, Equatable {
  /// Who is signed in now.
  public let user: User
}
