public import CanopyTree

/// The options of a LISTEN.
public struct ListenOptions: Equatable, Sendable {
  /// The query.
  public var query = Query.all
  /// The form of the events.
  public var form = EventForm.child
  /// The last commit that the client has received completely; nil to start from the current state.
  public var since: Int64?

  /// Creates options.
  public init(query: Query = .all, form: EventForm = .child, since: Int64? = nil) {
    self.query = query
    self.form = form
    self.since = since
  }
}

/// A list or a post of the blog that a client can watch.
public enum WatchTarget: Sendable, Equatable {
  /// The newest posts.
  case recent
  /// The newest posts of a user.
  case posts(UserReference)
  /// The posts with the most stars, of one user or of all.
  case top(UserReference?)
  /// One post.
  case show(id: Key)
  /// The newest comments on a post.
  case comments(id: Key)
}

/// The options of a WATCH.
public struct WatchOptions: Equatable, Sendable {
  /// The most entries; nil for the default number.
  public var limit: Int64?
  /// The last commit that the client has received completely; nil to start from the current state.
  public var since: Int64?
}

/// A change of the writes for the end of the connection.
public enum DisconnectRequest: Sendable {
  /// Registers the replacement of a value.
  case set(Location, WriteValue)
  /// Registers an update of several locations.
  case update(Path, [Request.Update])
  /// Cancels the registered writes at and below the path.
  case cancel(Path)
}
