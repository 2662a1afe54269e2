/// The proof of an identity, for `Auth.signIn(with:)`, `User.reauthenticate(with:)` and
/// `User.link(with:)`.
///
/// This library has credentials of ``EmailAuthProvider`` alone.
public final class AuthCredential: Sendable {
  /// The identifier of the provider: `password`.
  public let provider: String
  let email: String
  let password: String

  init(email: String, password: String) {
    provider = EmailAuthProviderID
    self.email = email
    self.password = password
  }
}

/// The identifier of ``EmailAuthProvider``.
public let EmailAuthProviderID = "password"

/// Sign-in with an e-mail address and a password.
public enum EmailAuthProvider {
  /// The identifier of the provider.
  public static let id = EmailAuthProviderID

  /// Returns a credential. It is not checked before it is used.
  public static func credential(withEmail email: String, password: String) -> AuthCredential {
    AuthCredential(email: email, password: password)
  }
}
