internal import CanopyTree

/// The ways in which the operations of ``Auth`` and ``User`` make requests.
extension Auth {
  /// Makes a request, and calls `answer` within the step of its outcome.
  ///
  /// - Parameter uid: the user who must be signed in; nil for any.
  func ask(
    _ kind: SessionRequest.Kind, of uid: String? = nil,
    answer: @escaping Answer<Result<SessionReply, AuthError>>
  ) {
    let problem = database.problem
    // In the order of the calls: a sign-out that follows takes effect before the request is made.
    let mark = repository.session.mark()
    repository.use { state in
      if let problem {
        answer(.failure(AuthError(.networkError, problem.sentence)), state)
      } else if let uid, state.session.user?.identity != ByteString(uid) {
        let error =
          state.session.user == nil
          ? AuthError(.nullUser, "nobody is signed in; sign in first")
          : AuthError(.userMismatch, "another user is signed in; use Auth.auth().currentUser")
        answer(.failure(error), state)
      } else {
        state.ask(kind, mark, answer: answer)
      }
    }
  }

  /// Makes a request and waits for its outcome.
  ///
  /// - Throws: `AuthError`; `CancellationError` if the task is cancelled, and the request goes on.
  func perform(_ kind: SessionRequest.Kind, of uid: String? = nil) async throws -> SessionReply {
    try await Waiter<SessionReply>.result { end in
      ask(kind, of: uid) { result, _ in end(result.mapError { $0 }) }
    }
  }

  /// Makes a request about the session and returns its user.
  ///
  /// - Throws: `AuthError`; `CancellationError` if the task is cancelled, and the request goes on.
  func signIn(_ kind: SessionRequest.Kind, of uid: String? = nil) async throws -> AuthDataResult {
    try Auth.result(try await perform(kind, of: uid), self).get()
  }

  /// Makes a request and reports its failure.
  func report(
    _ kind: SessionRequest.Kind, of uid: String? = nil, _ callback: Callback<(any Error)?>?
  ) {
    ask(kind, of: uid) { result, state in
      guard let callback else { return }
      switch result {
      case .success: state.call(callback, nil)
      case .failure(let error): state.call(callback, error)
      }
    }
  }

  /// Makes a request and reports the value of its reply.
  func report<Value: Sendable>(
    _ kind: SessionRequest.Kind, of uid: String? = nil,
    _ callback: Callback<(Value?, (any Error)?)>?,
    _ value: @escaping @Sendable (SessionReply, Auth) -> Result<Value, AuthError>
  ) {
    let auth = self
    ask(kind, of: uid) { result, state in
      guard let callback else { return }
      switch result.flatMap({ value($0, auth) }) {
      case .success(let value): state.call(callback, (value, nil))
      case .failure(let error): state.call(callback, (nil, error))
      }
    }
  }

  /// Returns the user of a reply.
  static func result(_ reply: SessionReply, _ auth: Auth) -> Result<AuthDataResult, AuthError> {
    reply.user.map {
      .success(AuthDataResult(user: $0.with(auth), additionalUserInfo: reply.information))
    }
      ?? .failure(AuthError(.nullUser, "nobody is signed in; sign in first"))
  }
}
