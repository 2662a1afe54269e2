internal import CanopyTree

extension Command {
  /// The verbs about an account and its credentials, besides sign-up, login and `PASSWORD`.
  static let account: [Command] = [
    Command(
      "ACCOUNT", .session, [], "the account of this connection, read again",
      reply:
        #"`{"uid":…,"username":…,"email":…,"provider":"password","verified":false,"createdAt":…}`; "#
        + "the provider is `password`, `custom` or `anonymous`"
    ) { _ in .account(.account) },
    Command(
      "ANONYMOUS", .session, [], "create an account without credentials and log in",
      reply: "as SIGNUP, with an empty user name and address"
    ) { _ in .account(.signUpAnonymously) },
    Command(
      "CUSTOM", .session, ["token"], "log in with a custom token of the administrator",
      reply: "as SIGNUP"
    ) { arguments throws(WireError) in
      .account(.logInCustom(token: try arguments.text("token")))
    },
    Command(
      "ISSUE", .session, ["uid"], optional: ["claims"],
      "a custom token for a user, valid for an hour or until the user's logins end; for the administrator",
      reply: #"`{"token":…}`"#
    ) { arguments throws(WireError) in
      let uid = try arguments.text("uid")
      return .account(.issueCustomToken(uid: uid, claims: try arguments.claims()))
    },
    Command(
      "CONFIRM", .session, ["email", "password"], "prove your password again, as a recent login",
      reply: "as LOGIN, with a new token"
    ) { arguments throws(WireError) in
      .account(
        .confirm(email: try arguments.text("email"), password: try arguments.text("password")))
    },
    Command(
      "CREDENTIALS", .session, [#"{"email":…,"password":…}"#],
      "after a recent login, set the address, the password or both",
      reply: "as LOGIN, with a new token; if it replaces credentials, all other tokens are revoked"
    ) { arguments throws(WireError) in .account(try Options.credentials(&arguments)) },
    Command(
      "DELETEACCOUNT", .session, [], optional: ["options"],
      "after a recent login, delete your account; on request with your posts, comments, stars and name",
      reply: "`null`"
    ) { arguments throws(WireError) in
      .account(.deleteAccount(withPosts: try Options.withPosts(&arguments, "DELETEACCOUNT")))
    },
    Command(
      "EXPORT", .session, [], optional: ["user", "options"],
      "your account, posts, comments and stars, or for the administrator those of a user, in pages",
      reply:
        #"`{"account":{…},"posts":[…],"comments":[…],"stars":[…],"after":…}`; only the first page has `account`, "#
        + "and `after` is null at the end"
    ) { arguments throws(WireError) in
      guard arguments.hasNext, !arguments.nextIsObject else {
        return .account(.export(try Options.exportPage(&arguments)))
      }
      let user = try arguments.account()
      return .administration(.export(of: user, try Options.exportPage(&arguments)))
    },
    Command(
      "IDTOKEN", .session, [], "an identity token for the HTTP interface and other servers",
      reply: #"`{"token":…,"expires":…}`"#
    ) { _ in .account(.identityToken) },
    Command(
      "FORGOT", .session, ["email"], "have the administrator send a code for a new password",
      reply: "`null`, also for an address without an account"
    ) { arguments throws(WireError) in
      .account(.forgotPassword(email: try arguments.text("email")))
    },
    Command(
      "RESET", .session, ["code"], optional: ["new"],
      "check a code of FORGOT, or set a new password with it",
      reply: #"`{"email":…}`"#
    ) { arguments throws(WireError) in
      .account(
        .resetPassword(
          code: try arguments.text("code"),
          new: arguments.hasNext ? try arguments.text("new") : nil))
    },
    Command(
      "VERIFY", .session, [], optional: ["code"],
      "have a code for your address sent, or prove with it that the address is yours",
      reply: #"`null`; with a code `{"email":…}`"#
    ) { arguments throws(WireError) in
      .account(.verifyEmail(code: arguments.hasNext ? try arguments.text("code") : nil))
    },
  ]
}

extension Arguments {
  /// Consumes the last argument, a JSON object, and returns its text; `{}` if there is none.
  fileprivate mutating func claims() throws(WireError) -> String {
    guard hasNext else { return "{}" }
    guard nextIsObject else {
      throw WireError(.badRequest, "the claims of ISSUE must be a JSON object")
    }
    return try json("ISSUE") { bytes, limits throws(TreeError) in
      _ = try JSONValue(json: bytes, limits: limits)
      return String(decoding: bytes, as: UTF8.self)
    }
  }
}

extension AccountRequest {
  /// The verb of the request.
  var verb: Verb {
    switch self {
    case .signUp: .signUp
    case .logIn: .logIn
    case .authenticate: .authenticate
    case .redeemPass: .redeem
    case .logOut: .logOut
    case .changePassword: .password
    case .account: .account
    case .signUpAnonymously: .anonymous
    case .logInCustom: .custom
    case .issueCustomToken: .issue
    case .confirm: .confirm
    case .changeCredentials: .credentials
    case .deleteAccount: .deleteAccount
    case .export: .export
    case .identityToken: .identityToken
    case .forgotPassword: .forgot
    case .resetPassword: .reset
    case .verifyEmail: .verify
    }
  }
}

extension Verb {
  fileprivate static let signUp = Verb("SIGNUP")
  fileprivate static let logIn = Verb("LOGIN")
  fileprivate static let authenticate = Verb("AUTH")
  fileprivate static let redeem = Verb("REDEEM")
  fileprivate static let logOut = Verb("LOGOUT")
  fileprivate static let password = Verb("PASSWORD")
  fileprivate static let account = Verb("ACCOUNT")
  fileprivate static let anonymous = Verb("ANONYMOUS")
  fileprivate static let custom = Verb("CUSTOM")
  fileprivate static let issue = Verb("ISSUE")
  fileprivate static let confirm = Verb("CONFIRM")
  fileprivate static let credentials = Verb("CREDENTIALS")
  fileprivate static let deleteAccount = Verb("DELETEACCOUNT")
  static let export = Verb("EXPORT")
  fileprivate static let identityToken = Verb("IDTOKEN")
  fileprivate static let forgot = Verb("FORGOT")
  fileprivate static let reset = Verb("RESET")
  fileprivate static let verify = Verb("VERIFY")
}
