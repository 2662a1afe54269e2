internal import CanopyTree
internal import CanopyWire

/// The requests of the application about accounts over the realtime protocol: identity requests over HTTP.
extension RepositoryState {
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
    case .signUpAnonymously: askIdentity("signUp", []) { $1.takeTokens($0, request) }
    case .logIn(let email, let password):
      askIdentity("signInWithPassword", [("email", email), ("password", password)]) {
        $1.takeTokens($0, request)
      }
    case .customToken(let token):
      askIdentity("signInWithCustomToken", [("token", token)]) { $1.takeTokens($0, request) }
    case .confirm(let email, let password):
      let identity = session.user?.identity
      askIdentity("signInWithPassword", [("email", email), ("password", password)]) {
        result, state in
        if case .success(let reply) = result,
          (reply["localId"]?.string).map({ ByteString($0) }) != identity
        {
          return state.fail(
            request, AuthError(.userMismatch, "the credential is that of another user"))
        }
        state.takeTokens(result, request)
      }
    case .rename(let name):
      withIdentityToken(request) { token, state in
        state.askIdentity("update", [("idToken", token), ("displayName", name)]) {
          $1.takeTokens($0, request, displayName: name)
        }
      }
    case .picture(let url, let name):
      withIdentityToken(request) { token, state in
        let names = name.map { [("displayName" as StaticString, $0)] } ?? []
        state.askIdentity("update", [("idToken", token), ("photoUrl", url)] + names) {
          result, state in
          let shown = name ?? state.session.user?.displayName ?? ""
          state.takeTokens(result, request, displayName: shown)
        }
      }
    case .reload:
      withIdentityToken(request) { token, state in
        state.askIdentity("lookup", [("idToken", token)]) { $1.takeAccount($0, request) }
      }
    case .password(let current, let new): changePassword(current, new, request)
    case .credentials(let email, let password): changeCredentials(email, password, request)
    case .link(let email, let password): changeCredentials(email, password, request)
    case .delete:
      withIdentityToken(request) { token, state in
        state.deleteAccount(token, request)
      }
    case .idToken(let isForced):
      withIdentityToken(request, isForced: isForced) { request.succeed(text: $0, $1) }
    case .forgotPassword(let email):
      askIdentity("sendOobCode", [("requestType", "PASSWORD_RESET"), ("email", email)]) {
        $1.takeText($0, request)
      }
    case .sendVerification:
      withIdentityToken(request) { token, state in
        state.askIdentity(
          "sendOobCode", [("requestType", "VERIFY_EMAIL"), ("idToken", token)]
        ) { $1.takeText($0, request) }
      }
    case .resetPassword(let code, let new):
      let password = new.map { [("newPassword" as StaticString, $0)] } ?? []
      askIdentity("resetPassword", [("oobCode", code)] + password) { $1.takeText($0, request) }
    case .verifyEmail(let code):
      askIdentity("update", [("oobCode", code)]) { $1.takeText($0, request) }
    }
  }

  /// Deletes the account of the session.
  ///
  /// The server ends the identity of the connection before it answers. Here that end is expected.
  private func deleteAccount(_ token: String, _ request: SessionRequest) {
    let stored = session.token
    replacedSessions += 1
    askIdentity("delete", [("idToken", token)]) { result, state in
      state.replacedSessions -= 1
      switch result {
      case .success: state.takeDeletion(request)
      case .failure(let error):
        state.fail(request, error)
        if let stored, state.identityToken == nil { state.renewIdentity(stored) }
      }
    }
  }

  private func changePassword(_ current: String, _ new: String, _ request: SessionRequest) {
    guard let email = session.user?.email else {
      return fail(request, AuthError(.nullUser, "no user with an e-mail address is signed in"))
    }
    askIdentity("signInWithPassword", [("email", email), ("password", current)]) {
      result, state in
      guard case .success(let reply) = result, let token = reply["idToken"]?.string else {
        return state.takeTokens(result, request)
      }
      guard !state.isLate(request) else { return state.failLate(request) }
      state.replaceSession([("idToken", token), ("password", new)], request)
    }
  }

  private func changeCredentials(
    _ email: String?, _ password: String?, _ request: SessionRequest
  ) {
    withIdentityToken(request) { token, state in
      var members: [(StaticString, String)] = [("idToken", token)]
      if let email { members.append(("email", email)) }
      if let password { members.append(("password", password)) }
      state.replaceSession(members, request)
    }
  }

  /// Sends new credentials, which end the present session.
  ///
  /// The server ends the identity of the connection before it answers. The session must not end by that: the answer has
  /// the tokens of its successor.
  private func replaceSession(_ members: [(StaticString, String)], _ request: SessionRequest) {
    let stored = session.token
    replacedSessions += 1
    askIdentity("update", members) { result, state in
      state.replacedSessions -= 1
      state.takeTokens(result, request)
      if case .failure = result, let stored, state.identityToken == nil {
        state.renewIdentity(stored)
      }
    }
  }

  /// Calls `body` with a valid identity token of the session.
  ///
  /// - Parameter isForced: whether to request a new one.
  private func withIdentityToken(
    _ request: SessionRequest, isForced: Bool = false, _ body: @escaping Answer<String>
  ) {
    guard let stored = session.token, session.user?.isAdministrator != true else {
      return fail(request, AuthError(.nullUser, "no user with an account is signed in"))
    }
    if !isForced, let token = validIdentityToken { return body(token.text, self) }
    let credential = RealtimeCredential(stored).token
    // The application signed in with an identity token, which cannot be renewed.
    if credential.utf8.contains(UInt8(ascii: ".")) { return body(credential, self) }
    refreshIdentity(credential) { result, state in
      switch result {
      case .success where state.isLate(request): state.failLate(request)
      case .success(let token):
        state.replaceCredential(stored, token)
        body(token.text, state)
      case .failure(let error): state.fail(request, error)
      }
    }
  }

  // MARK: Replies

  /// Begins a session with the tokens of a reply, unless the reply is late.
  private func takeTokens(
    _ result: Result<JSONValue, AuthError>, _ request: SessionRequest, displayName: String? = nil
  ) {
    switch result {
    case .failure(let error): fail(request, error)
    case .success(let reply):
      if isLate(request) { return finishLate(request, uid: reply["localId"]?.string) }
      // After a change of the name alone, the server sends no tokens, and the present ones stay.
      let present = displayName == nil ? nil : identityToken
      guard let token = IdentityToken(reply, now: clock.local) ?? present,
        let claims = IdentityClaims(token.text),
        let uid = reply["localId"]?.string ?? claims.uid
      else { return fail(request, .unreadable) }
      var details = uid.hasSameBytes(as: session.user?.uid ?? "") ? session.user?.details : nil
      if displayName != nil { details?.photoURL = reply["photoUrl"]?.string }
      let user = User(
        uid: uid, email: reply["email"]?.string ?? claims.email,
        displayName: reply["displayName"]?.string ?? displayName ?? claims.name,
        isAnonymous: claims.provider == "anonymous", isEmailVerified: claims.isEmailVerified,
        details: details ?? UserDetails())
      let stored = RealtimeCredential.refresh(token.refresh).text
      guard setSession(user, token: stored, by: request) else {
        return finishLate(request, uid: uid)
      }
      identityToken = token
      if phase.isReady {
        // Later requests follow this one, so the server handles them as this user.
        showIdentity(stored, token: token.text)
      } else if phase.transport != nil {
        // This connection began with another identity.
        reconnect("the session has changed")
      }
      guard request.kind.needsReading else { return request.succeed(user, self) }
      readAccount(request, isNewUser: reply["isNewUser"].map { $0 == .leaf(true) })
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
      if isLate(request) { return finishLate(request) }
      guard uid.hasSameBytes(as: session.user?.uid ?? "") else {
        return fail(request, .sessionEnded)
      }
      let email = account["email"]?.string
      let user = User(
        uid: uid, email: email, displayName: account["displayName"]?.string,
        isAnonymous: email == nil && account["customAuth"] != .leaf(true),
        isEmailVerified: account["emailVerified"] == .leaf(true), details: UserDetails(account))
      setSession(user, token: session.token)
      request.succeed(user, self)
    }
  }

  /// Answers with the e-mail address of a reply.
  private func takeText(_ result: Result<JSONValue, AuthError>, _ request: SessionRequest) {
    switch result {
    case .failure(let error): fail(request, error)
    case .success(let reply): request.succeed(text: reply["email"]?.string ?? "", self)
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
        isAnonymous: reply["auth"]?["provider"]?.string == "anonymous",
        isEmailVerified: claims?["email_verified"] == .leaf(true))
    }
    guard setSession(user, token: token, by: request) else { return finishLate(request) }
    request.succeed(user, self)
  }
}

extension UserDetails {
  /// Reads the details of an account as `accounts:lookup` shows it.
  fileprivate init(_ account: JSONValue) {
    photoURL = account["photoUrl"]?.string
    createdAt = account["createdAt"]?.string.flatMap { Int64($0) }
    lastLoginAt = account["lastLoginAt"]?.string.flatMap { Int64($0) }
    if case .array(let providers)? = account["providerUserInfo"] {
      hasPassword = providers.contains { $0["providerId"]?.string == EmailAuthProvider.id }
    }
  }
}
