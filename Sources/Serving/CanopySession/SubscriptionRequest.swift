public import CanopyEngine
public import CanopyTree

/// A subscription that a client asks for, with all names resolved.
public struct SubscriptionRequest: Sendable {
  /// The thing to subscribe to.
  public enum Subject: Sendable {
    /// A location of the tree.
    case tree(Listening)
    /// A value that never changes.
    case constant(Node, EventForm)
  }

  /// The thing to subscribe to.
  public var subject: Subject
  /// The number of the last commit that the client knows; nil for a first subscription.
  public var since: Int64?
  /// The number of commits since then beyond which the client gets the present state instead of the
  /// changes.
  public var historyMax = Int64.max
  /// Whether the rules decide about it.
  public var isAuthorized: Bool
  /// The bytes that the front end keeps for it, besides those that every subscription takes.
  public var extraBytes = 0

  /// The location and query; nil for a constant.
  var listening: Listening? {
    guard case .tree(let listening) = subject else { return nil }
    return listening
  }

  /// The location and query, if the rules decide about it.
  var authorized: Listening? { isAuthorized ? listening : nil }
}

extension SubscriptionRequest {
  /// The bytes charged for a subscription, besides its path and its query: its entries in the session, the
  /// connection, the event loop, the engine and the rules. Measured by the growth of a release process (RSS): a
  /// subscription to a path of one key took 4.5 KiB, one of 31 keys 14.8 KiB.
  static let baseBytes = 4_352
  /// The bytes charged for each key of a path, besides its text. The event loop and the engine have a node for each.
  static let keyBytes = 352

  /// The memory that the subscription takes until it ends, in bytes. An estimate. O(path and query).
  var bytes: Int {
    let baseBytes = SubscriptionRequest.baseBytes + extraBytes
    guard case .tree(let listening) = subject else { return baseBytes }
    return baseBytes + SubscriptionRequest.bytes(of: listening.path)
      + SubscriptionRequest.bytes(of: listening.query)
  }

  static func bytes(of path: Path) -> Int {
    path.keys.reduce(0) { $0 + keyBytes + $1.utf8Count }
  }

  static func bytes(of query: Query) -> Int {
    var bytes = 0
    if case .child(let path) = query.order { bytes += self.bytes(of: path) }
    for case let bound? in [query.lower, query.upper] {
      bytes += bound.key?.utf8Count ?? 0
      if case .string(let text) = bound.value { bytes += text.count }
    }
    return bytes
  }
}

/// The state of a location that a subscription shows, ready to be encoded.
///
/// Finding it takes as long as it is large, so a large one is found on another thread.
public enum ShownState: Sendable {
  /// A value.
  case value(Node)
  /// The children in the order of the query.
  case children([(key: Key, node: Node)])

  /// The bytes of one child in the list.
  public static let childBytes = MemoryLayout<(key: Key, node: Node)>.stride

  /// The bytes of the list, without the children, which are those of the tree.
  public var listBytes: Int {
    guard case .children(let children) = self else { return 0 }
    return children.count * ShownState.childBytes
  }
}

extension Listening {
  /// Returns the state that a subscription shows of its location.
  ///
  /// - Complexity: that of `Query.children(of:)`; O(1) for a whole value that has no order.
  public func state(of node: Node) -> ShownState {
    guard form != .sync else { return .value(query.value(of: node)) }
    // Later events refer to the order of the children.
    let isOrdered = node.isBranch && (form == .child || query.order != .priority)
    guard !query.isUnbounded || isOrdered else { return .value(node) }
    return .children(query.children(of: node))
  }
}

/// The content with which a subscription begins.
public enum SubscriptionContent: Sendable {
  /// The present state.
  ///
  /// - isReplacement: whether the client has an earlier version, which this replaces.
  case state(ShownState, Listening, isReplacement: Bool)
  /// The changes since the commit that the client knows.
  case changes([ListenEvent], Listening)
  /// A value that never changes.
  case constant(Node, EventForm)
}

/// The answer to a request for a subscription.
public struct Subscribed: Sendable {
  /// The number of the subscription on its connection.
  public var number: Int64
  /// The number of the commit that the content reflects.
  public var sequence: Int64
  /// The content.
  public var content: SubscriptionContent
  /// The bytes of the content if it is so large that it was measured; else zero.
  public var bytes = ValueBytes()
  /// Whether the client has the content already; nil if that was not compared.
  public var isKnown: Bool?
  /// The events that came meanwhile, to be sent after the content.
  public var events: [Notification] = []
}

/// The content of a subscription that was found on another thread.
public struct Resumption: Sendable {
  /// The kinds of content.
  public enum Content: Sendable {
    /// The present state.
    case state(ShownState)
    /// The changes since the commit that the client knows.
    case changes([ListenEvent])
  }

  /// The content.
  public var content: Content
  /// The bytes of the content.
  public var bytes: ValueBytes
  /// Whether the client has the content already; nil if that was not compared.
  public var isKnown: Bool?

  /// Creates a resumption with the changes that a client missed.
  public init(changes: [ListenEvent], bytes: ValueBytes) {
    content = .changes(changes)
    self.bytes = bytes
  }

  /// Creates a resumption with the present state.
  ///
  /// - Complexity: that of `Listening.state(of:)`.
  public init(stateOf node: Node, _ listening: Listening, bytes: ValueBytes) {
    let state = listening.state(of: node)
    content = .state(state)
    self.bytes = bytes
    // The size of a part of the children includes their list, and that of a whole value does not.
    if listening.query.isUnbounded { self.bytes.memory += state.listBytes }
  }
}
