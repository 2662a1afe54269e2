public import CanopyRules
public import CanopySocial
public import CanopyTree
public import CanopyWire

/// The answer to a request, before a front end encodes it for its protocol.
public enum Reply: Sendable {
  /// The request failed, and changed nothing unless the error says otherwise.
  case failure(WireError)
  /// The request succeeded without a result.
  case null

  // Replies to reads

  /// The reply to PING.
  case pong
  /// The name, version and limits of the server.
  case hello(ServerDescription)
  /// The table of verbs, or one of them.
  case help(Command?)
  /// The user of the connection; nil if it is anonymous.
  case user(UserDescription?)
  /// The connection belongs to the administrator.
  case administrator
  /// The profile of a user.
  case profile(uid: Key, username: String)
  /// A post.
  case post(Key, Node)
  /// A list of posts or comments.
  case entries([Feeds.Entry])
  /// The value at a location, with its ETag where the request asked for it, and the bytes of its JSON or a
  /// little more.
  case value(Node, JSONStyle, etag: String?, bytes: Int)
  /// Children in the order of a query, and the bytes of their JSON or a little more.
  case members([(key: Key, node: Node)], JSONStyle, bytes: Int)
  /// A number of children.
  case count(Int)
  /// The rules in force.
  case rules(text: String, isBuiltIn: Bool)

  // Replies to writes

  /// The key of a new post or comment.
  case created(Key)
  /// The star of the caller, and the number of stars.
  case starred(Bool, count: Int64)
  /// The number of the commit.
  case committed(Int64)
  /// The key of a new child and the number of the commit.
  case pushed(Key, Int64)
  /// A compare-and-set took place; the number of the commit.
  case exchanged(Int64)
  /// A compare-and-set found another value than expected.
  case mismatch(Node, etag: String, JSONStyle, bytes: Int)

  // Replies to subscriptions

  /// A subscription begins.
  case subscribed(Subscribed)

  // Replies about sessions and to the administrator

  /// A session was opened.
  case session(SessionDescription)
  /// The connection closes.
  case farewell
  /// The evaluation of the rules for a request.
  case explanation(Explanation)

  /// The bytes to charge while the reply waits for its turn.
  ///
  /// A reply shares its nodes with the tree, so most replies take little memory. A value may be of a
  /// version of the tree that only this reply still holds.
  var heldBytes: Int {
    switch self {
    case .value(_, _, _, let bytes), .members(_, _, let bytes), .mismatch(_, _, _, let bytes):
      bytes + Reply.baseBytes
    case .subscribed(let subscribed): subscribed.bytes + Reply.baseBytes
    default: Reply.baseBytes
    }
  }

  private static let baseBytes = 256
}

/// The server as HELLO describes it.
public struct ServerDescription: Sendable {
  /// The version of the program.
  public var version: String
  /// The time in milliseconds since 1970.
  public var time: Int64
  /// The bounds that a client does well to know.
  public var limits: KeyValuePairs<String, Int>
}

/// A user as WHOAMI describes it.
public struct UserDescription: Sendable {
  /// The identifier.
  public var uid: Key
  /// The user name; empty without a profile.
  public var username: String
  /// The e-mail address.
  public var email: String
}

/// A session as it is described to the user who opened it.
public struct SessionDescription: Sendable {
  /// The user.
  public var user: UserDescription
  /// The token that resumes the session. A secret.
  public var token: String
  /// The end of the session in milliseconds since 1970.
  public var expires: Int64
}
