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
  private func showIdentity(_ stored: String, token: String) {
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
    guard let stored = session.token else { return }
    options.logger.notice(
      "the server ended the identity", metadata: ["status": "\(status)", "reason": "\(reason)"])
    if case .refresh = RealtimeCredential(stored) {
      renewIdentity(stored)
    } else {
      endSession(token: stored)
    }
  }

  /// Gets another identity token and shows it.
  private func renewIdentity(_ stored: String) {
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
  private func replaceCredential(_ stored: String, _ token: IdentityToken) {
    let text = RealtimeCredential.refresh(token.refresh).text
    if text != stored { setSession(session.user, token: text) }
  }

  // MARK: Requests of the application

  /// Sends a request about the session of a connection by the realtime protocol.
  func sendIdentity(_ request: SessionRequest) {
    switch request.kind {
    case .token(let token):
      if !send(.session(request), .authenticate(token: token)) {
        fail(request, AuthError(.invalidArgument, "the token is longer than a message may be"))
      }
    case .logOut:
      identityToken = nil
      send(.session(request), .unauthenticate)
    case .signUp(let email, let password, let username):
      askIdentity(
        "signUp", [("email", email), ("password", password), ("displayName", username)]
      ) { $1.takeTokens($0, request, displayName: username) }
    case .logIn(let email, let password):
      askIdentity("signInWithPassword", [("email", email), ("password", password)]) {
        $1.takeTokens($0, request)
      }
    case .rename(let name):
      withIdentityToken(request) { token, state in
        state.askIdentity("update", [("idToken", token), ("displayName", name)]) {
          $1.takeTokens($0, request, displayName: name)
        }
      }
    case .reload:
      if let user = session.user, user.isAdministrator {
        return request.answer(.success(user), self)
      }
      withIdentityToken(request) { token, state in
        state.askIdentity("lookup", [("idToken", token)]) { $1.takeAccount($0, request) }
      }
    case .password(let current, let new):
      guard let email = session.user?.email else {
        return fail(request, AuthError(.noCurrentUser, "nobody is signed in"))
      }
      askIdentity("signInWithPassword", [("email", email), ("password", current)]) {
        result, state in
        guard case .success(let reply) = result, let token = reply["idToken"]?.string else {
          return state.takeTokens(result, request)
        }
        let name = reply["displayName"]?.string
        state.askIdentity("update", [("idToken", token), ("password", new)]) {
          $1.takeTokens($0, request, displayName: name)
        }
      }
    }
  }

  /// Calls `body` with a valid identity token of the session.
  private func withIdentityToken(_ request: SessionRequest, _ body: @escaping Answer<String>) {
    guard let stored = session.token, case .refresh(let refresh) = RealtimeCredential(stored) else {
      return fail(
        request, AuthError(.noCurrentUser, "nobody is signed in with an e-mail address"))
    }
    if let token = identityToken, token.refresh == refresh, token.expiresAt > clock.local + 60_000 {
      return body(token.text, self)
    }
    refreshIdentity(refresh) { result, state in
      switch result {
      case .success(let token):
        state.replaceCredential(stored, token)
        body(token.text, state)
      case .failure(let error): state.fail(request, error)
      }
    }
  }

  /// Begins a session with the tokens of a reply.
  private func takeTokens(
    _ result: Result<JSONValue, AuthError>, _ request: SessionRequest, displayName: String? = nil
  ) {
    switch result {
    case .failure(let error): fail(request, error)
    case .success(let reply):
      // After a change of the name alone, the server sends no tokens, and the present ones stay.
      let present = displayName == nil ? nil : identityToken
      guard let token = IdentityToken(reply, now: clock.local) ?? present,
        let uid = reply["localId"]?.string
      else { return fail(request, .unreadable) }
      let name = reply["displayName"]?.string ?? displayName
      let user = User(
        uid: uid, email: reply["email"]?.string, displayName: name == "" ? nil : name,
        isAdministrator: false)
      let stored = RealtimeCredential.refresh(token.refresh).text
      identityToken = token
      setSession(user, token: stored)
      if phase.isReady {
        // Later requests follow this one, so the server handles them as this user.
        showIdentity(stored, token: token.text)
      } else if phase.transport != nil {
        // This connection began with another identity.
        dropConnection("the session has changed")
      }
      request.answer(.success(user), self)
    }
  }

  /// Takes the present data of the signed-in account.
  private func takeAccount(
    _ result: Result<JSONValue, AuthError>, _ request: SessionRequest
  ) {
    switch result {
    case .failure(let error): fail(request, error)
    case .success(let reply):
      guard case .array(let accounts)? = reply["users"], let account = accounts.first,
        let uid = account["localId"]?.string
      else { return fail(request, .unreadable) }
      guard uid.hasSameBytes(as: session.user?.uid ?? "") else {
        return fail(request, AuthError(.nullUser, "the session has ended; sign in again"))
      }
      let name = account["displayName"]?.string
      let user = User(
        uid: uid, email: account["email"]?.string, displayName: name == "" ? nil : name,
        isAdministrator: false)
      setSession(user, token: session.token)
      request.answer(.success(user), self)
    }
  }

  /// Begins a session with a token that the database has accepted.
  func beginSession(_ json: [UInt8], _ request: SessionRequest) {
    guard case .token(let token) = request.kind, let reply = JSONValue(reading: json) else {
      return fail(request, .unreadable)
    }
    var user = User.administrator
    if let uid = reply["auth"]?["uid"]?.string {
      let claims = reply["auth"]?["token"]
      user = User(
        uid: uid, email: claims?["email"]?.string, displayName: claims?["name"]?.string,
        isAdministrator: false)
    }
    setSession(user, token: token)
    request.answer(.success(user), self)
  }
}
