public import CanopyEngine
public import CanopyTree
public import CanopyWire

/// An open connection as the administrator sees it.
public struct ClientState: Sendable {
  /// The protocols of connections.
  public enum Kind: String, Sendable {
    /// The line protocol.
    case line
    /// The line protocol over a WebSocket.
    case lineWebSocket = "line-websocket"
    /// The realtime protocol of official clients.
    case realtime
    /// HTTP.
    case http
    /// HTTP, with an event stream that is being sent.
    case stream
  }

  /// A subscription.
  public struct Listen: Sendable {
    /// The number on its connection.
    public var number: Int64
    /// The location, query and form; nil for a path below `/.info`.
    public var listening: Listening?
  }

  /// The number of the connection among all of the server.
  public var id: Int64
  /// The protocol.
  public var kind: Kind
  /// The address of the client.
  public var address: String
  /// The time of its beginning, in milliseconds since 1970.
  public var since: Int64
  /// The database of its requests.
  public var namespace: NamespaceName
  /// The user.
  public var identity = Identity.anonymous
  /// The bytes that it makes the server hold.
  public var bytes = 0
  /// The number of requests that wait or are under way.
  public var requests = 0
  /// The number of subscriptions.
  public var subscriptions = 0
  /// The number of on-disconnect writes.
  public var armed = 0
  /// The first subscriptions, by number, if they were asked for.
  public var listens: [Listen] = []
  /// The locations of the first on-disconnect writes, if they were asked for.
  public var armedLocations: [Location] = []

  /// Creates the state of an anonymous connection that holds nothing.
  public init(
    id: Int64, _ kind: Kind, address: String, since: Int64, namespace: NamespaceName
  ) {
    self.id = id
    self.kind = kind
    self.address = address
    self.since = since
    self.namespace = namespace
  }
}

extension ClientState {
  /// Adds the parts that a session knows. O(subscriptions + on-disconnect writes) with lists; else O(1).
  ///
  /// - Parameter listMax: the most entries of each list; 0 for no lists.
  public mutating func add(_ session: borrowing Session, listMax: Int) {
    identity = session.identity
    bytes = session.ledger.total
    requests = session.queue.count
    subscriptions = session.subscriptions.count
    armed = session.armed.count
    guard listMax > 0 else { return }
    let (all, writes) = (session.subscriptions, session.armed)
    listens = all.sorted { $0.key < $1.key }.prefix(listMax).map { number, subscription in
      Listen(number: number, listening: subscription.listening)
    }
    for write in writes {
      let room = listMax - armedLocations.count
      guard room > 0 else { break }
      armedLocations += write.write.items.prefix(room).map { $0.location }
    }
  }
}
