internal import CanopyAccounts
internal import CanopySession
internal import CanopyWire
internal import NIOCore

/// The login of an administrator who has used a pass. Its connections end with it.
extension SessionHandler {
  /// A login that the connection holds.
  struct HeldLogin {
    let login: AdministratorLogin
    /// The number of the observer.
    var number = 0
    /// The task of the loop that ends the connection when the login expires.
    var expiry: Scheduled<Void>?
  }

  /// Sets the login of the connection, or nil for none, and ends the watch of the previous one.
  final func hold(_ login: AdministratorLogin?) {
    assertInEventLoop()
    if let held = heldLogin {
      held.login.removeObserver(held.number)
      held.expiry?.cancel()
    }
    heldLogin = nil
    guard let login, session.isOpen else { return }
    heldLogin = HeldLogin(login: login)
    let loop = services.loop
    let reference = reference()
    heldLogin?.number = login.observe {
      loop.execute { reference.value.handler?.endBecause(endOf: login) }
    }
    expectEnd(of: login)
  }

  private func expectEnd(of login: AdministratorLogin) {
    let remaining = login.expires - operations.now()
    let milliseconds = max(1, min(remaining, SessionHandler.expiryMillisecondsMax))
    heldLogin?.expiry = services.loop.assumeIsolated().scheduleTask(
      in: .milliseconds(milliseconds)
    ) { [self] in
      guard heldLogin?.login === login, !endsWithLogin() else { return }
      expectEnd(of: login)
    }
  }

  /// Ends the connection if it has a login that has ended. Its input then counts no more.
  ///
  /// - Returns: whether it had one.
  package final func endsWithLogin() -> Bool {
    guard let login = heldLogin?.login, !login.isValid(at: operations.now()) else { return false }
    endBecause(endOf: login)
    return true
  }

  private func endBecause(endOf login: AdministratorLogin) {
    assertInEventLoop()
    guard heldLogin?.login === login else { return }
    hold(nil)
    end(
      WireError(
        .unauthenticated,
        "the login of this connection has ended; make another pass with canopy console"))
  }

  /// Whether a token is that of the connection's own login.
  final func isOwnLogin(_ token: String) -> Bool {
    guard let login = heldLogin?.login else { return false }
    return operations.login(ofPassToken: token) === login
  }

  /// Ends the login that the connection holds, if any: its other connections end, and this one goes on without a login.
  final func endOwnLogin() {
    guard let login = heldLogin?.login else { return }
    hold(nil)
    operations.end(login, dropping: session.takeArmed(in: login))
  }
}
