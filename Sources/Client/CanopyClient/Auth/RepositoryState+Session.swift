internal import CanopyTree
internal import CanopyWire
internal import DequeModule

/// A login, a sign-up, or another request about the session.
struct SessionRequest: Sendable {
  enum Kind: Sendable {
    case signUp(email: String, password: String, username: String)
    case logIn(email: String, password: String)
    case token(String)
    case rename(String)
    case reload
    case password(current: String, new: String)
    case logOut
  }

  var number: Int
  var kind: Kind
  var answer: Answer<Result<User?, AuthError>>
}

/// The session of the connection. A request about it waits for a connection, up to a timeout.
extension RepositoryState {
  func ask(
    _ kind: SessionRequest.Kind, answer: @escaping Answer<Result<User?, AuthError>>
  ) {
    guard isOnlineWanted else {
      return answer(
        .failure(AuthError(.networkError, "the application went offline; call goOnline() first")),
        self)
    }
    connectIfWanted()
    lastSession += 1
    let request = SessionRequest(number: lastSession, kind: kind, answer: answer)
    if phase.isReady { return send(request) }
    sessionRequests.append(request)
    owner?.after(options.requestMilliseconds) { state in
      guard
        let index = state.sessionRequests.firstIndex(where: { $0.number == request.number })
      else { return }
      state.sessionRequests.remove(at: index)
      request.answer(
        .failure(
          AuthError(
            .networkError,
            "the server at \(state.endpoint.text) could not be reached; check that it runs")), state
      )
    }
  }

  func send(_ request: SessionRequest) {
    guard !endpoint.isRealtime else { return sendIdentity(request) }
    let isSent = send(.session(request)) { output in
      switch request.kind {
      case .signUp(let email, let password, let username):
        output.append("SIGNUP", email, password, username)
      case .logIn(let email, let password): output.append("LOGIN", email, password)
      case .token(let token): output.append("AUTH", token)
      case .rename(let name): output.append("RENAME", name)
      case .password(let current, let new): output.append("PASSWORD", current, new)
      case .reload: output.append("WHOAMI")
      case .logOut: output.append("LOGOUT")
      }
    }
    if !isSent { fail(request, AuthError(.invalidArgument, "that is longer than a line may be")) }
  }

  func take(_ answer: Result<[UInt8], WireError>, of request: SessionRequest) {
    switch answer {
    case .failure(let error): fail(request, AuthError(error, of: request.kind))
    case .success(let json):
      switch request.kind {
      case .logOut: request.answer(.success(nil), self)
      case .rename(let name):
        let user = session.user.map {
          User(uid: $0.uid, email: $0.email, displayName: name, isAdministrator: false)
        }
        setSession(user, token: session.token)
        request.answer(.success(user), self)
      case .reload: reload(json, request)
      case .token where endpoint.isRealtime: beginSession(json, request)
      default: begin(json, request)
      }
    }
  }

  private func reload(_ json: [UInt8], _ request: SessionRequest) {
    if session.user?.isAdministrator == true { return request.answer(.success(session.user), self) }
    let user = try? members(json) { members -> User? in
      guard let uid = members.text("uid") else { return nil }
      return User(
        uid: uid, email: members.text("email"), displayName: members.text("username"),
        isAdministrator: false)
    }
    guard let user, user.uid == session.user?.uid else {
      return fail(request, AuthError(.nullUser, "the session has ended; sign in again"))
    }
    setSession(user, token: session.token)
    request.answer(.success(user), self)
  }

  private func begin(_ json: [UInt8], _ request: SessionRequest) {
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
        isAdministrator: false)
      return (user, token)
    }
    guard let (user, token) = reply, let user, let token else {
      return fail(request, AuthError(.internalError, "the server's answer cannot be read"))
    }
    setSession(user, token: token)
    request.answer(.success(user), self)
  }

  func fail(_ request: SessionRequest, _ error: AuthError) {
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
  /// Appends a verb with texts as arguments.
  fileprivate mutating func append(_ verb: StaticString, _ arguments: String...) {
    append(verb)
    for argument in arguments {
      append(" ")
      append(string: argument)
    }
  }
}
