import CanopyClient
import CanopyTesting
import Foundation

/// A suite about accounts: a user's credentials, and the code of a failure.
protocol AccountSuite {}

extension AccountSuite {
  static var email: String { "ada@example.org" }
  static var password: String { "secret words of ada" }
  static var credential: AuthCredential {
    EmailAuthProvider.credential(withEmail: email, password: password)
  }

  /// Returns the code of the error of `body`; nil without an error.
  func failure(of body: () async throws -> Void) async -> AuthErrorCode? {
    do {
      try await body()
      return nil
    } catch {
      let error = error as NSError
      return error.domain == AuthErrorDomain ? AuthErrorCode(rawValue: error.code) : nil
    }
  }

  func auth(_ backend: Backend) throws -> Auth {
    Auth.auth(database: try backend.anonymousClient())
  }

  /// Passes the time in which a sign-in is recent.
  func age(_ backend: Backend) { backend.parts.clock.advance(6 * 60 * 1_000) }
}
