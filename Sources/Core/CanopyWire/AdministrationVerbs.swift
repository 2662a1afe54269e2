internal import CanopyTree

extension Command {
  /// The verbs about the server, for its administrator.
  static let administration: [Command] = data + rules + people + watch + clients

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
}

extension Arguments {
  fileprivate mutating func account() throws(WireError) -> AccountReference {
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

extension Options {
  fileprivate static func keysPage(_ arguments: inout Arguments) throws(WireError) -> KeysPage {
    var page = KeysPage()
    guard let options = try read(&arguments, "KEYS", allowed: ["after", "limit"]) else {
      return page
    }
    page.limit = try limit(options, default: page.limit, max: KeysPage.limitMax)
    page.after = try text("after", options).map { text throws(WireError) in
      try key(text, "after")
    }
    return page
  }

  fileprivate static func usersPage(_ arguments: inout Arguments) throws(WireError) -> UsersPage {
    var page = UsersPage()
    guard let options = try read(&arguments, "USERS", allowed: ["after", "find", "limit"]) else {
      return page
    }
    page.limit = try limit(options, default: page.limit, max: UsersPage.limitMax)
    page.after = try text("after", options)
    page.find = try text("find", options)
    guard page.find?.isEmpty != true else {
      throw WireError(.badRequest, "find must have at least one character")
    }
    guard page.after == nil || page.find == nil else {
      throw WireError(.badRequest, "after and find exclude each other; find has one page")
    }
    return page
  }

  fileprivate static func logPage(_ arguments: inout Arguments) throws(WireError) -> LogPage {
    var page = LogPage()
    guard let options = try read(&arguments, "LOG", allowed: ["after", "level", "limit"]) else {
      return page
    }
    page.limit = try limit(options, default: page.limit, max: LogPage.limitMax)
    page.after = try number("after", options)
    guard let name = try text("level", options) else { return page }
    guard let level = LogPage.Level(rawValue: name) else {
      let names = LogPage.Level.allCases.map(\.rawValue).joined(separator: ", ")
      throw WireError(.badRequest, "level must be one of \(names)")
    }
    page.level = level
    return page
  }

  fileprivate static func clientsPage(
    _ arguments: inout Arguments
  ) throws(WireError) -> (after: Int64, limit: Int) {
    guard let options = try read(&arguments, "CLIENTS", allowed: ["after", "limit"]) else {
      return (0, 100)
    }
    return (
      try number("after", options) ?? 0, try limit(options, default: 100, max: 1_000)
    )
  }

  /// Reads options that have nothing but a limit.
  fileprivate static func limit(
    _ arguments: inout Arguments, _ verb: String, default number: Int, max: Int
  ) throws(WireError) -> Int {
    guard let options = try read(&arguments, verb, allowed: ["limit"]) else { return number }
    return try limit(options, default: number, max: max)
  }

  private static func limit(
    _ options: JSONValue, default number: Int, max: Int
  ) throws(WireError) -> Int {
    guard let limit = try limit(options) else { return number }
    guard limit >= 1, limit <= max else {
      throw WireError(.badRequest, "limit must be an integer from 1 to \(max)")
    }
    return Int(limit)
  }

  private static func text(_ name: String, _ options: JSONValue) throws(WireError) -> String? {
    guard let value = options[name] else { return nil }
    guard let text = value.string else {
      throw WireError(.badRequest, "\(name) must be a string")
    }
    return text
  }

  private static func number(_ name: String, _ options: JSONValue) throws(WireError) -> Int64? {
    guard let value = options[name] else { return nil }
    guard case .leaf(let node) = value, let number = node.integerValue, number >= 0 else {
      throw WireError(.badRequest, "\(name) must be an integer from 0 on")
    }
    return number
  }
}
