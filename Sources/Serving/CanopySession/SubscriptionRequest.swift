public import CanopyEngine
public import CanopyTree
public import CanopyWire

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

/// The content with which a subscription begins.
public enum SubscriptionContent: Sendable {
  /// The present state.
  ///
  /// - isReplacement: whether the client has an earlier version, which this replaces.
  case state(ListenStart, Listening, isReplacement: Bool)
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
  /// The events that came meanwhile, to be sent after the content.
  public var events: [Notification] = []
}

/// The changes that a client missed.
public struct Resumption: Sendable {
  /// The events; nil when the client gets the present state.
  public var events: [ListenEvent]?
  /// The bytes of the events, or else of the present state.
  public var bytes: ValueBytes

  /// Creates the changes.
  public init(events: [ListenEvent]?, bytes: ValueBytes) {
    self.events = events
    self.bytes = bytes
  }
}
