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

  /// Returns the location, if the rules decide about it.
  var authorized: Listening? {
    guard isAuthorized, case .tree(let listening) = subject else { return nil }
    return listening
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
  /// The bytes of the content if it is so large that it was measured, or a little more; else zero.
  public var bytes = 0
  /// The events that came meanwhile, to be sent after the content.
  public var events: [Notification] = []
}

/// The changes that a client missed.
public struct Resumption: Sendable {
  /// The events; nil when the client gets the present state.
  public var events: [ListenEvent]?
  /// The bytes of the events, or else of the present state, or a little more.
  public var bytes: Int

  /// Creates the changes.
  public init(events: [ListenEvent]?, bytes: Int) {
    self.events = events
    self.bytes = bytes
  }
}
