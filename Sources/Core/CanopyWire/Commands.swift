internal import CanopyTree

extension Command {
  /// All verbs of the server, in the order of HELP.
  public static let all: [Command] = session + blog + tree

  private static let session: [Command] = [
    Command("HELLO", .session, [], "the version and limits of the server") { _ in .read(.hello) },
    Command("PING", .session, [], "check the connection") { _ in .read(.ping) },
    Command("HELP", .session, [], optional: ["verb"], "the verbs with their arguments") {
      arguments throws(WireError) in
      .read(.help(verb: arguments.hasNext ? try arguments.text("verb") : nil))
    },
    Command(
      "SIGNUP", .session, ["email", "password", "username"], "create an account and log in"
    ) { arguments throws(WireError) in
      .account(
        .signUp(
          email: try arguments.text("email"), password: try arguments.text("password"),
          username: try arguments.text("username")))
    },
    Command("LOGIN", .session, ["email", "password"], "log in on this connection") {
      arguments throws(WireError) in
      .account(
        .logIn(email: try arguments.text("email"), password: try arguments.text("password")))
    },
    Command("AUTH", .session, ["token"], "log in with the token of a session") {
      arguments throws(WireError) in
      .account(.authenticate(token: try arguments.text("token")))
    },
    Command("WHOAMI", .session, [], "the user of this connection") { _ in .read(.whoAmI) },
    Command("LOGOUT", .session, [], "end the session and revoke its token") { _ in
      .account(.logOut)
    },
    Command("PASSWORD", .session, ["current", "new"], "change it and revoke all other tokens") {
      arguments throws(WireError) in
      .account(
        .changePassword(current: try arguments.text("current"), new: try arguments.text("new")))
    },
    Command("RENAME", .session, ["username"], "change your user name wherever it is shown") {
      arguments throws(WireError) in
      .write(.rename(username: try arguments.text("username")))
    },
    Command("QUIT", .session, [], "close the connection") { _ in .connection(.quit) },
  ]

  private static let blog: [Command] = [
    Command("POST", .blog, ["title", "body"], "write a post") { arguments throws(WireError) in
      .write(.post(title: try arguments.text("title"), body: try arguments.text("body")))
    },
    Command("EDIT", .blog, ["id", "title", "body"], "change a post of yours") {
      arguments throws(WireError) in
      .write(
        .edit(
          id: try arguments.id("id"), title: try arguments.text("title"),
          body: try arguments.text("body")))
    },
    Command("DELETE", .blog, ["id"], "delete a post of yours and its comments") {
      arguments throws(WireError) in
      .write(.delete(id: try arguments.id("id")))
    },
    Command("SHOW", .blog, ["id"], "one post") { arguments throws(WireError) in
      .read(.show(id: try arguments.id("id")))
    },
    Command("STAR", .blog, ["id"], "star a post, or take your star back") {
      arguments throws(WireError) in
      .write(.star(id: try arguments.id("id")))
    },
    Command("COMMENT", .blog, ["id", "text"], "comment on a post") {
      arguments throws(WireError) in
      .write(.comment(id: try arguments.id("id"), text: try arguments.text("text")))
    },
    Command("UNCOMMENT", .blog, ["id", "commentId"], "delete a comment of yours or on your post") {
      arguments throws(WireError) in
      .write(.uncomment(id: try arguments.id("id"), comment: try arguments.id("commentId")))
    },
    Command("COMMENTS", .blog, ["id"], optional: ["page"], "comments on a post, newest first") {
      arguments throws(WireError) in
      .read(.comments(id: try arguments.id("id"), try Options.page(&arguments, "COMMENTS")))
    },
    Command("RECENT", .blog, [], optional: ["page"], "posts, newest first") {
      arguments throws(WireError) in
      .read(.recent(try Options.page(&arguments, "RECENT")))
    },
    Command("POSTS", .blog, ["user"], optional: ["page"], "a user's posts, newest first") {
      arguments throws(WireError) in
      .read(
        .posts(UserReference(try arguments.text("user")), try Options.page(&arguments, "POSTS")))
    },
    Command(
      "TOP", .blog, [], optional: ["user", "page"], "posts with the most stars first"
    ) { arguments throws(WireError) in
      var user: UserReference?
      if arguments.hasNext, !arguments.nextIsObject {
        user = UserReference(try arguments.text("user"))
      }
      let page = try Options.page(&arguments, "TOP")
      guard !arguments.hasNext else {
        throw WireError(.badRequest, "usage: TOP [user] [page]")
      }
      return .read(.top(user, page))
    },
    Command("PROFILE", .blog, ["user"], "a user: a uid, @username or me") {
      arguments throws(WireError) in
      .read(.profile(UserReference(try arguments.text("user"))))
    },
    Command(
      "WATCH", .blog, ["RECENT|POSTS|TOP|SHOW|COMMENTS"], optional: ["user|id", "options"],
      "a list or post, then its changes; options: limit (of a list), since"
    ) { arguments throws(WireError) in
      let target = try arguments.watchTarget()
      let options = try Options.watch(&arguments, isList: target.isList)
      guard !arguments.hasNext else { throw WatchTarget.usage }
      return .listen(.watch(target, options))
    },
  ]

  private static let tree: [Command] = [
    Command("GET", .tree, ["path"], optional: ["options"], "the value at a path") {
      arguments throws(WireError) in
      if let path = try arguments.infoPath() {
        guard !arguments.hasNext else {
          throw WireError(.badRequest, "a path below /.info takes no options")
        }
        return .read(.info(path))
      }
      return .read(.get(try arguments.location(), try Options.get(&arguments, "GET")))
    },
    Command("COUNT", .tree, ["path"], optional: ["options"], "the number of matching children") {
      arguments throws(WireError) in
      .read(.count(try arguments.path(), try Options.query(&arguments, "COUNT")))
    },
    Command("SET", .tree, ["path", "json"], "replace a value") {
      arguments throws(WireError) in
      .write(.tree(try arguments.set()))
    },
    Command("UPDATE", .tree, ["path", "{\"path\":json,…}"], "set several locations, all or none") {
      arguments throws(WireError) in
      .write(.tree(try arguments.update()))
    },
    Command("REMOVE", .tree, ["path"], "remove a value") {
      arguments throws(WireError) in
      .write(.tree(try arguments.remove()))
    },
    Command("PUSH", .tree, ["path", "json"], "add a child under a new key") {
      arguments throws(WireError) in
      .write(.push(try arguments.path(), try arguments.value("PUSH")))
    },
    Command("CAS", .tree, ["path", "etag", "json"], "replace a value if it still has the ETag") {
      arguments throws(WireError) in
      .write(.tree(try arguments.compareAndSet()))
    },
    Command(
      "ONCE", .tree, ["client", "number", "seen", "SET|UPDATE|REMOVE|CAS", "path"],
      optional: ["etag", "json"], "a write that may be sent again and is applied once"
    ) { arguments throws(WireError) in
      let origin = try arguments.origin()
      return .write(.once(origin, try arguments.write()))
    },
    Command(
      "LISTEN", .tree, ["path"], optional: ["options"],
      "a value, then its changes; options: those of a query, since, and events "
        + "(child, value or sync)"
    ) { arguments throws(WireError) in
      if let path = try arguments.infoPath() {
        let options = try Options.listen(&arguments, "LISTEN")
        guard options.query == .all, options.since == nil else {
          throw WireError(.badRequest, "a path below /.info takes no option but events")
        }
        return .listen(.info(path, options))
      }
      return .listen(
        .listen(try arguments.path(), try Options.listen(&arguments, "LISTEN")))
    },
    Command("UNLISTEN", .tree, ["sub"], "end a subscription, also one of WATCH") {
      arguments throws(WireError) in
      guard let number = Int64(try arguments.text("sub")), number > 0 else {
        throw WireError(.badRequest, "sub must be the number of a subscription")
      }
      return .listen(.unlisten(number))
    },
    Command(
      "ONDISCONNECT", .tree, ["SET|UPDATE|REMOVE|CANCEL", "path"], optional: ["json"],
      "register a write for the end of this connection"
    ) { arguments throws(WireError) in
      let text = arguments.restText
      return .connection(
        .onDisconnect(try arguments.disconnectRequest(), text: text))
    },
    Command(
      "RULES", .tree, [], optional: ["text"],
      "show the security rules, or replace them; built-in restores the default (administrator)"
    ) { arguments throws(WireError) in
      guard arguments.hasNext else { return .read(.rules) }
      return .administration(.setRules(try arguments.rulesText()))
    },
    Command(
      "EXPLAIN", .tree, ["who", "READ|SET|UPDATE|REMOVE", "path"], optional: ["json"],
      "the verdict of the rules on a request, and why (administrator); who: a user, an auth as JSON, or "
        + "null"
    ) { arguments throws(WireError) in
      .administration(.explain(try arguments.explainRequest()))
    },
  ]
}

extension Arguments {
  /// Consumes the text of rules: a JSON string or a JSON object; nil for the word that stands for
  /// the built-in ones.
  fileprivate mutating func rulesText() throws(WireError) -> String? {
    if nextIsObject { return try takeText() }
    let isString = nextIsString
    let text = try text("text")
    if isString { return text }
    guard text.asciiLowercased == "built-in" else {
      throw WireError(
        .badRequest,
        "usage: RULES \"{\\\"rules\\\":{…}}\" (a JSON string, which may hold comments), "
          + "RULES {\"rules\":{…}}, or RULES built-in")
    }
    return nil
  }

  fileprivate mutating func explainRequest() throws(WireError) -> ExplainRequest {
    let caller = try explainCaller()
    let kind = try text("what to do").asciiUppercased
    let hasValue = count == 4
    switch kind {
    case "READ":
      return ExplainRequest(
        caller: caller, operation: .read(try path(), try Options.query(&self, "EXPLAIN … READ")))
    case "SET" where hasValue:
      return ExplainRequest(
        caller: caller, operation: .set(try location(), try value("EXPLAIN … SET")))
    case "UPDATE" where hasValue:
      return ExplainRequest(
        caller: caller, operation: .update(try path(), try updates("EXPLAIN … UPDATE")))
    case "REMOVE" where !hasValue:
      return ExplainRequest(caller: caller, operation: .set(try location(), WriteValue(.absent)))
    default:
      throw WireError(
        .badRequest,
        "usage: EXPLAIN who READ path [options], EXPLAIN who SET path json, EXPLAIN who UPDATE path "
          + "{…}, or EXPLAIN who REMOVE path")
    }
  }

  private mutating func explainCaller() throws(WireError) -> ExplainRequest.Caller {
    if nextIsObject {
      let auth = try value("EXPLAIN")
      guard auth.serverValues.isEmpty else {
        throw WireError(.invalidData, "an auth may hold no .sv")
      }
      return auth.node.isAbsent ? .anonymous : .auth(auth.node)
    }
    let isString = nextIsString
    let text = try text("who")
    return text == "null" && !isString ? .anonymous : .user(UserReference(text))
  }
}

extension WatchTarget {
  fileprivate static let usage = WireError(
    .badRequest,
    "usage: WATCH RECENT [options], WATCH POSTS user [options], WATCH TOP [user] [options], "
      + "WATCH SHOW id, or WATCH COMMENTS id [options]")

  fileprivate var isList: Bool {
    if case .show = self { false } else { true }
  }
}

extension Arguments {
  fileprivate mutating func watchTarget() throws(WireError) -> WatchTarget {
    let list = try text("the list").asciiUppercased
    let hasName = hasNext && !nextIsObject
    switch list {
    case "RECENT": return .recent
    case "TOP": return .top(hasName ? UserReference(try text("user")) : nil)
    case "POSTS" where hasName: return .posts(UserReference(try text("user")))
    case "SHOW" where hasName: return .show(id: try id("id"))
    case "COMMENTS" where hasName: return .comments(id: try id("id"))
    default: throw WatchTarget.usage
    }
  }

  /// Consumes the next argument if it is a path below `/.info`, and returns that path; else returns
  /// nil.
  fileprivate mutating func infoPath() throws(WireError) -> Path? {
    var rest = self
    let path = try rest.text("path")
    let text = path.hasBytePrefix("/") ? path.droppingBytes(1) : path
    guard text == ".info" || text.hasBytePrefix(".info/") else { return nil }
    self = rest
    do throws(TreeError) {
      return try Path(text.droppingBytes(".info".utf8.count))
    } catch {
      throw WireError(error)
    }
  }

  /// Consumes the identity of the write in a ONCE.
  fileprivate mutating func origin() throws(WireError) -> WriteOrigin {
    let client = try text("client")
    guard let number = Int64(try text("number")), let seen = Int64(try text("seen")) else {
      throw WireError(.badRequest, "number and seen must be integers")
    }
    do throws(TreeError) {
      return try WriteOrigin(client: client, number: number, seen: seen)
    } catch {
      throw WireError(error)
    }
  }

  /// Consumes the write of a ONCE.
  fileprivate mutating func write() throws(WireError) -> TreeWrite {
    let verb = try text("the write").asciiUppercased
    // Check the number of arguments as for the verb itself.
    func checkCount() throws(WireError) { try Request.command(verb)?.checkCount(count - 4) }
    switch verb {
    case "SET":
      try checkCount()
      return try set()
    case "UPDATE":
      try checkCount()
      return try update()
    case "REMOVE":
      try checkCount()
      return try remove()
    case "CAS":
      try checkCount()
      return try compareAndSet()
    default:
      throw WireError(.badRequest, "ONCE takes SET, UPDATE, REMOVE or CAS")
    }
  }

  fileprivate mutating func set() throws(WireError) -> TreeWrite {
    .set(try location(), try value("SET"))
  }

  fileprivate mutating func update() throws(WireError) -> TreeWrite {
    .update(try path(), try updates("UPDATE"))
  }

  fileprivate mutating func remove() throws(WireError) -> TreeWrite {
    .set(try location(), WriteValue(.absent))
  }

  fileprivate mutating func compareAndSet() throws(WireError) -> TreeWrite {
    .compareAndSet(try location(), etag: try text("etag"), try value("CAS"))
  }

  /// Consumes the request of an ONDISCONNECT.
  fileprivate mutating func disconnectRequest() throws(WireError) -> DisconnectRequest {
    let kind = try text("what to do").asciiUppercased
    let needsValue = kind == "SET" || kind == "UPDATE"
    guard needsValue == (count == 3), needsValue || kind == "REMOVE" || kind == "CANCEL" else {
      throw WireError(
        .badRequest,
        "usage: ONDISCONNECT SET path json, ONDISCONNECT UPDATE path {…}, ONDISCONNECT REMOVE path, "
          + "or ONDISCONNECT CANCEL path")
    }
    switch kind {
    case "SET": return .set(try location(), try value("ONDISCONNECT SET"))
    case "UPDATE":
      let path = try path()
      return .update(path, try updates("ONDISCONNECT UPDATE"))
    case "REMOVE": return .set(try location(), WriteValue(.absent))
    default: return .cancel(try path())
    }
  }
}

extension Arguments {
  fileprivate mutating func id(_ name: String) throws(WireError) -> Key {
    try Options.key(try text(name), name)
  }

  fileprivate mutating func path() throws(WireError) -> Path {
    let text = try text("path")
    do throws(TreeError) { return try Path(text) } catch { throw WireError(error) }
  }

  fileprivate mutating func location() throws(WireError) -> Location {
    let text = try text("path")
    do throws(TreeError) { return try Location(text) } catch { throw WireError(error) }
  }

  fileprivate mutating func value(_ verb: String) throws(WireError) -> WriteValue {
    try json(verb) { bytes, limits throws(TreeError) in try WriteValue(json: bytes, limits: limits)
    }
  }
  fileprivate mutating func updates(_ verb: String) throws(WireError) -> [Request.Update] {
    let changes = try json(verb) { bytes, limits throws(TreeError) in
      try JSONReader.readUpdate(json: bytes, limits: limits)
    }
    return changes.map { Request.Update(location: $0, value: $1) }
  }
}
