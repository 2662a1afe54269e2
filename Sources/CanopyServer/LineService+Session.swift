internal import CanopyAccounts
internal import CanopyEngine
internal import CanopySocial
internal import CanopyTree
internal import CanopyWire
internal import Logging

extension LineService {
  /// Carries out a request that changes who the connection is, or that takes its time.
  ///
  /// - Parameters:
  ///   - address: whence the connection comes, for the limit on sign-ups.
  ///   - armed: the connection's on-disconnect writes.
  func exclusive(
    _ request: Request, as identity: Identity, from address: String, _ armed: [ArmedWrite]
  ) async -> Response {
    do {
      if case .onDisconnect(let request, let text) = request {
        var response = Response.null
        response.armed = try await arm(request, text: text, as: identity, armed)
        return response
      }
      return try await perform(request, as: identity, from: address)
    } catch let error as WireError {
      return Response(error)
    } catch {
      return Response(sessionError(error))
    }
  }

  private func perform(
    _ request: Request, as identity: Identity, from address: String
  ) async throws -> Response {
    switch request {
    case .signUp(let email, let password, let username):
      return try await signUp(email: email, password: password, username: username, from: address)
    case .logIn(let email, let password):
      return try await begin { try await accounts.logIn(email: email, password: password) }
    case .authenticate(let token):
      if administratorToken.matches(token) {
        logger.notice("the administrator has logged in", metadata: ["from": "\(address)"])
        return Response(identity: .administrator) { $0.append("{\"administrator\":true}") }
      }
      return try await begin { try await accounts.authenticate(token) }
    case .logOut:
      if case .user(let session) = identity {
        try await accounts.logOut(session.token)
        judgeAnew(sessions.revoke(session.uid, token: session.token))
      }
      return Response(identity: .anonymous) { $0.append("null") }
    case .changePassword(let current, let new):
      let uid = try caller(identity)
      return try await begin {
        do {
          let session = try await accounts.changePassword(
            uid: uid.text, current: current, new: new)
          // This connection's own are judged when it has the new session.
          judgeAnew(sessions.revokeAll(uid).filter { $0 !== identity.session })
          return session
        } catch {
          // The store may have taken the new password before it failed, and ended all sessions.
          if !(error is AccountError) { judgeAnew(sessions.revokeAll(uid)) }
          throw error
        }
      }
    case .quit:
      var response = Response { $0.append("\"BYE\"") }
      response.closes = true
      return response
    case .setRules(let text):
      try requireAdministrator(identity)
      return try await setRules(text)
    case .explain(let request):
      try requireAdministrator(identity)
      return try await explain(request)
    case .get(let location, let options):
      await keepIndex(options.query, at: location.path, as: identity)
      return await answerAfterNotifying(.get(location, options), as: identity)
    case .compareAndSet, .once:
      return await withCheckedContinuation { continuation in
        write(request, as: identity) { continuation.resume(returning: $0) }
      }
    case .count(let path, let query):
      await keepIndex(query, at: path, as: identity)
      return await answerAfterNotifying(.count(path, query), as: identity)
    default:
      throw WireError(.internalError, "the request is not one of a session")
    }
  }

  /// Reads now, and replies after all events up to the tree that was read were sent.
  private func answerAfterNotifying(_ request: Request, as identity: Identity) async -> Response {
    var output = JSONOutput()
    read(request, as: identity, nil, to: &output)
    await withCheckedContinuation { continuation in engine.whenTold { continuation.resume() } }
    return Response(line: output.bytes)
  }

  /// Has listeners judged anew whose sessions have ended.
  func judgeAnew(_ sessions: [UserSession]) {
    for session in sessions { engine.judgeAnew(ObjectIdentifier(session)) }
  }

  /// Has an index made for the administrator. For all others it is the rules that declare indexes.
  private func keepIndex(_ query: Query, at path: Path, as identity: Identity) async {
    guard case .administrator = identity else { return }
    // Few children are sorted faster than an index of them is kept.
    let node = engine.root.at(path)
    if node.childCount > 256, !query.isIndexed(in: node) {
      await engine.keepIndex(query.order, at: path)
    }
  }

  private func signUp(
    email: String, password: String, username: String, from address: String
  ) async throws -> Response {
    try Texts.checkUsername(username)
    return try await begin {
      try await accounts.signUp(
        email: email, password: password, username: username, from: address
      ) { [engine] uid in
        do {
          _ = try await engine.transact(Users.claim(username, for: try Key(uid)))
        } catch SocialError.conflict {
          // The same answer as for an address that is taken: see `AccountError.taken`.
          throw AccountError.taken
        } catch EngineError.outcomeUnknown {
          throw UncertainClaim(EngineError.outcomeUnknown)
        }
      }
    }
  }

  /// Makes the session that `open` opens the connection's.
  private func begin(_ open: () async throws -> Session) async throws -> Response {
    let revocations = sessions.revocations
    let session = try await open()
    let user = UserSession(
      uid: try Key(session.uid), email: session.email, token: session.token,
      expiresAt: session.expiresAt)
    sessions.add(user)
    if sessions.revocations != revocations {
      // It may have been this token that was revoked, before the registry knew of its login.
      do { _ = try await accounts.authenticate(user.token) } catch {
        sessions.remove(user)
        throw error
      }
    }
    let name = Users.username(of: user.uid, in: engine.root) ?? ""
    return Response(identity: .user(user)) { output in
      output.append("{\"uid\":")
      output.append(key: user.uid)
      output.append(",\"username\":")
      output.append(string: name)
      output.append(",\"email\":")
      output.append(string: session.email)
      output.append(",\"token\":")
      output.append(string: session.token)
      output.append(",\"expires\":")
      output.append(session.expiresAt)
      output.append("}")
    }
  }

  /// The error for the wire; one that nobody declared comes from the store.
  private func sessionError(_ error: any Error) -> WireError {
    if let known = WireError(error) { return known }
    // A client that has gone ends what it asked for: that is no fault, and nobody reads the reply.
    if !Task.isCancelled {
      logger.error("the store failed", metadata: ["error": "\(error)"])
    }
    return WireError(.unavailable, "the store cannot be read or written now; try again later")
  }

  /// The bounds that a client does well to know.
  private var bounds: KeyValuePairs<String, Int> {
    [
      "lineBytes": limits.lineBytesMax, "keyBytes": Limits.keyBytesMax, "depth": Limits.depthMax,
      "stringBytes": limits.stringBytesMax,
      "outstandingRequests": limits.outstandingRequestsMax, "replyBytes": limits.replyBytesMax,
      "listeners": limits.listenersMax, "queuedBytes": limits.queuedBytesMax,
      "clientWrites": Limits.clientWritesMax,
      "disconnectWrites": limits.disconnectWritesMax, "disconnectBytes": limits.disconnectBytesMax,
      "titleCharacters": Texts.titleMax, "bodyCharacters": Texts.bodyMax,
      "commentCharacters": Texts.commentMax, "usernameCharacters": Texts.usernameMax,
      "page": Feeds.Page.limitMax,
    ]
  }

  func hello(to output: inout JSONOutput) {
    Reply.success(to: &output) { output in
      output.append("{\"server\":\"canopy\",\"version\":")
      output.append(string: version)
      output.append(",\"protocol\":1,\"time\":")
      output.append(now())
      output.append(",\"limits\":{")
      for (i, (name, bound)) in bounds.enumerated() {
        if i > 0 { output.append(",") }
        output.append(string: name)
        output.append(":")
        output.append(Int64(bound))
      }
      output.append("}}")
    }
  }

  func help(_ verb: String?, to output: inout JSONOutput) throws {
    if let verb {
      guard let command = Request.command(verb) else {
        throw WireError(.unknownVerb, "there is no such verb; HELP lists them")
      }
      return Reply.success(to: &output) { output in
        output.append("{\"usage\":")
        output.append(string: command.usage)
        output.append(",\"summary\":")
        output.append(string: command.summary)
        output.append("}")
      }
    }
    Reply.success(to: &output) { output in
      output.append("{")
      for (i, group) in Command.Group.allCases.enumerated() {
        if i > 0 { output.append(",") }
        output.append(string: group.rawValue)
        output.append(":{")
        for (j, command) in Command.all.filter({ $0.group == group }).enumerated() {
          if j > 0 { output.append(",") }
          output.append(string: command.usage)
          output.append(":")
          output.append(string: command.summary)
        }
        output.append("}")
      }
      output.append("}")
    }
  }

  func whoAmI(_ identity: Identity, to output: inout JSONOutput) {
    Reply.success(to: &output) { output in
      switch identity {
      case .administrator: output.append("{\"administrator\":true}")
      case .user(let session) where session.isValid(at: now()):
        output.append("{\"uid\":")
        output.append(key: session.uid)
        output.append(",\"username\":")
        output.append(string: Users.username(of: session.uid, in: engine.root) ?? "")
        output.append(",\"email\":")
        output.append(string: session.email)
        output.append("}")
      case .user, .anonymous: output.append("null")
      }
    }
  }
}
