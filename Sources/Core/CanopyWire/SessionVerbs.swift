extension Command {
  /// The verbs about the connection and the account.
  static let session: [Command] = [
    Command(
      "HELLO", .session, [], "the version and limits of the server",
      reply: #"`{"server":"canopy","version":…,"protocol":1,"time":…,"limits":{…}}`"#
    ) { _ in .read(.hello) },
    Command(
      "PING", .session, [], "check the connection",
      reply: #"`"PONG"`"#
    ) { _ in .read(.ping) },
    Command(
      "HELP", .session, [], optional: ["verb"], "the verbs with their arguments",
      reply: #"usages with their summaries, by group; for one verb `{"usage":…,"summary":…}`"#
    ) {
      arguments throws(WireError) in
      .read(.help(verb: arguments.hasNext ? try arguments.text("verb") : nil))
    },
    Command(
      "SIGNUP", .session, ["email", "password", "username"], "create an account and log in",
      reply: #"`{"uid":…,"username":…,"email":…,"token":…,"expires":…}`"#
    ) { arguments throws(WireError) in
      .account(
        .signUp(
          email: try arguments.text("email"), password: try arguments.text("password"),
          username: try arguments.text("username")))
    },
    Command(
      "LOGIN", .session, ["email", "password"], "log in on this connection",
      reply: "as SIGNUP"
    ) {
      arguments throws(WireError) in
      .account(
        .logIn(email: try arguments.text("email"), password: try arguments.text("password")))
    },
    Command(
      "AUTH", .session, ["token"], "log in with the token of a session",
      reply: #"as SIGNUP; for the administrator's token `{"administrator":true}`"#
    ) {
      arguments throws(WireError) in
      .account(.authenticate(token: try arguments.text("token")))
    },
    Command(
      "REDEEM", .session, ["token"],
      "from this machine, log in as the administrator with a PASS or with the token of an earlier REDEEM",
      reply: #"`{"administrator":true,"token":…,"expires":…}`"#
    ) { arguments throws(WireError) in
      .account(.redeemPass(token: try arguments.text("token")))
    },
    Command(
      "WHOAMI", .session, [], "the user of this connection",
      reply: #"`{"uid":…,"username":…,"email":…}`, `{"administrator":true}` or `null`"#
    ) { _ in .read(.whoAmI) },
    Command(
      "LOGOUT", .session, [], "end the session and revoke its token",
      reply: "`null`"
    ) { _ in
      .account(.logOut)
    },
    Command(
      "PASSWORD", .session, ["current", "new"], "change it and revoke all other tokens",
      reply: "as LOGIN, with a new token"
    ) {
      arguments throws(WireError) in
      .account(
        .changePassword(current: try arguments.text("current"), new: try arguments.text("new")))
    },
    Command(
      "RENAME", .session, ["username"], "change your user name wherever it is shown",
      reply: "`null`"
    ) {
      arguments throws(WireError) in
      .write(.blog(.rename(username: try arguments.text("username"))))
    },
    Command(
      "USE", .session, ["namespace"], "select the database of the requests that follow",
      reply: "the name of the namespace"
    ) {
      arguments throws(WireError) in
      .connection(.use(try NamespaceName(try arguments.text("namespace"))))
    },
    Command(
      "QUIT", .session, [], "close the connection",
      reply: #"`"BYE"`"#
    ) { _ in .connection(.quit) },
  ]
}
