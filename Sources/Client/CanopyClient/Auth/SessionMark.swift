internal import CanopyTree
internal import DequeModule

/// The session at the time of a call of the application, by which a late reply is recognised.
///
/// A reply is late if it arrives after the user has signed out, or after a later sign-in. It must not change the session.
struct SessionMark: Sendable {
  /// The number of the call, in the sequence of all calls about the session.
  var number: Int
  /// The number of the sign-in or sign-out that began the session; 0 for that of an earlier run.
  var session: Int
  /// The user who was signed in.
  var user: User?
}

/// Replies that arrive after a sign-out or another sign-in.
extension RepositoryState {
  /// Whether a request has been overtaken by a sign-out or another sign-in.
  func isLate(_ request: SessionRequest) -> Bool {
    if request.kind.beginsSession { return session.hasChanged(after: request.mark) }
    return request.kind.needsAccount && !session.isSame(as: request.mark)
  }

  /// Begins a session with the reply to a sign-in, or changes that of the request.
  ///
  /// - Returns: whether it has; a late reply changes nothing.
  func setSession(_ user: User, token: String?, by request: SessionRequest) -> Bool {
    if request.kind.beginsSession, !session.hasChanged(after: request.mark) {
      finishAccountReadings()
    }
    let calls = session.set(
      user, token: token, by: request.mark, isNew: request.kind.beginsSession)
    guard let calls else { return false }
    sessionHasChanged(calls)
    return true
  }

  /// Answers a request whose success is reported late. The session stays as it is.
  ///
  /// - Parameter uid: the user of the reply to a sign-in, if known.
  func finishLate(_ request: SessionRequest, uid: String? = nil) {
    switch request.kind {
    case _ where uid != nil && session.user?.identity == uid.map { ByteString($0) }:
      request.succeed(session.user, self)
    case .reload, .idToken: failLate(request)
    case _ where request.kind.beginsSession: failLate(request)
    // The server has done it, for the user who was signed in then.
    default: request.succeed(request.changedUser, self)
    }
  }

  /// Fails a request that was overtaken by a sign-out or another sign-in.
  func failLate(_ request: SessionRequest) {
    let error =
      session.user == nil
      ? AuthError(.nullUser, "the user has signed out before the server answered")
      : AuthError(.userMismatch, "another user has signed in before the server answered")
    request.answer(.failure(error), self)
  }

  /// Ends the session of a deleted account.
  func takeDeletion(_ request: SessionRequest) {
    // Every session of the account has ended, also one that began meanwhile.
    if let user = session.user, user.identity == request.mark.user?.identity {
      identityToken = nil
      setSession(nil, token: nil)
      if endpoint.isRealtime, phase.isReady { send(.nothing, .unauthenticate) }
    }
    request.succeed(nil, self)
  }

  /// Completes a sign-out, which has taken effect already.
  ///
  /// - Parameters:
  ///   - calls: the calls of the listeners.
  ///   - wasSignedIn: whether there was a session.
  func signedOut(_ calls: [ApplicationCall], wasSignedIn: Bool) {
    finishAccountReadings()
    // Repeat it: the network may have replaced a token meanwhile.
    sessionHasChanged(calls + session.set(nil, token: nil))
    identityToken = nil
    failLateRequests()
    if phase.isReady {
      // The server may have carried out a sign-in whose reply is under way.
      if wasSignedIn || isSigningIn { ask(.logOut) { _, _ in } }
    } else if wasSignedIn, phase.transport != nil {
      // This connection began with the session.
      reconnect("the session has changed")
    }
  }

  /// Whether a sign-in is under way on the connection.
  var isSigningIn: Bool {
    sentRequests.contains { sent in
      if case .session(let request) = sent { request.kind.beginsSession } else { false }
    }
  }

  /// Fails the waiting requests that were overtaken.
  private func failLateRequests() {
    let late = (sessionRequests + heldRequests).filter(isLate)
    guard !late.isEmpty else { return }
    sessionRequests.removeAll(where: isLate)
    heldRequests.removeAll(where: isLate)
    for request in late { failLate(request) }
  }

  /// Sends the requests that waited for the outcome of a sign-in.
  func sendHeldRequests() {
    guard !heldRequests.isEmpty, !isSigningIn else { return }
    let held = heldRequests
    heldRequests = []
    for request in held { send(request) }
  }
}
