internal import CanopyAccounts
internal import NIOCore

/// The logins whose end a connection watches: that of its user, and that of an administrator who has used a pass.
struct LoginWatch {
  /// A login by a pass.
  struct Held {
    let login: AdministratorLogin
    /// The number of the observer.
    var number = 0
    /// The task of the loop that ends the connection when the login expires.
    var expiry: Scheduled<Void>?
  }

  /// The task of the loop that authorizes the subscriptions again when the user's login expires.
  private(set) var expiry: Scheduled<Void>?
  var held: Held?

  /// A minute: the clock may be set meanwhile.
  private static let lookMilliseconds: Int64 = 60 * 1000

  /// Returns the time of the next look at a login.
  ///
  /// - Parameter remaining: the milliseconds until it expires.
  static func nextLook(_ remaining: Int64) -> TimeAmount {
    .milliseconds(max(1, min(remaining, lookMilliseconds)))
  }

  /// Sets the task for the login of the user, and cancels the previous one.
  mutating func expect(_ expiry: Scheduled<Void>?) {
    self.expiry?.cancel()
    self.expiry = expiry
  }

  /// Ends the watch of the login by a pass.
  mutating func release() {
    guard let held = held.take() else { return }
    held.login.removeObserver(held.number)
    held.expiry?.cancel()
  }
}
