internal import CanopyTree

extension Command {
  /// The verbs about the server, for its administrator.
  static let administration: [Command] =
    data + rules + people + accounts + watch + clients + console + backup

  private static let data: [Command] = [
    Command(
      "KEYS", .administration, ["path"], optional: ["options"],
      "the children at a path without the values below them, in pages",
      reply:
        #"`{"count":2,"children":[{"key":…,"children":6},{"key":…,"value":…}],"more":false}`; a child is a "#
        + "branch with so many children, or has a value; `bytes` is the length of a string that is cut off"
    ) { arguments throws(WireError) in
      .read(.keys(try arguments.path(), try Options.keysPage(&arguments)))
    }
  ]

  private static let rules: [Command] = [
    Command(
      "RULES", .administration, [], optional: ["text"],
      "show the security rules, or replace them; built-in restores the default",
      reply: #"`{"builtIn":true,"text":…}`; after a replacement `{"seq":42}`"#
    ) { arguments throws(WireError) in
      guard arguments.hasNext else { return .read(.rules) }
      return .administration(.setRules(try arguments.rulesText("RULES")))
    },
    Command(
      "CHECKRULES", .administration, ["text"], "check rules without putting them in force",
      reply:
        #"`{"valid":false,"problems":[{"line":1,"column":20,"rule":…,"message":…}],"omitted":0}`"#
    ) { arguments throws(WireError) in
      .administration(.checkRules(try arguments.rulesText("CHECKRULES")))
    },
    Command(
      "EXPLAIN", .administration, ["who", "READ|SET|UPDATE|REMOVE", "path"], optional: ["json"],
      "the verdict of the rules on a request, and why; who: a user, an auth as JSON, or null",
      reply:
        #"`{"allowed":…,"reason":…,"steps":[…]}`; for READ also "#
        + #"`"query":{"order":…,"indexed":true,"declared":true,"children":9,"matches":3}`"#
    ) { arguments throws(WireError) in
      .administration(.explain(try arguments.explainRequest()))
    },
  ]

  private static let people: [Command] = [
    Command(
      "USERS", .administration, [], optional: ["options"],
      "the accounts by address, or those whose user name or address begins with a text",
      reply: #"`{"users":[…],"after":…}`, each as in USER; `after` is null at the end"#
    ) { arguments throws(WireError) in
      .administration(.users(try Options.usersPage(&arguments)))
    },
    Command(
      "USER", .administration, ["user"],
      "an account; user: a uid, @username or an e-mail address",
      reply:
        #"`{"uid":…,"username":…,"email":…,"provider":"password","verified":false,"disabled":false,"#
        + #""pending":false,"createdAt":…,"lastLoginAt":…}`"#
    ) { arguments throws(WireError) in .administration(.user(try arguments.account())) },
    Command(
      "DISABLE", .administration, ["user"], "disable an account and end its sessions",
      reply: "as USER"
    ) { arguments throws(WireError) in
      .administration(.setDisabled(true, try arguments.account()))
    },
    Command(
      "ENABLE", .administration, ["user"], "enable a disabled account",
      reply: "as USER"
    ) { arguments throws(WireError) in
      .administration(.setDisabled(false, try arguments.account()))
    },
    Command(
      "SETPASSWORD", .administration, ["user", "new"],
      "set the password of an account and end its sessions",
      reply: "as USER"
    ) { arguments throws(WireError) in
      let account = try arguments.account()
      return .administration(.setPassword(try arguments.text("new"), of: account))
    },
    Command(
      "SESSIONS", .administration, ["user"], optional: ["options"],
      "the sessions of an account, newest first",
      reply: #"`[{"begun":…,"expires":…,"custom":false,"connections":1}]`"#
    ) { arguments throws(WireError) in
      let account = try arguments.account()
      let limit = try Options.limit(&arguments, "SESSIONS", default: 100, max: 100)
      return .administration(.sessions(of: account, limit: limit))
    },
    Command(
      "ENDSESSIONS", .administration, ["user"], "end all sessions of an account",
      reply: "as USER"
    ) { arguments throws(WireError) in
      .administration(.endSessions(of: try arguments.account()))
    },
  ]

  private static let accounts: [Command] = [
    Command(
      "ADDUSER", .administration, ["email", "password", "username"], "create an account",
      reply: "as USER"
    ) { arguments throws(WireError) in
      .administration(
        .addUser(
          email: try arguments.text("email"), password: try arguments.text("password"),
          username: try arguments.text("username")))
    },
    Command(
      "RESETCODE", .administration, ["user"],
      "make a code with which the user sets a new password by RESET, once and within an hour",
      reply: #"`{"uid":…,"email":…,"code":…,"expires":…}`"#
    ) { arguments throws(WireError) in
      .administration(.makeResetCode(of: try arguments.account()))
    },
    Command(
      "DELETEUSER", .administration, ["user"], optional: ["options"],
      "delete an account and end its sessions; on request with its posts, comments, stars and name",
      reply:
        #"`{"uid":…,"erasing":false}`; `erasing` is true while posts and so on are being removed"#
    ) { arguments throws(WireError) in
      let account = try arguments.account()
      let withPosts = try Options.withPosts(&arguments, "DELETEUSER")
      return .administration(.deleteUser(account, withPosts: withPosts))
    },
  ]

  private static let watch: [Command] = [
    Command(
      "METRICS", .administration, [], "the numbers of the metrics",
      reply:
        #"`{"time":…,"metrics":{"canopy_commits_total":{"type":"counter","series":[{"labels":{},"value":42}]}}}`"#
    ) { _ in .administration(.metrics) },
    Command(
      "LOG", .administration, [], optional: ["options"], "the last lines of the server's log",
      reply:
        #"`{"lines":[{"number":7,"time":…,"level":"notice","message":…,"metadata":{…}}],"last":7}`"#
    ) { arguments throws(WireError) in .administration(.log(try Options.logPage(&arguments))) },
    Command(
      "LOGLEVEL", .administration, [], optional: ["level"],
      "the lowest level that is logged; with a level, set it until the server ends",
      reply: #"`{"level":"info"}`"#
    ) { arguments throws(WireError) in
      guard arguments.hasNext else { return .administration(.logLevel(nil)) }
      return .administration(.logLevel(try LogPage.Level(option: try arguments.text("level"))))
    },
  ]

  private static let clients: [Command] = [
    Command(
      "CLIENTS", .administration, [], optional: ["options"],
      "the open connections of all protocols, in the order in which they began",
      reply:
        #"`{"clients":[{"id":17,"protocol":"line","address":…,"user":…,"since":…,"namespace":"default","#
        + #""bytes":2048,"requests":0,"subscriptions":2,"armed":1,"self":true}],"more":false,"unanswered":0}`"#
    ) { arguments throws(WireError) in
      let (after, limit) = try Options.clientsPage(&arguments)
      return .administration(.clients(after: after, limit: limit))
    },
    Command(
      "CLIENT", .administration, ["id"], optional: ["options"],
      "a connection with its subscriptions and the paths of its on-disconnect writes",
      reply:
        #"as in CLIENTS, with `"listens":[{"sub":1,"path":…,"query":{},"events":"child"}]` and "#
        + #"`"onDisconnect":[…]`"#
    ) { arguments throws(WireError) in
      let id = try arguments.number("id")
      let limit = try Options.limit(&arguments, "CLIENT", default: 100, max: 1_000)
      return .administration(.client(id, limit: limit))
    },
    Command(
      "ENDCLIENT", .administration, ["id"], "end a connection; its on-disconnect writes are made",
      reply: "`null`"
    ) { arguments throws(WireError) in .administration(.endClient(try arguments.number("id"))) },
  ]

  private static let console: [Command] = [
    Command(
      "NAMESPACES", .administration, [],
      "the databases of the server, and the last commit of the selected one",
      reply: #"`{"selected":"default","seq":42,"names":["default",…]}`"#
    ) { _ in .administration(.namespaces) },
    Command(
      "PASS", .administration, [], "a token for one REDEEM within five minutes",
      reply:
        #"`{"token":…,"expires":…,"console":…}`, with the address of the console, or null without an HTTP port"#
    ) { _ in .administration(.makePass) },
    Command(
      "ENDPASS", .administration, ["token"],
      "revoke a PASS, or the token of a REDEEM; other connections with it end",
      reply: "`true`, or `false` for another text"
    ) { arguments throws(WireError) in .administration(.endPass(try arguments.text("token"))) },
  ]
}

extension Command {
  private static let backup: [Command] = [
    Command(
      "BACKUP", .administration, [],
      "make a backup of all namespaces in the folder backups of the data folder",
      reply:
        #"when it is complete, `{"file":"requested-20261127T192826Z-42.tar","bytes":…,"seq":42,"time":…}`"#
    ) { _ in .administration(.makeBackup) },
    Command(
      "BACKUPS", .administration, [],
      "the stored backups, the newest first, and the progress of the present one",
      reply:
        #"`{"running":{"namespace":"default","bytes":…,"of":…},"failure":null,"failures":0,"every":86400,"kept":7,"#
        + #""backups":[…],"more":false}`, each as in BACKUP; `running` is null if no backup is being made"#
    ) { _ in .administration(.listBackups) },
  ]
}

extension AdministrationRequest {
  /// The verb of the request.
  var verb: Verb {
    switch self {
    case .setRules: .rules
    case .checkRules: .checkRules
    case .explain: .explain
    case .users: .users
    case .user: .user
    case .setDisabled(true, _): .disable
    case .setDisabled(false, _): .enable
    case .setPassword: .setPassword
    case .sessions: .sessions
    case .endSessions: .endSessions
    case .addUser: .addUser
    case .makeResetCode: .resetCode
    case .deleteUser: .deleteUser
    case .export: .export
    case .clients: .clients
    case .client: .client
    case .endClient: .endClient
    case .metrics: .metrics
    case .log: .log
    case .logLevel: .logLevel
    case .namespaces: .namespaces
    case .makePass: .pass
    case .endPass: .endPass
    case .makeBackup: .backup
    case .listBackups: .backups
    }
  }
}

extension Verb {
  static let keys = Verb("KEYS")
  static let rules = Verb("RULES")
  fileprivate static let checkRules = Verb("CHECKRULES")
  fileprivate static let explain = Verb("EXPLAIN")
  fileprivate static let users = Verb("USERS")
  fileprivate static let user = Verb("USER")
  fileprivate static let disable = Verb("DISABLE")
  fileprivate static let enable = Verb("ENABLE")
  fileprivate static let setPassword = Verb("SETPASSWORD")
  fileprivate static let sessions = Verb("SESSIONS")
  fileprivate static let endSessions = Verb("ENDSESSIONS")
  fileprivate static let addUser = Verb("ADDUSER")
  fileprivate static let resetCode = Verb("RESETCODE")
  fileprivate static let deleteUser = Verb("DELETEUSER")
  fileprivate static let clients = Verb("CLIENTS")
  fileprivate static let client = Verb("CLIENT")
  fileprivate static let endClient = Verb("ENDCLIENT")
  fileprivate static let metrics = Verb("METRICS")
  fileprivate static let log = Verb("LOG")
  fileprivate static let logLevel = Verb("LOGLEVEL")
  fileprivate static let namespaces = Verb("NAMESPACES")
  fileprivate static let pass = Verb("PASS")
  fileprivate static let endPass = Verb("ENDPASS")
  fileprivate static let backup = Verb("BACKUP")
  fileprivate static let backups = Verb("BACKUPS")
}

extension Arguments {
  mutating func account() throws(WireError) -> AccountReference {
    AccountReference(try text("user"))
  }

  /// Consumes the next argument, an integer.
  fileprivate mutating func number(_ name: String) throws(WireError) -> Int64 {
    guard let number = Int64(try text(name)) else {
      throw WireError(.badRequest, "\(name) must be an integer")
    }
    return number
  }
}
