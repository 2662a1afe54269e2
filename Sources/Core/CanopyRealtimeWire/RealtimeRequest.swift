public import CanopyTree
public import CanopyWire

// CanopyRealtimeWire owns the text of the realtime protocol, version 5, which official clients speak over a WebSocket:
// messages, their frames, and queries. It must not know sockets, sessions or the engine.

/// A message of a client.
public enum ClientMessage: Sendable {
  /// A check that the connection works.
  case ping
  /// A control message that needs no answer.
  case otherControl
  /// A request, with the number under which its client waits for the answer.
  case request(Int64, RealtimeRequest)
}

/// The actions of the protocol, by the names on the wire.
public enum RealtimeAction: String, CaseIterable, Sendable {
  case listen = "q"
  case unlisten = "n"
  case get = "g"
  case put = "p"
  case merge = "m"
  case disconnectPut = "o"
  case disconnectMerge = "om"
  case disconnectCancel = "oc"
  case authenticate = "auth"
  case authenticateAdministrator = "gauth"
  case unauthenticate = "unauth"
  case statistics = "s"
  case appCheck = "appcheck"
}

/// A request of a client: the action with its body.
public enum RealtimeRequest: Sendable {
  /// Listens to a location.
  case listen(ListenBody)
  /// Stops listening.
  case unlisten(ListenTarget)
  /// Reads a location once.
  case get(Path, Query)
  /// Replaces the value at a location.
  case put(PutBody)
  /// Sets several locations below a path.
  case merge(MergeBody)
  /// Registers the replacement of a value for the end of the connection.
  case disconnectPut(Location, WriteValue)
  /// Registers an update of several locations for the end of the connection.
  case disconnectMerge(Path, [Request.Update])
  /// Cancels the writes that are registered at and below a path.
  case disconnectCancel(Path)
  /// Takes on the identity of a token.
  case authenticate(AuthenticationBody)
  /// Drops the identity.
  case unauthenticate
  /// Reports figures of the client, which the server ignores.
  case statistics
  /// Shows a token of the application, which the server ignores.
  case appCheck

  /// The action.
  public var action: RealtimeAction {
    switch self {
    case .listen: .listen
    case .unlisten: .unlisten
    case .get: .get
    case .put: .put
    case .merge: .merge
    case .disconnectPut: .disconnectPut
    case .disconnectMerge: .disconnectMerge
    case .disconnectCancel: .disconnectCancel
    case .authenticate(let body): body.isAdministrator ? .authenticateAdministrator : .authenticate
    case .unauthenticate: .unauthenticate
    case .statistics: .statistics
    case .appCheck: .appCheck
    }
  }
}

/// The location, the query and the tag by which a client names one of its listeners.
public struct ListenTarget: Hashable, Sendable {
  /// The location.
  public var path: Path
  /// The query.
  public var query: Query
  /// The number by which the client finds the listener of a query; nil for a listener of the whole location.
  public var tag: Int64?

  /// Creates a target.
  public init(_ path: Path, _ query: Query = .all, tag: Int64? = nil) {
    self.path = path
    self.query = query
    self.tag = tag
  }
}

/// The body of a request to listen.
public struct ListenBody: Sendable {
  /// The location, the query and the tag.
  public var target: ListenTarget
  /// The JSON of the query as the client wrote it; nil without a query. The client finds the listener by it when the
  /// server cancels it.
  public var queryText: String?
  /// The hash of the value that the client has; nil if it does not say.
  public var hash: String?

  /// Creates a body.
  public init(_ target: ListenTarget, queryText: String? = nil, hash: String? = nil) {
    self.target = target
    self.queryText = queryText
    self.hash = hash
  }

  /// The most bytes of a hash: more than the 28 of a SHA-1 in base 64.
  public static let hashBytesMax = 64

  /// The most bytes of the JSON of a query.
  public static let queryBytesMax = 16 * 1024
}

/// The body of a request to replace a value.
public struct PutBody: Sendable {
  /// The location.
  public var location: Location
  /// The new value.
  public var value: WriteValue
  /// The hash that the present value must have; nil for a write without a condition.
  public var hash: String?

  /// Creates a body.
  public init(_ location: Location, _ value: WriteValue, hash: String? = nil) {
    self.location = location
    self.value = value
    self.hash = hash
  }
}

/// The body of a request to set several locations.
public struct MergeBody: Sendable {
  /// The path above all locations.
  public var path: Path
  /// The locations, below the path, and their new values.
  public var changes: [Request.Update]
  /// The hash that the present value at the path must have; nil for a write without a condition.
  public var hash: String?

  /// Creates a body.
  public init(_ path: Path, _ changes: [Request.Update], hash: String? = nil) {
    self.path = path
    self.changes = changes
    self.hash = hash
  }
}

/// The body of a request to take on an identity.
public struct AuthenticationBody: Sendable {
  /// The token.
  public var token: String
  /// Whether the client is a program with the administrator's rights.
  public var isAdministrator: Bool

  /// Creates a body.
  public init(token: String, isAdministrator: Bool = false) {
    self.token = token
    self.isAdministrator = isAdministrator
  }
}
