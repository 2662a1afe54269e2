internal import CanopyAccounts
public import CanopyEngine
internal import CanopySocial
public import CanopyTree
public import CanopyWire

extension Operations {
  /// The number of commits beyond which a list of the blog is sent as a whole instead of its changes: it is
  /// short, and every client may ask for it.
  private static let watchHistoryMax: Int64 = 1_000

  /// Resolves the names in a request for a subscription.
  ///
  /// - Throws: `WireError` when the user may not subscribe, or there is no such thing.
  public func subscription(
    to path: Path, _ options: ListenOptions, as identity: Identity
  ) throws(WireError) -> SubscriptionRequest {
    // Refuses at once if a few steps of the present rules do; the rules decide again when the listener begins.
    _ = try checkReadBriefly(path, options.query, in: engine.root, as: identity)
    let listening = Listening(path, options.query, form: options.form)
    return SubscriptionRequest(
      subject: .tree(listening), since: options.since, isAuthorized: true)
  }

  /// Returns the subscription to a path below `/.info`.
  ///
  /// - Throws: `WireError` when there is no such path.
  public func subscription(
    toInfo path: Path, _ options: ListenOptions
  ) throws(WireError) -> SubscriptionRequest {
    SubscriptionRequest(subject: .constant(try info(path), options.form), isAuthorized: false)
  }

  /// Resolves the names in a request for a list or a post of the blog.
  ///
  /// - Throws: `WireError` when there is no such user or post, or the limit is out of bounds.
  public func subscription(
    to target: WatchTarget, _ options: WatchOptions, as identity: Identity
  ) throws(WireError) -> SubscriptionRequest {
    do {
      return SubscriptionRequest(
        subject: .tree(try listening(target, options, as: identity)), since: options.since,
        historyMax: Operations.watchHistoryMax, isAuthorized: false)
    } catch {
      throw wireError(error)
    }
  }

  /// Returns the network that the subscriptions of a client count for; nil for none: the administrator, and
  /// programs on this machine, behind which there may be many people.
  public func listenerOwner(at address: String, as identity: Identity) -> ListenerOwner? {
    if case .administrator = identity { return nil }
    let network = RemoteNetwork(address)
    if network.isThisMachine { return nil }
    return ListenerOwner("\(network)", viewsMax: limits.viewsPerAddressMax)
  }

  /// Whether a client is on the machine of the server.
  ///
  /// - Parameter address: the address of the client.
  public static func isThisMachine(_ address: String) -> Bool {
    RemoteNetwork(address).isThisMachine
  }

  /// Whether a client may get the changes since a commit.
  ///
  /// A child that was removed is sent with its last data. A client that perhaps could not read it while it
  /// was there gets the present state instead.
  public func mayResume(
    _ start: ListenStart, since: Int64, isAuthorized: Bool, as identity: Identity
  ) -> Bool {
    if case .administrator = identity { return true }
    guard isAuthorized else { return true }
    return !start.isConditional && since >= rules.current.sequence
  }

  private func listening(
    _ target: WatchTarget, _ options: WatchOptions, as identity: Identity
  ) throws -> Listening {
    try requireBlog()
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

  /// Returns the value at a path below `/.info`.
  ///
  /// - Throws: `WireError` when there is none.
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
