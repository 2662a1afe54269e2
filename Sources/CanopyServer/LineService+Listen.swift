internal import CanopyEngine
internal import CanopySocial
internal import CanopyTree
internal import CanopyWire

extension LineService {
  /// Commits beyond which a list of the blog is told anew rather than what changed in it: it is short,
  /// and anybody may ask.
  private static let watchHistoryMax: Int64 = 1_000

  /// What a request wants to listen to.
  ///
  /// - Throws: `WireError` when it may not, or when there is no such thing.
  func wish(_ request: Request, as identity: Identity) throws(WireError) -> Wish {
    do {
      switch request {
      case .listen(let path, let options):
        // Refused at once where that is plain already; it is when it begins that it is judged.
        try checkRead(path, options.query, in: engine.root, as: identity)
        let listening = Listening(path, options.query, form: Listening.Form(options.form))
        return Wish(subject: .tree(listening), since: options.since, isJudged: true)
      case .listenToInfo(let path, let options):
        let node = try info(path)
        return Wish(subject: .constant(node, options.form), isJudged: false)
      case .watch(let target, let options):
        return Wish(
          subject: .tree(try listening(target, options, as: identity)), since: options.since,
          historyMax: LineService.watchHistoryMax, isJudged: false)
      default: throw WireError(.internalError, "the request is not one to listen")
      }
    } catch {
      throw wireError(error)
    }
  }

  private func listening(
    _ target: WatchTarget, _ options: WatchOptions, as identity: Identity
  ) throws -> Listening {
    let root = engine.root
    let limit = try Feeds.Page(limit: options.limit).limit
    switch target {
    case .recent: return try Feeds.watchRecent(limit: limit)
    case .posts(let reference):
      let uid = try find(reference, as: identity, in: root)
      return try Feeds.watchPosts(by: uid, limit: limit)
    case .top(let reference):
      let uid = try reference.map { try find($0, as: identity, in: root) }
      return try Feeds.watchTop(by: uid, limit: limit)
    case .show(let id): return try Feeds.watchPost(id, in: root)
    case .comments(let id): return try Feeds.watchComments(on: id, limit: limit, in: root)
    }
  }

  /// What the server says of the connection itself, below `/.info`.
  ///
  /// - Throws: `WireError` for what it cannot say.
  func info(_ path: Path) throws(WireError) -> Node {
    let all: [(Key, Node)] = [(Self.connected, Node(true)), (Self.serverTime, Node(now()))]
    let node = Node(children: all).at(path)
    guard node.isAbsent else { return node }
    if path.keys == [Self.serverTimeOffset] {
      throw WireError(
        .notFound,
        "the server does not know your clock: serverTimeOffset is /.info/serverTime less your time")
    }
    throw WireError(.notFound, "/.info has connected and serverTime")
  }

  private static let connected: Key = "connected"
  private static let serverTime: Key = "serverTime"
  private static let serverTimeOffset: Key = "serverTimeOffset"
}

extension Listening.Form {
  fileprivate init(_ form: EventForm) {
    switch form {
    case .child: self = .child
    case .value: self = .value
    case .sync: self = .sync
    }
  }
}
