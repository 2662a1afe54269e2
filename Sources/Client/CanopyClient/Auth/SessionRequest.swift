/// A login, a sign-up, or another request about the session or the account.
struct SessionRequest: Sendable {
  enum Kind: Sendable {
    case signUp(email: String, password: String, username: String)
    case signUpAnonymously
    case logIn(email: String, password: String)
    /// Signs in with a token of the server's: of a session, or the administrator's.
    case token(String)
    case customToken(String)
    /// Proves the password of the signed-in user again.
    case confirm(email: String, password: String)
    case rename(String)
    /// Sets the picture, and the name unless it is nil. An empty picture stands for none.
    case picture(String, name: String?)
    case reload
    case password(current: String, new: String)
    /// Sets the e-mail address, the password or both; nil keeps one.
    case credentials(email: String?, password: String?)
    /// Adds the first credentials.
    case link(email: String, password: String)
    case delete
    case idToken(isForced: Bool)
    case forgotPassword(email: String)
    /// Checks a code; sets the password if there is one.
    case resetPassword(code: String, new: String?)
    case sendVerification
    case verifyEmail(code: String)
    case logOut
  }

  var number: Int
  var kind: Kind
  /// The token of the session that the request is about; nil if there is none.
  var token: String?
  /// The session at the time of the call.
  var mark: SessionMark
  var answer: Answer<Result<SessionReply, AuthError>>
}

/// The outcome of a request about the session.
struct SessionReply: Sendable {
  /// The signed-in user.
  var user: User?
  /// The identity token or the e-mail address that the request asked for.
  var text = ""
  /// The circumstances of a sign-in.
  var information: AdditionalUserInfo?
}

/// A request that has begun or changed a session, while the rest of the account is being read.
struct AccountReading: Sendable {
  var request: SessionRequest
  /// The user of the session.
  var user: User?
  /// Whether the request created the user; nil if its kind decides.
  var isNewUser: Bool?

  func isOf(_ request: SessionRequest) -> Bool {
    self.request.mark.number == request.mark.number
  }

  /// Answers the request with the user.
  func finish(_ state: RepositoryState) {
    request.succeed(user, state, isNewUser: isNewUser)
  }
}

extension SessionRequest {
  /// Answers with the signed-in user.
  ///
  /// - Parameter isNewUser: whether the request created the user; nil if its kind decides.
  func succeed(_ user: User?, _ state: RepositoryState, isNewUser: Bool? = nil) {
    answer(
      .success(SessionReply(user: user, information: kind.information(isNewUser: isNewUser))), state
    )
  }

  /// Answers with a text.
  func succeed(text: String, _ state: RepositoryState) {
    answer(.success(SessionReply(user: state.session.user, text: text)), state)
  }
}

extension SessionRequest {
  /// The user of the request with the change that the server has made.
  var changedUser: User? {
    guard let user = mark.user else { return nil }
    switch kind {
    case .rename(let name): return user.named(name)
    case .picture(let url, let name):
      var details = user.details
      details.photoURL = url.isEmpty ? nil : url
      return (name.map { user.named($0) } ?? user).with(details)
    case .credentials(let email?, _), .link(let email, _):
      var details = user.details
      details.hasPassword = true
      return User(
        uid: user.uid, email: email, displayName: user.displayName, details: details)
    default: return user
    }
  }
}

extension SessionRequest.Kind {
  /// Whether the reply begins a session.
  var beginsSession: Bool {
    switch self {
    case .signUp, .signUpAnonymously, .logIn, .token, .customToken: true
    default: false
    }
  }

  /// Whether the server refuses the request long after the last sign-in.
  var needsRecentLogin: Bool {
    switch self {
    case .credentials, .link, .delete: true
    default: false
    }
  }

  /// Whether a server may lack what the request needs.
  var mayBeMissing: Bool {
    switch self {
    case .customToken, .idToken, .forgotPassword, .sendVerification: true
    default: needsRecentLogin
    }
  }

  /// Returns the circumstances of a sign-in of this kind; nil for another kind.
  ///
  /// - Parameter isNewUser: whether the request created the user; nil if the kind decides.
  func information(isNewUser: Bool?) -> AdditionalUserInfo? {
    switch self {
    case .signUp:
      AdditionalUserInfo(providerID: EmailAuthProvider.id, isNewUser: isNewUser ?? true)
    case .signUpAnonymously: AdditionalUserInfo(providerID: "", isNewUser: isNewUser ?? true)
    case .logIn, .confirm:
      AdditionalUserInfo(providerID: EmailAuthProvider.id, isNewUser: isNewUser ?? false)
    case .customToken: AdditionalUserInfo(providerID: "", isNewUser: isNewUser ?? false)
    default: nil
    }
  }

  /// Whether the reply lacks a part of the account, which another request reads.
  var needsReading: Bool {
    switch self {
    case .signUp, .signUpAnonymously, .logIn, .confirm, .customToken, .password, .credentials,
      .link:
      true
    default: false
    }
  }

  /// Whether the request needs a session, so that a refused one has ended.
  var needsSession: Bool {
    switch self {
    case .rename, .picture, .reload, .idToken, .sendVerification: true
    default: needsRecentLogin
    }
  }

  /// Whether the request is about the account of the signed-in user.
  var needsAccount: Bool {
    switch self {
    case .password, .confirm: true
    default: needsSession
    }
  }

  var isConfirmation: Bool {
    if case .confirm = self { true } else { false }
  }

  /// Whether the request signs in with a token that the server made.
  var isToken: Bool {
    if case .token = self { true } else { false }
  }
}
