public import CanopyTree

/// A decoded request, checked as far as that is possible without the data.
///
/// The groups correspond to handlers, so that each is handled by one exhaustive `switch`.
///
/// A request is moved several times before it is carried out. So the cases that are rare and large are indirect, and the
/// others take 64 bytes.
public enum Request: Sendable {
  /// Reads the current tree or the state of the server.
  case read(ReadRequest)
  /// Writes the tree in one commit.
  case write(WriteRequest)
  /// Changes or verifies an account, which needs a password hash or the store.
  indirect case account(AccountRequest)
  /// Starts or ends a subscription.
  indirect case listen(ListenRequest)
  /// Ends the connection, selects its database, or registers a write for its end.
  indirect case connection(ConnectionRequest)
  /// Administers the server.
  indirect case administration(AdministrationRequest)

  /// One step of an update.
  public struct Update: Sendable {
    /// The location, below the path of the request.
    public var location: Location
    /// The new value.
    public var value: WriteValue

    /// Creates a step.
    public init(location: Location, value: WriteValue) {
      self.location = location
      self.value = value
    }
  }
}

/// A request that changes nothing.
public enum ReadRequest: Sendable {
  /// The name, version and limits of the server.
  case hello
  /// A check that the connection works.
  case ping
  /// The verbs, or one of them.
  case help(verb: String?)
  /// The identity of the connection.
  case whoAmI
  /// A request that reads the blog.
  case blog(BlogRead)
  /// The value at a location.
  case get(Location, GetOptions)
  /// The number of children that match a query.
  indirect case count(Path, Query)
  /// The state of the connection: a path below `/.info`.
  case info(Path)
  /// The rules in force. For the administrator.
  case rules
  /// The keys of the children of a location, in pages. For the administrator.
  case keys(Path, KeysPage)
  /// A read that waits until the server has the commit with a number, which another node may have made.
  indirect case atLeast(Int64, ReadRequest)
}

/// A request that writes the tree.
public enum WriteRequest: Sendable {
  /// A request that writes the blog.
  case blog(BlogWrite)
  /// Adds a child under a new key.
  case push(Path, WriteValue)
  /// Writes the tree directly.
  case tree(TreeWrite)
  /// Writes the tree once, even if the client sends the request again.
  indirect case once(WriteOrigin, TreeWrite)
  /// A write that the client may send again, and the error for which its text was not decoded. It is refused in its turn.
  indirect case undecoded(WriteOrigin, WireError)
}

/// A direct write of the tree, which a ONCE may repeat.
public enum TreeWrite: Sendable {
  /// Replaces the value at a location; an absent value removes it.
  case set(Location, WriteValue)
  /// Sets several locations below a path.
  case update(Path, [Request.Update])
  /// Replaces the value at a location if it still has the ETag.
  indirect case compareAndSet(Location, etag: String, WriteValue)
}

/// A request about an account and its sessions.
public enum AccountRequest: Sendable {
  /// Opens an account and a session.
  case signUp(email: String, password: String, username: String)
  /// Opens a session by password.
  case logIn(email: String, password: String)
  /// Resumes a session by its token.
  case authenticate(token: String)
  /// Logs in as the administrator, with a pass or the token that it gave.
  case redeemPass(token: String)
  /// Ends the session and revokes its token.
  case logOut
  /// Changes the password and revokes all other tokens.
  case changePassword(current: String, new: String)
  /// Reads the account again.
  case account
  /// Opens an account without credentials, and a session.
  case signUpAnonymously
  /// Opens a session by a custom token of the administrator.
  case logInCustom(token: String)
  /// Makes a custom token with claims, the text of a JSON object. For the administrator.
  case issueCustomToken(uid: String, claims: String)
  /// Opens a session of the same user by password, which counts as a recent login.
  case confirm(email: String, password: String)
  /// Sets the e-mail address, the password or both; nil keeps one.
  case changeCredentials(email: String?, password: String?)
  /// Deletes the account with its sessions, and on request everything that its user has added to the blog.
  case deleteAccount(withPosts: Bool)
  /// Reads a page of the user's account, posts, comments and stars.
  case export(ExportPage)
  /// Issues an identity token.
  case identityToken
  /// Makes a code for a new password.
  case forgotPassword(email: String)
  /// Checks a code for a new password; sets the password if there is one.
  case resetPassword(code: String, new: String?)
  /// Makes a code for the account's address; or uses it.
  case verifyEmail(code: String?)
}

/// A request about subscriptions.
public enum ListenRequest: Sendable {
  /// Subscribes to a location.
  case listen(Path, ListenOptions)
  /// Subscribes to the state of the connection: a path below `/.info`.
  case info(Path, ListenOptions)
  /// Subscribes to a list or a post of the blog.
  case watch(WatchTarget, WatchOptions)
  /// Ends a subscription.
  case unlisten(Int64)
}

/// A request about the connection itself.
public enum ConnectionRequest: Sendable {
  /// Ends the connection.
  case quit
  /// Selects the database of the requests that follow.
  case use(NamespaceName)
  /// Registers a write for the end of the connection, or cancels earlier ones; with the text of the
  /// request.
  case onDisconnect(DisconnectRequest, text: String)
}

/// A reference to a user in a request.
public enum UserReference: Equatable, Sendable {
  /// The caller.
  case me
  /// A user name: `@name`.
  case username(String)
  /// A user id: any other text.
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

/// The requested page of a list.
public struct PageRequest: Equatable, Sendable {
  /// The most entries; nil for the default number.
  public var limit: Int64?
  /// The entry after which the page begins, exclusive; nil for the start of the list.
  public var before: Key?
}

/// The options of a GET.
public struct GetOptions: Equatable, Sendable {
  /// A query, of which most requests have none. Inline it would make each request twice as large.
  private indirect enum Box: Equatable {
    case query(Query)
  }

  /// The query if it is not `all`.
  private var box: Box?
  /// The query.
  public var query: Query {
    get { if case .query(let query) = box { query } else { .all } }
    set { box = newValue == .all ? nil : .query(newValue) }
  }
  /// Whether the request has a query. The result is then in the query's order, even if it contains
  /// all children.
  public var hasQuery = false
  /// Whether branches are returned as `true`.
  public var isShallow = false
  /// Whether priorities are included.
  public var isExport = false
  /// Whether the ETag is included.
  public var wantsETag = false

  /// Creates the default options: the whole value.
  public init() {}
}

/// A request to explain the rules' verdict on another request, which is not executed.
public struct ExplainRequest: Sendable {
  /// The caller of the explained request.
  public enum Caller: Sendable {
    /// An anonymous caller.
    case anonymous
    /// A user.
    case user(UserReference)
    /// A caller with this `auth` in rules.
    case auth(Node)
  }

  /// The explained operation.
  public enum Operation: Sendable {
    /// Reads or listens.
    case read(Path, Query)
    /// Replaces or removes a value.
    case set(Location, WriteValue)
    /// Sets several locations.
    case update(Path, [Request.Update])
  }

  /// The caller of the explained request.
  public var caller: Caller
  /// The explained operation.
  public var operation: Operation
}
