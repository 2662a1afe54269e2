internal import CanopyTree
internal import CanopyWire
internal import Logging

/// The session over the realtime protocol: identity requests over HTTP give tokens, which the database is shown.
extension RepositoryState {
  /// An identity token is renewed so long before its end, in milliseconds.
  private static let renewalMilliseconds: Int64 = 300_000

  // MARK: A new connection

  /// Ends the greeting of a connection, with the session's identity if there is one.
  func greetWithIdentity() {
    guard let stored = session.token else { return endGreeting() }
    guard case .refresh(let refresh) = RealtimeCredential(stored) else {
      return endGreeting(stored, token: stored)
    }
    if let token = identityToken, token.refresh == refresh, token.expiresAt > clock.local + 60_000 {
      return endGreeting(stored, token: token.text)
    }
    let generation = generation
    refreshIdentity(refresh) { result, state in
      guard state.generation == generation, case .greeting = state.phase else { return }
      // The user may have signed out or in.
      guard state.session.token == stored else { return state.greetWithIdentity() }
      switch result {
      case .success(let token):
        state.replaceCredential(stored, token)
        state.endGreeting(state.session.token, token: token.text)
      case .failure(let error) where error.endsSession:
        state.endSession(token: stored)
        state.endGreeting()
      case .failure(let error): state.dropConnection(error.sentence)
      }
    }
  }

  private func endGreeting(_ stored: String? = nil, token: String? = nil) {
    guard case .hello? = sentRequests.first else { return }
    sentRequests.removeFirst()
    if let stored, let token { showIdentity(stored, token: token) }
    continueHandshake()
  }

  /// Shows a token to the database.
  func showIdentity(_ stored: String, token: String) {
    if !send(.resumedSession(token: stored), .authenticate(token: token)) {
      endSession(token: stored)
    }
    guard let identity = identityToken, identity.text.hasSameBytes(as: token) else { return }
    identityToken?.uses += 1
    let generation = generation
    let left = identity.expiresAt &- clock.local &- RepositoryState.renewalMilliseconds
    owner?.after(max(left, 60_000)) { state in
      guard state.generation == generation,
        state.identityToken?.text.hasSameBytes(as: token) ?? false
      else { return }
      state.renewIdentity(stored)
    }
  }

  /// Handles the refusal of the session's token on a new connection.
  func sessionRefused(_ stored: String, _ error: WireError) {
    if case .refresh = RealtimeCredential(stored), endpoint.isRealtime,
      let token = identityToken, token.uses > 1
    {
      // The identity token has ended early; the refresh token may still be valid.
      identityToken = nil
      return dropConnection(error.sentence)
    }
    options.logger.notice("the session has ended", metadata: ["error": "\(error.sentence)"])
    endSession(token: stored)
  }

  /// Handles the end of the identity by the server.
  func identityEnded(_ status: String, _ reason: String) {
    identityToken = nil
    // A request under way replaces the session or deletes the account. Its reply decides about the next
    // session.
    guard replacedSessions == 0, let stored = session.token else { return }
    options.logger.notice(
      "the server ended the identity", metadata: ["status": "\(status)", "reason": "\(reason)"])
    guard case .refresh = RealtimeCredential(stored) else { return endSession(token: stored) }
    // The server now cancels the listeners that need the identity. The next connection starts them again,
    // with another identity token.
    dropConnection(reason)
  }

  /// Gets another identity token and shows it.
  func renewIdentity(_ stored: String) {
    guard session.token == stored, case .refresh(let refresh) = RealtimeCredential(stored) else {
      return
    }
    let generation = generation
    refreshIdentity(refresh) { result, state in
      guard state.session.token == stored else { return }
      switch result {
      case .success(let token):
        state.replaceCredential(stored, token)
        guard state.generation == generation, state.phase.isReady else { return }
        state.showIdentity(state.session.token ?? stored, token: token.text)
      case .failure(let error) where error.endsSession: state.endSession(token: stored)
      case .failure(let error):
        // A new connection begins with another attempt.
        if state.generation == generation { state.dropConnection(error.sentence) }
      }
    }
  }

  /// Keeps the refresh token of a reply, which may be another one.
  func replaceCredential(_ stored: String, _ token: IdentityToken) {
    let text = RealtimeCredential.refresh(token.refresh).text
    if text != stored, session.token == stored { setSession(session.user, token: text) }
  }
}
