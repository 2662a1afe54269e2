internal import CanopyTree
internal import CanopyWire
internal import DequeModule

/// The session of the connection. A request about it waits for a connection, up to a timeout.
extension RepositoryState {
  func ask(
    _ kind: SessionRequest.Kind, _ mark: SessionMark? = nil,
    answer: @escaping Answer<Result<SessionReply, AuthError>>
  ) {
    let request = SessionRequest(
      number: lastSession + 1, kind: kind, token: session.token, mark: mark ?? session.mark(),
      answer: answer)
    if isLate(request) { return failLate(request) }
    if answerAtOnce(request) { return }
    guard isOnlineWanted else {
      return fail(
        request,
        AuthError(.networkError, "there is no connection; \(reasonForNoConnection)"))
    }
    connectIfWanted()
    lastSession += 1
    if phase.isReady { return send(request) }
    sessionRequests.append(request)
    owner?.after(options.requestMilliseconds) { state in
      guard
        let index = state.sessionRequests.firstIndex(where: { $0.number == request.number })
      else { return }
      state.sessionRequests.remove(at: index)
      state.fail(
        request,
        AuthError(
          .networkError,
          "the server at \(state.endpoint.text)\(state.endpoint.querySuffix) could not be reached; "
            + state.reasonForNoConnection))
    }
  }

  /// Answers a request that needs no server.
  ///
  /// - Returns: whether the request needs no server.
  private func answerAtOnce(_ request: SessionRequest) -> Bool {
    let user = session.user
    switch request.kind {
    case _ where user == nil && request.kind.needsAccount:
      fail(request, AuthError(.nullUser, "nobody is signed in; sign in first"))
    case .signUp(_, password: "", _), .credentials(_, password: ""), .link(_, password: ""):
      fail(request, AuthError(.weakPassword, "a password is missing"))
    case .signUp(email: "", _, _):
      fail(request, AuthError(.missingEmail, "an e-mail address is missing"))
    case .logIn(_, password: ""):
      fail(request, .wrongCredentials)
    case .signUpAnonymously where user?.isAnonymous == true:
      request.succeed(user, self, isNewUser: false)
    case .reload where user?.isAdministrator == true: request.succeed(user, self)
    case .link where user?.email != nil:
      fail(request, AuthError(.providerAlreadyLinked, "the user has an e-mail address already"))
    case .idToken where user?.isAdministrator == true:
      request.succeed(text: session.token ?? "", self)
    case _ where user?.isAdministrator == true && request.kind.needsAccount:
      fail(request, AuthError(.operationNotAllowed, "the administrator has no account"))
    case .idToken(isForced: false):
      guard let token = validIdentityToken else { return false }
      request.succeed(text: token.text, self)
    default: return false
    }
    return true
  }

  func send(_ request: SessionRequest) {
    if isLate(request) { return failLate(request) }
    guard !endpoint.isRealtime else { return sendIdentity(request) }
    // The server applies a line to the user of the connection. So wait until the sign-in under way has named that user.
    if request.kind.needsAccount, isSigningIn { return heldRequests.append(request) }
    var line = JSONOutput()
    guard line.append(session: request.kind) else {
      return fail(
        request,
        AuthError(.operationNotAllowed, "the line protocol has no pictures; use an http URL"))
    }
    let bytes = line.bytes
    let isSent = send(.session(request)) { output in bytes.withUnsafeBytes { output.append($0) } }
    if !isSent { fail(request, AuthError(.invalidArgument, "that is longer than a line may be")) }
  }

  func take(_ answer: Result<[UInt8], WireError>, of request: SessionRequest) {
    defer { sendHeldRequests() }
    switch answer {
    case .failure(let error): fail(request, AuthError(error, of: request.kind))
    case .success(let json):
      switch request.kind {
      case .delete: takeDeletion(request)
      case _ where isLate(request): finishLate(request)
      case .logOut, .forgotPassword, .sendVerification: request.succeed(session.user, self)
      case .rename(let name):
        setSession(session.user?.named(name), token: session.token)
        request.succeed(session.user, self)
      case .reload: reload(json, request)
      case .resetPassword, .verifyEmail:
        guard let email = try? members(json, { $0.text("email") }) else {
          return fail(request, .unreadable)
        }
        request.succeed(text: email, self)
      case .idToken: takeIdentity(json, request)
      case .token where endpoint.isRealtime: beginSession(json, request)
      default: begin(json, request)
      }
    }
  }

  private func reload(_ json: [UInt8], _ request: SessionRequest) {
    guard let user = account(json), user.identity == session.user?.identity else {
      return fail(request, .sessionEnded)
    }
    setSession(user, token: session.token)
    request.succeed(user, self)
  }

  /// Returns the user of a reply to ACCOUNT.
  private func account(_ json: [UInt8]) -> User? {
    try? members(json) { members in
      members.text("uid").map { uid in
        User(
          uid: uid, email: members.text("email"), displayName: members.text("username"),
          isAnonymous: members.text("provider") == "anonymous",
          isEmailVerified: members["verified"].map { $0.elementsEqual("true".utf8) } ?? false,
          details: UserDetails(
            createdAt: members.integer("createdAt"),
            hasPassword: members.text("provider") == "password"))
      }
    }
  }

  private func takeIdentity(_ json: [UInt8], _ request: SessionRequest) {
    let reply = try? members(json) { ($0.text("token"), $0.integer("expires")) }
    guard let (text, end) = reply, let text, let end, let stored = session.token else {
      return fail(request, .unreadable)
    }
    let left = max(0, end.subtractingReportingOverflow(clock.now).partialValue)
    keepIdentity(
      IdentityToken(
        text: text, refresh: stored, expiresAt: clock.local &+ min(left, 86_400_000)))
    request.succeed(text: text, self)
  }

  private func begin(_ json: [UInt8], _ request: SessionRequest) {
    var isAnonymous = false
    if case .signUpAnonymously = request.kind { isAnonymous = true }
    let reply = try? members(json) { members -> (User?, String?) in
      if members["administrator"] != nil {
        guard case .token(let token) = request.kind else { return (nil, nil) }
        return (.administrator, token)
      }
      guard let uid = members.text("uid"), let token = members.text("token") else {
        return (nil, nil)
      }
      let user = User(
        uid: uid, email: members.text("email"), displayName: members.text("username"),
        isAnonymous: isAnonymous)
      return (user, token)
    }
    guard let (user, token) = reply, let user, let token else {
      return fail(request, .unreadable)
    }
    guard setSession(user, token: token, by: request) else { return finishLate(request) }
    switch request.kind {
    case .token where !user.isAdministrator: readAccount(request)
    case let kind where kind.needsReading: readAccount(request)
    default: request.succeed(user, self)
    }
  }

  /// Reads the rest of the account, and answers with the user of a new session.
  ///
  /// - Parameter isNewUser: whether the request created the user; nil if that follows from its kind.
  func readAccount(_ request: SessionRequest, isNewUser: Bool? = nil) {
    let mark = session.mark()
    accountReadings.append(
      AccountReading(request: request, user: session.user, isNewUser: isNewUser))
    let reload = SessionRequest(
      number: request.number, kind: .reload, token: session.token, mark: mark
    ) { _, state in
      guard let index = state.accountReadings.firstIndex(where: { $0.isOf(request) }) else {
        return
      }
      var reading = state.accountReadings.remove(at: index)
      // The session has begun, whether or not the rest is known.
      if state.session.isSame(as: mark) { reading.user = state.session.user }
      reading.finish(state)
    }
    send(reload)
  }

  /// Answers the requests whose accounts are being read, because their session ends. The user of a
  /// sign-in was announced, so the sign-in has succeeded.
  func finishAccountReadings() {
    let readings = accountReadings
    accountReadings = []
    for reading in readings { reading.finish(self) }
  }

  /// Fails a request. Signs out if the error means that the server has ended the session.
  func fail(_ request: SessionRequest, _ error: AuthError) {
    // A refused confirmation may be about the account of another user.
    let isEnd =
      request.kind.isConfirmation
      ? error.code == .userTokenExpired : request.kind.needsSession && error.endsSession
    if isEnd, let token = request.token { endSession(token: token) }
    request.answer(.failure(error), self)
  }

  /// Clears the session after the server ended it.
  func endSession(token: String) {
    if session.token == token { setSession(nil, token: nil) }
  }

  /// Sets the signed-in user and notifies the listeners.
  func setSession(_ user: User?, token: String?) {
    sessionHasChanged(session.set(user, token: token))
  }

  /// Calls the listeners of a changed session and records the session.
  func sessionHasChanged(_ calls: [ApplicationCall]) {
    for each in calls { call(each) }
    recordSession()
  }
}

extension JSONOutput {
  /// Appends a request about the session in the line protocol, without its terminator.
  ///
  /// - Returns: false if the protocol has no such request; then nothing is appended.
  fileprivate mutating func append(session kind: SessionRequest.Kind) -> Bool {
    switch kind {
    case .picture: return false
    case .signUp(let email, let password, let username):
      append("SIGNUP", email, password, username)
    case .signUpAnonymously: append("ANONYMOUS")
    case .logIn(let email, let password): append("LOGIN", email, password)
    case .token(let token): append("AUTH", token)
    case .customToken(let token): append("CUSTOM", token)
    case .confirm(let email, let password): append("CONFIRM", email, password)
    case .rename(let name): append("RENAME", name)
    case .password(let current, let new): append("PASSWORD", current, new)
    case .credentials(let email, let password): append(email: email, password: password)
    case .link(let email, let password): append(email: email, password: password)
    case .delete: append("DELETEACCOUNT")
    case .idToken: append("IDTOKEN")
    case .forgotPassword(let email): append("FORGOT", email)
    case .resetPassword(let code, nil): append("RESET", code)
    case .resetPassword(let code, let new?): append("RESET", code, new)
    case .sendVerification: append("VERIFY")
    case .verifyEmail(let code): append("VERIFY", code)
    case .reload: append("ACCOUNT")
    case .logOut: append("LOGOUT")
    }
    return true
  }

  private mutating func append(email: String?, password: String?) {
    append("CREDENTIALS {")
    if let email {
      append("\"email\":")
      append(string: email)
      if password != nil { append(",") }
    }
    if let password {
      append("\"password\":")
      append(string: password)
    }
    append("}")
  }

  /// Appends a verb with texts as arguments.
  private mutating func append(_ verb: StaticString, _ arguments: String...) {
    append(verb)
    for argument in arguments {
      append(" ")
      append(string: argument)
    }
  }
}
