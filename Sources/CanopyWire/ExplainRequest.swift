public import CanopyTree

/// A request that is not carried out: what would the rules say of it?
public struct ExplainRequest: Sendable {
  /// Whose request it would be.
  public enum Caller: Sendable {
    /// Of a connection without a login.
    case nobody
    /// A user's.
    case user(UserReference)
    /// Of whoever rules would know as this.
    case auth(Node)
  }

  /// What would be asked for.
  public enum Operation: Sendable {
    /// To read, or to listen.
    case read(Path, Query)
    /// To replace, or to remove.
    case set(Location, WriteValue)
    /// To set several.
    case update(Path, [Request.Update])
  }

  /// Whose request it would be.
  public var who: Caller
  /// What would be asked for.
  public var operation: Operation
}
