public import CanopyTree

/// A request of the line protocol, read and checked as far as that goes without knowing any data.
public enum Request: Sendable {
  // Session

  /// What the server is.
  case hello
  /// Whether it answers.
  case ping
  /// The verbs, or one of them.
  case help(verb: String?)
  /// A new account.
  case signUp(email: String, password: String, username: String)
  /// A session by password.
  case logIn(email: String, password: String)
  /// A session by token.
  case authenticate(token: String)
  /// Who the connection is.
  case whoAmI
  /// The end of the session.
  case logOut
  /// Another password.
  case changePassword(current: String, new: String)
  /// Another user name.
  case rename(username: String)
  /// The end of the connection.
  case quit

  // Blog

  /// A new post.
  case post(title: String, body: String)
  /// Another title and body for a post.
  case edit(id: Key, title: String, body: String)
  /// The end of a post.
  case delete(id: Key)
  /// One post.
  case show(id: Key)
  /// The caller's star, on or off.
  case star(id: Key)
  /// A new comment.
  case comment(id: Key, text: String)
  /// The end of a comment.
  case uncomment(id: Key, comment: Key)
  /// The comments on a post.
  case comments(id: Key, PageRequest)
  /// All posts, newest first.
  case recent(PageRequest)
  /// One user's posts, newest first.
  case posts(UserReference, PageRequest)
  /// Posts by stars, of one user or of all.
  case top(UserReference?, limit: Int64?)
  /// A user's profile.
  case profile(UserReference)
  /// A list, and what becomes of it.
  case watch(WatchTarget, WatchOptions)

  // Tree

  /// A value.
  case get(Location, GetOptions)
  /// The number of children that match.
  case count(Path, Query)
  /// Replaces.
  case set(Location, WriteValue)
  /// Sets several.
  case update(Path, [Update])
  /// Removes.
  case remove(Location)
  /// Adds a child under a new key.
  case push(Path, WriteValue)
  /// Replaces if nothing has changed.
  case compareAndSet(Location, etag: String, WriteValue)
  /// One of the four writes before, to be made once however often it is sent.
  indirect case once(WriteOrigin, Request)
  /// What becomes of a location.
  case listen(Path, ListenOptions)
  /// The end of a subscription.
  case unlisten(Int64)
  /// Something to be written when the connection ends, and its text.
  case onDisconnect(DisconnectRequest, text: String)
  /// What the server knows of the connection: a path below `/.info`.
  case info(Path)
  /// The same, as a subscription.
  case listenToInfo(Path, ListenOptions)
  /// The rules in force.
  case rules
  /// Other rules; nil for the built-in ones.
  case setRules(String?)
  /// What the rules say of a request, and why.
  case explain(ExplainRequest)

  /// One step of an update.
  public struct Update: Sendable {
    /// Below the path of the request.
    public var location: Location
    /// What to put there.
    public var value: WriteValue
  }
}

/// How a request names a user.
public enum UserReference: Equatable, Sendable {
  /// The caller.
  case me
  /// `@name`.
  case username(String)
  /// Anything else.
  case uid(String)

  init(_ text: String) {
    if text == "me" {
      self = .me
    } else if text.hasBytePrefix("@") {
      self = .username(text.droppingBytes(1))
    } else {
      self = .uid(text)
    }
  }
}

/// Which part of a list a request wants.
public struct PageRequest: Equatable, Sendable {
  /// How many entries; nil for the usual number.
  public var limit: Int64?
  /// Only entries older than this one.
  public var before: Key?
}

/// What a GET wants besides the path.
public struct GetOptions: Equatable, Sendable {
  /// Which children.
  public var query = Query.all
  /// Whether the query was asked for: its answer comes in its order, even if that is of all children.
  public var hasQuery = false
  /// Branches as `true`.
  public var isShallow = false
  /// With priorities.
  public var isExport = false
  /// With the ETag.
  public var wantsETag = false
}
