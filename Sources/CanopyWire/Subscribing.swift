public import CanopyTree

/// The forms in which LISTEN tells what changes.
public enum EventForm: String, Sendable, CaseIterable {
  /// Each child that was removed, added, moved or changed.
  case child
  /// The whole value.
  case value
  /// What a copy needs to stay equal.
  case sync
}

/// What a LISTEN wants besides the path.
public struct ListenOptions: Equatable, Sendable {
  /// Which children.
  public var query = Query.all
  /// The form of the events.
  public var form = EventForm.child
  /// The last commit of which the client was told everything; nil for a new beginning.
  public var since: Int64?
}

/// A list of the blog that can be watched.
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

/// What a WATCH wants besides the list.
public struct WatchOptions: Equatable, Sendable {
  /// How many entries; nil for the usual number.
  public var limit: Int64?
  /// The last commit of which the client was told everything; nil for a new beginning.
  public var since: Int64?
}

/// What is to be written, or no longer to be written, when the connection ends.
public enum DisconnectRequest: Sendable {
  /// To replace.
  case set(Location, WriteValue)
  /// To set several.
  case update(Path, [Request.Update])
  /// Nothing, at and below the path: takes back what was asked before.
  case cancel(Path)
}
