/// The properties of an account that the server sends only on request.
struct UserDetails: Sendable, Equatable {
  /// The address of the picture. It is not empty.
  var photoURL: String?
  /// The time of the sign-up, in milliseconds since 1970.
  var createdAt: Int64?
  /// The time of the last sign-in, in milliseconds since 1970.
  var lastLoginAt: Int64?
  /// Whether the user signs in with an e-mail address and a password.
  var hasPassword = false
}

extension User {
  /// The picture; nil without one, and over the line protocol, which has none.
  public var photoURL: URL? { details.photoURL.flatMap { URL(string: $0) } }

  /// The times of the sign-up and of the last sign-in.
  public var metadata: UserMetadata {
    UserMetadata(
      creationDate: details.createdAt.map { Date(milliseconds: $0) },
      lastSignInDate: details.lastLoginAt.map { Date(milliseconds: $0) })
  }

  /// The ways in which the user signs in: an e-mail address with a password, or none.
  public var providerData: [UserInfo] {
    guard details.hasPassword, let email else { return [] }
    return [
      UserInfo(
        providerID: EmailAuthProvider.id, uid: email, displayName: displayName,
        photoURL: photoURL, email: email)
    ]
  }
}

/// The times of a user's sign-up and last sign-in.
public struct UserMetadata: Sendable, Equatable {
  /// The time of the sign-up; nil for the administrator, and before the server has sent it.
  public let creationDate: Date?
  /// The time of the last sign-in; nil over the line protocol, and before the server has sent it.
  public let lastSignInDate: Date?
}

/// A way in which a user signs in.
public struct UserInfo: Sendable, Equatable {
  /// The name of the way: `password`.
  public let providerID: String
  /// The identity there: the e-mail address.
  public let uid: String
  /// The user name.
  public let displayName: String?
  /// The picture.
  public let photoURL: URL?
  /// The e-mail address.
  public let email: String?
}

/// The circumstances of a sign-in.
public struct AdditionalUserInfo: Sendable, Equatable {
  /// The name of the way of the sign-in: `password`; empty for an anonymous user and a custom token.
  public let providerID: String
  /// Whether the sign-in created the user. Over the line protocol it is false for a custom token.
  public let isNewUser: Bool
}

extension Date {
  fileprivate init(milliseconds: Int64) {
    self.init(timeIntervalSince1970: Double(milliseconds) / 1_000)
  }
}
