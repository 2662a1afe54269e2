internal import CanopyEngine
internal import CanopySocial
public import CanopyTree
public import CanopyWire
internal import Dispatch

extension Operations {
  /// Carries out a read if that does not take long.
  ///
  /// - Parameter root: the root of the snapshot to read.
  /// - Returns: nil if it takes long: `longRead` is to be called.
  /// - Complexity: O(`Limits.wholeReplyBytesMax`) at most, besides the evaluation of the rules.
  public func read(_ request: ReadRequest, as identity: Identity, in root: Node) -> Reply? {
    do {
      return try reply(to: request, as: identity, in: root, isLong: false)
    } catch is LongRead {
      return nil
    } catch {
      return .failure(wireError(error))
    }
  }

  /// Carries out a read that may take long, beside the caller's thread.
  ///
  /// - Parameters:
  ///   - root: the root of the snapshot to read.
  ///   - connection: identifies the connection. Connections take turns.
  public func longRead(
    _ request: ReadRequest, as identity: Identity, in root: Node, of connection: ObjectIdentifier
  ) async -> Reply {
    do {
      return try await beside(connection) { [self] in
        try reply(to: request, as: identity, in: root, isLong: true)
      }
    } catch {
      return .failure(wireError(error))
    }
  }

  /// Keeps the index that a read of the administrator needs, if none does. For all others the rules declare
  /// it. A snapshot that is taken afterwards has the index.
  public func prepare(_ request: ReadRequest) async {
    switch request {
    case .get(let location, let options): await keepIndex(options.query, at: location.path)
    case .count(let path, let query): await keepIndex(query, at: path)
    case .hello, .ping, .help, .whoAmI, .show, .comments, .recent, .posts, .top, .profile, .info,
      .rules:
      break
    }
  }

  /// Runs `body` on a thread where it may take long, one call at a time, as each takes a core.
  ///
  /// - Parameter group: the calls that share turns, such as those of a connection; nil for none.
  /// - Throws: the error of `body`; `CancellationError` if the task is cancelled before its turn.
  public func beside<R: Sendable>(
    _ group: ObjectIdentifier? = nil, _ body: @escaping @Sendable () throws -> R
  ) async throws -> R {
    try await longWork.withTurn(of: group) {
      // The threads of tasks are few, and not to be held.
      try await withCheckedThrowingContinuation { continuation in
        DispatchQueue.global().async { continuation.resume(with: Result { try body() }) }
      }
    }
  }

  private func keepIndex(_ query: Query, at path: Path) async {
    // Few children are sorted faster than an index of them is kept.
    let node = engine.root.at(path)
    if node.childCount > 256, !query.isIndexed(in: node) {
      await engine.keepIndex(query.order, at: path)
    }
  }

  /// - Parameter isLong: whether it may take long.
  /// - Throws: `LongRead` if it takes long and may not.
  private func reply(
    to request: ReadRequest, as identity: Identity, in root: Node, isLong: Bool
  ) throws -> Reply {
    switch request {
    case .ping: return .pong
    case .hello: return .hello(ServerDescription(version: version, time: now(), limits: bounds))
    case .help(let verb): return .help(try command(verb))
    case .whoAmI: return whoAmI(identity, in: root)
    case .get(let location, let options):
      try checkRead(location.path, options.query, in: root, as: identity)
      return try value(at: location, options, in: root, isLong: isLong)
    case .count(let path, let query):
      try checkRead(path, query, in: root, as: identity)
      let node = root.at(path)
      if !isLong, takesLong(query, in: node) { throw LongRead() }
      return .count(query.count(in: node))
    case .rules:
      try requireAdministrator(identity)
      let version = rules.current
      return .rules(text: version.text, isBuiltIn: version.isBuiltIn)
    case .info(let path): return .value(try info(path), .plain, etag: nil, bytes: 0)
    case .show(let id): return .post(id, try Posts.find(id, in: root))
    case .recent(let page): return .entries(Feeds.recent(try Feeds.Page(page), in: root))
    case .comments(let id, let page):
      return .entries(try Feeds.comments(on: id, Feeds.Page(page), in: root))
    case .posts(let reference, let page):
      let uid = try find(reference, as: identity, in: root)
      return .entries(Feeds.posts(by: uid, try Feeds.Page(page), in: root))
    case .top(let reference, let page):
      let page = try Feeds.Page(page)
      let uid = try reference.map { try find($0, as: identity, in: root) }
      return .entries(try Feeds.top(by: uid, page, in: root))
    case .profile(let reference):
      let uid = try find(reference, as: identity, in: root)
      return .profile(uid: uid, username: Users.username(of: uid, in: root) ?? "")
    }
  }

  /// Whether the children are to be sorted for a query, and are many.
  private func takesLong(_ query: Query, in node: Node) -> Bool {
    node.childCount > 256 && !query.isIndexed(in: node)
  }

  private func value(
    at location: Location, _ options: GetOptions, in root: Node, isLong: Bool
  ) throws -> Reply {
    let node = root.at(location)
    let style: JSONStyle = options.isExport ? .export : .plain
    if options.hasQuery, !isLong, takesLong(options.query, in: node) { throw LongRead() }
    var budget = isLong ? limits.replyBytesMax : limits.wholeReplyBytesMax
    // Hashing takes much longer than writing.
    if options.wantsETag, !isLong { budget = CompareAndSet.smallBytesMax }
    budget = min(budget, limits.replyBytesMax)
    let bytesMax = budget
    func excess() -> any Error { bytesMax < limits.replyBytesMax ? LongRead() : replyTooLarge }

    // `"k":1,` has six bytes.
    let childrenMax = bytesMax / 6
    var members: [(key: Key, node: Node)] = []
    var fits = true
    /// Adds a member. Returns whether it fits into the budget, so that a walk stops at the first that
    /// does not.
    func add(_ key: Key, _ node: Node) -> Bool {
      // `"key":value,`
      budget -= key.utf8Count + 4
      fits = node.fits(budget: &budget)
      if fits { members.append((key, node)) }
      return fits
    }
    if options.hasQuery {
      if options.query.isIndexed(in: node), options.query.count(in: node) > childrenMax {
        throw excess()
      }
      options.query.forEachChild(of: node, add)
    } else if options.isShallow, node.isBranch {
      guard node.childCount <= childrenMax else { throw excess() }
      node.forEachChild { add($0, $1.isBranch ? true : $1) }
    } else {
      guard node.fits(budget: &budget) else { throw excess() }
      let etag = options.wantsETag ? node.etag : nil
      return .value(node, style, etag: etag, bytes: bytesMax - budget)
    }
    guard fits else { throw excess() }
    return .members(members, style, bytes: bytesMax - budget)
  }

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

  private func whoAmI(_ identity: Identity, in root: Node) -> Reply {
    switch identity {
    case .administrator: return .administrator
    case .user(let session) where session.isValid(at: now()):
      return .user(description(of: session, in: root))
    case .user, .anonymous: return .user(nil)
    }
  }

  func description(of session: UserSession, in root: Node) -> UserDescription {
    UserDescription(
      uid: session.uid, username: Users.username(of: session.uid, in: root) ?? "",
      email: session.email)
  }

  /// The bounds that a client does well to know.
  private var bounds: KeyValuePairs<String, Int> {
    [
      "lineBytes": limits.lineBytesMax, "keyBytes": Limits.keyBytesMax, "depth": Limits.depthMax,
      "stringBytes": limits.stringBytesMax, "updateLocations": limits.updateLocationsMax,
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

/// A read takes long, and is to be carried out beside the event loop.
private struct LongRead: Error {}

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
