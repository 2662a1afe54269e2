/// What a person has after signing up or logging in.
///
/// `token` is a secret: the description and the mirror leave it out.
public struct Session: Sendable, Equatable {
  /// The account's identifier.
  public let uid: String
  /// The e-mail address as its owner wrote it.
  public let email: String
  /// The token that stands for the password from now on; 43 characters of base64url.
  public let token: String
  /// When the token stops being valid, in milliseconds since 1970.
  public let expiresAt: Int64

  /// A session with the given fields.
  public init(uid: String, email: String, token: String, expiresAt: Int64) {
    self.uid = uid
    self.email = email
    self.token = token
    self.expiresAt = expiresAt
  }
}

extension Session: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
  /// The session without its token.
  public var description: String {
    "Session(uid: \(uid), email: \(email), token: <redacted>, expiresAt: \(expiresAt))"
  }

  /// The same as ``description``.
  public var debugDescription: String { description }

  /// A mirror without the token, so that `dump` does not show it either.
  public var customMirror: Mirror {
    Mirror(self, children: ["uid": uid, "email": email, "expiresAt": expiresAt])
  }
}
