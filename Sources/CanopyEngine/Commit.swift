public import CanopyTree

/// One step of the database's history: what was written, and its place in the one order.
public struct Commit: Sendable, Equatable {
  /// The sequence number: the first commit has 1, each further one the next number.
  public var sequence: Int64
  /// When it was accepted: milliseconds since 1970 by the server's clock.
  public var time: Int64
  /// What it set, with all server values resolved, in the order of their locations; they do not
  /// overlap. As `Tree.apply` returns them, so that they may be applied again.
  public var assignments: [Assignment]
  /// What takes it back: see `Tree.beforeImage`. Nil where that is not known (any more); then nobody
  /// can be told exactly what this commit changed for them.
  public var beforeImage: [Assignment]?
  /// The on-disconnect write that this carries out, which the journal forgets in the same step. Not
  /// kept with the commit.
  public var settles: DisconnectWriteID?

  /// The time in the greatest key that the engine has made, in milliseconds since 1970, where that is after
  /// `time`: the clock was set back. The journal keeps the greatest one, not each with its commit.
  public var keyTime: Int64?

  /// Which write of which client this is, where it said so; the journal remembers it in the same step.
  public var origin: WriteOrigin?

  /// A commit.
  public init(
    sequence: Int64, time: Int64, assignments: [Assignment], beforeImage: [Assignment]? = nil,
    settles: DisconnectWriteID? = nil, keyTime: Int64? = nil, origin: WriteOrigin? = nil
  ) {
    self.sequence = sequence
    self.time = time
    self.assignments = assignments
    self.beforeImage = beforeImage
    self.settles = settles
    self.keyTime = keyTime
    self.origin = origin
  }
}
