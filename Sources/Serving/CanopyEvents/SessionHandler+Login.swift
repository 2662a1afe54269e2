internal import CanopyAccounts
package import CanopySession
internal import CanopyWire
internal import NIOCore

/// The ends of logins. The login of a user ends the subscriptions that it allows; the connections of an administrator who
/// has used a pass end with that login.
extension SessionHandler {
  // MARK: The login of a user

  /// Has the subscriptions authorized again when the login of the user expires, if any depends on it.
  final func watchSubscriptions() {
    guard case .user(let login) = session.identity, session.hasAuthorizedSubscriptions else {
      return cancelExpiry()
    }
    expectExpiry(of: login)
  }

  /// Calls `expire` when a login has expired.
  package final func expectExpiry(of login: UserSession) {
    let time = LoginWatch.nextLook(login.expiresAt - operations.now())
    logins.expect(
      services.loop.assumeIsolated().scheduleTask(in: time) { [self] in
        if login.isValid(at: operations.now()) { expectExpiry(of: login) } else { expire(login) }
      })
  }

  /// Does not call `expire` any more.
  package final func cancelExpiry() {
    logins.expect(nil)
  }

  // MARK: The login by a pass

  /// Sets the login of the connection, or nil for none, and ends the watch of the previous one.
  final func hold(_ login: AdministratorLogin?) {
    assertInEventLoop()
    logins.release()
    guard let login, session.isOpen else { return }
    logins.held = LoginWatch.Held(login: login)
    let loop = services.loop
    let reference = reference()
    logins.held?.number = login.observe {
      loop.execute { reference.value.handler?.endBecause(endOf: login) }
    }
    expectEnd(of: login)
  }

  private func expectEnd(of login: AdministratorLogin) {
    let time = LoginWatch.nextLook(login.expires - operations.now())
    logins.held?.expiry = services.loop.assumeIsolated().scheduleTask(in: time) { [self] in
      guard logins.held?.login === login, !endsWithLogin() else { return }
      expectEnd(of: login)
    }
  }

  /// Ends the connection if it has a login that has ended. Its input then counts no more.
  ///
  /// - Returns: whether it had one.
  package final func endsWithLogin() -> Bool {
    guard let login = logins.held?.login, !login.isValid(at: operations.now()) else { return false }
    endBecause(endOf: login)
    return true
  }

  private func endBecause(endOf login: AdministratorLogin) {
    assertInEventLoop()
    guard logins.held?.login === login else { return }
    hold(nil)
    end(
      WireError(
        .unauthenticated,
        "the login of this connection has ended; make another pass with canopy console"))
  }

  /// Whether a token is that of the connection's own login.
  final func isOwnLogin(_ token: String) -> Bool {
    guard let login = logins.held?.login else { return false }
    return operations.login(ofPassToken: token) === login
  }

  /// Ends the login that the connection holds, if any: its other connections end, and this one goes on without a login.
  final func endOwnLogin() {
    guard let login = logins.held?.login else { return }
    hold(nil)
    operations.end(login, dropping: session.takeArmed(in: login))
  }
}
