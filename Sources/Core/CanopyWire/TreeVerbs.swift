internal import CanopyTree

extension Command {
  /// The verbs about the database below the blog.
  static let tree: [Command] = [
    Command(
      "GET", .tree, ["path"], optional: ["options"], "the value at a path",
      reply: #"the value, or `null`; with `etag` `{"etag":…,"data":…}`"#
    ) {
      arguments throws(WireError) in
      if let path = try arguments.infoPath() {
        guard !arguments.hasNext else {
          throw WireError(.badRequest, "a path below /.info takes no options")
        }
        return .read(.info(path))
      }
      return .read(.get(try arguments.location(), try Options.get(&arguments, "GET")))
    },
    Command(
      "COUNT", .tree, ["path"], optional: ["options"], "the number of matching children",
      reply: "a number"
    ) {
      arguments throws(WireError) in
      .read(.count(try arguments.path(), try Options.count(&arguments)))
    },
    Command(
      "SET", .tree, ["path", "json"], "replace a value",
      reply: #"`{"seq":42}`"#
    ) {
      arguments throws(WireError) in
      .write(.tree(try arguments.set()))
    },
    Command(
      "UPDATE", .tree, ["path", "{\"path\":json,…}"], "set several locations, all or none",
      reply: #"`{"seq":42}`"#
    ) {
      arguments throws(WireError) in
      .write(.tree(try arguments.update()))
    },
    Command(
      "REMOVE", .tree, ["path"], "remove a value",
      reply: #"`{"seq":42}`"#
    ) {
      arguments throws(WireError) in
      .write(.tree(try arguments.remove()))
    },
    Command(
      "PUSH", .tree, ["path", "json"], "add a child under a new key",
      reply: #"`{"key":…,"seq":42}`"#
    ) {
      arguments throws(WireError) in
      .write(.push(try arguments.path(), try arguments.value("PUSH")))
    },
    Command(
      "CAS", .tree, ["path", "etag", "json"], "replace a value if it still has the ETag",
      reply: #"`{"committed":true,"seq":42}` or `{"committed":false,"etag":…,"data":…}`"#
    ) {
      arguments throws(WireError) in
      .write(.tree(try arguments.compareAndSet()))
    },
    Command(
      "ONCE", .tree, ["client", "number", "seen", "SET|UPDATE|REMOVE|CAS", "path"],
      optional: ["etag", "json"],
      "a write that may be sent again and is applied once; without a login the name of the client "
        + "needs 16 characters drawn at random",
      reply: "the reply of the write; for a repeated write that of the first time"
    ) { arguments throws(WireError) in
      let origin = try arguments.origin()
      return .write(.once(origin, try arguments.write()))
    },
    Command(
      "LISTEN", .tree, ["path"], optional: ["options"],
      "a value, then its changes; options: those of a query, since, and events "
        + "(child, value or sync)",
      reply: #"`{"sub":3,"seq":41,"initial":1}`, then events"#
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
    Command(
      "UNLISTEN", .tree, ["sub"], "end a subscription, also one of WATCH",
      reply: "`null`"
    ) {
      arguments throws(WireError) in
      guard let number = Int64(try arguments.text("sub")), number > 0 else {
        throw WireError(.badRequest, "sub must be the number of a subscription")
      }
      return .listen(.unlisten(number))
    },
    Command(
      "ONDISCONNECT", .tree, ["SET|UPDATE|REMOVE|CANCEL", "path"], optional: ["json"],
      "register a write for the end of this connection",
      reply: "`null`"
    ) { arguments throws(WireError) in
      let text = arguments.restText
      return .connection(
        .onDisconnect(try arguments.disconnectRequest(), text: text))
    },
  ]
}
