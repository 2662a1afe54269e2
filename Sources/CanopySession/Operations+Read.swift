internal import CanopyEngine
internal import CanopySocial
internal import CanopyTree
public import CanopyWire

extension Operations {
  /// Carries out a read of the current tree.
  public func read(_ request: ReadRequest, as identity: Identity) -> Reply {
    do {
      return try reply(to: request, as: identity)
    } catch {
      return .failure(wireError(error))
    }
  }

  /// Carries out a read by an order of which there may be no index. For the administrator the index is
  /// made first; for all others the rules declare it.
  public func orderedRead(_ request: ReadRequest, as identity: Identity) async -> Reply {
    switch request {
    case .get(let location, let options): await keepIndex(options.query, at: location.path)
    case .count(let path, let query): await keepIndex(query, at: path)
    case .hello, .ping, .help, .whoAmI, .show, .comments, .recent, .posts, .top, .profile, .info,
      .rules:
      break
    }
    return read(request, as: identity)
  }

  private func keepIndex(_ query: Query, at path: Path) async {
    // Few children are sorted faster than an index of them is kept.
    let node = engine.root.at(path)
    if node.childCount > 256, !query.isIndexed(in: node) {
      await engine.keepIndex(query.order, at: path)
    }
  }

  private func reply(to request: ReadRequest, as identity: Identity) throws -> Reply {
    switch request {
    case .ping: return .pong
    case .hello: return .hello(ServerDescription(version: version, time: now(), limits: bounds))
    case .help(let verb): return .help(try command(verb))
    case .whoAmI: return whoAmI(identity)
    case .get(let location, let options):
      let root = engine.root
      try checkRead(location.path, options.query, in: root, as: identity)
      return try value(at: location, options, in: root)
    case .count(let path, let query):
      let root = engine.root
      try checkRead(path, query, in: root, as: identity)
      return .count(query.count(in: root.at(path)))
    case .rules:
      try requireAdministrator(identity)
      let version = rules.current
      return .rules(text: version.text, isBuiltIn: version.isBuiltIn)
    case .info(let path): return .value(try info(path), .plain, withETag: false)
    case .show(let id): return .post(id, try Posts.find(id, in: engine.root))
    case .recent(let page): return .entries(Feeds.recent(try Feeds.Page(page), in: engine.root))
    case .comments(let id, let page):
      return .entries(try Feeds.comments(on: id, Feeds.Page(page), in: engine.root))
    case .posts(let reference, let page):
      let root = engine.root
      let uid = try find(reference, as: identity, in: root)
      return .entries(Feeds.posts(by: uid, try Feeds.Page(page), in: root))
    case .top(let reference, let page):
      let root = engine.root
      let page = try Feeds.Page(page)
      let uid = try reference.map { try find($0, as: identity, in: root) }
      return .entries(try Feeds.top(by: uid, page, in: root))
    case .profile(let reference):
      let root = engine.root
      let uid = try find(reference, as: identity, in: root)
      return .profile(uid: uid, username: Users.username(of: uid, in: root) ?? "")
    }
  }

  private func value(
    at location: Location, _ options: GetOptions, in root: Node
  ) throws(WireError) -> Reply {
    let node = root.at(location)
    let style: JSONStyle = options.isExport ? .export : .plain
    if options.hasQuery {
      guard options.query.count(in: node) <= childrenMax else { throw replyTooLarge }
      return try members(options.query.children(of: node), style)
    }
    if options.isShallow, node.isBranch {
      guard node.childCount <= childrenMax else { throw replyTooLarge }
      var members: [(key: Key, node: Node)] = []
      node.forEachChild { key, child in
        members.append((key, child.isBranch ? true : child))
        return true
      }
      return try self.members(members, style)
    }
    guard node.fits(bytes: limits.replyBytesMax) else { throw replyTooLarge }
    return .value(node, style, withETag: options.wantsETag)
  }

  private func members(
    _ members: [(key: Key, node: Node)], _ style: JSONStyle
  ) throws(WireError) -> Reply {
    var budget = limits.replyBytesMax
    for (key, node) in members {
      // `"key":value,`
      budget -= key.utf8Count + 4
      guard node.fits(budget: &budget) else { throw replyTooLarge }
    }
    return .members(members, style)
  }

  /// The number of children from which on no reply can hold them: `"k":1,` has six bytes.
  private var childrenMax: Int { limits.replyBytesMax / 6 }

  var replyTooLarge: WireError {
    WireError(
      .tooLarge,
      "what you ask for is larger than a reply may be; ask for fewer entries, with a limit, with "
        + "\"shallow\":true, or further below")
  }

  private func command(_ verb: String?) throws(WireError) -> Command? {
    guard let verb else { return nil }
    guard let command = Request.command(verb) else {
      throw WireError(.unknownVerb, "there is no such verb; HELP lists them")
    }
    return command
  }

  private func whoAmI(_ identity: Identity) -> Reply {
    switch identity {
    case .administrator: return .administrator
    case .user(let session) where session.isValid(at: now()):
      return .user(description(of: session))
    case .user, .anonymous: return .user(nil)
    }
  }

  func description(of session: UserSession) -> UserDescription {
    UserDescription(
      uid: session.uid, username: Users.username(of: session.uid, in: engine.root) ?? "",
      email: session.email)
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
      "disconnectLocations": limits.disconnectLocationsMax, "boundBytes": Limits.boundBytesMax,
      "titleCharacters": Texts.titleMax, "bodyCharacters": Texts.bodyMax,
      "commentCharacters": Texts.commentMax, "usernameCharacters": Texts.usernameMax,
      "page": Feeds.Page.limitMax,
    ]
  }
}

extension Feeds.Page {
  fileprivate init(_ request: PageRequest) throws {
    try self.init(limit: request.limit, before: request.before)
  }

  init(limit: Int64?, before: Key? = nil) throws {
    // A number that is no Int is out of bounds as well.
    try self.init(limit: limit.map { Int(clamping: $0) } ?? 20, before: before)
  }
}

extension Node {
  /// Returns the node or the priority at a location.
  func at(_ location: Location) -> Node {
    location.isPriority ? at(location.path).priority : at(location.path)
  }
}
