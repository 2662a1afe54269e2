public import CanopyTree

/// One step of the database's history: what was written, and its place in the one order.
public struct Commit: Sendable, Equatable {
  /// The sequence number: the first commit has 1, each further one the next number.
  public var sequence: Int64
  /// When it was accepted: milliseconds since 1970 by the server's clock.
  public var time: Int64
  /// What it set, with all server values resolved, in the order of their locations; they do not
  /// overlap. As `Tree.apply` returns them, so that they may be applied again.
  public var assignments: [Assignment] { didSet { text = nil } }
  /// What takes it back: see `Tree.beforeImage`. Nil where that is not known (any more); then nobody
  /// can be told exactly what this commit changed for them.
  public var beforeImage: [Assignment]? { didSet { text = nil } }
  /// The on-disconnect write that this carries out, which the journal forgets in the same step. Not
  /// kept with the commit.
  public var completedDisconnectWrite: DisconnectWriteID?

  /// The time in the greatest key that the engine has made, in milliseconds since 1970, where that is after
  /// `time`: the clock was set back. The journal keeps the greatest one, not each with its commit.
  public var keyTime: Int64?

  /// Which write of which client this is, where it said so; the journal remembers it in the same step.
  public var origin: WriteOrigin?

  /// The text of the assignments and of the before-image, where the engine has made it already. Part of
  /// neither equality nor history: it follows from the others.
  private(set) var text: CommitText?

  /// A commit.
  public init(
    sequence: Int64, time: Int64, assignments: [Assignment], beforeImage: [Assignment]? = nil,
    completedDisconnectWrite: DisconnectWriteID? = nil, keyTime: Int64? = nil,
    origin: WriteOrigin? = nil
  ) {
    self.sequence = sequence
    self.time = time
    self.assignments = assignments
    self.beforeImage = beforeImage
    self.completedDisconnectWrite = completedDisconnectWrite
    self.keyTime = keyTime
    self.origin = origin
  }

  init(
    sequence: Int64, time: Int64, assignments: [Assignment], beforeImage: [Assignment]?,
    completedDisconnectWrite: DisconnectWriteID?, keyTime: Int64?, origin: WriteOrigin?,
    text: CommitText?
  ) {
    self.init(
      sequence: sequence, time: time, assignments: assignments, beforeImage: beforeImage,
      completedDisconnectWrite: completedDisconnectWrite, keyTime: keyTime, origin: origin)
    self.text = text
  }

  /// Returns the text to store, which is proven to read back. O(1) where the engine has made it, and
  /// O(bytes) where not.
  ///
  /// - Parameter scratch: may be overwritten.
  /// - Throws: `EngineError.unstorable` when the commit would not read back.
  public func storedText(scratch: inout JSONOutput) throws(EngineError) -> CommitText {
    if let text { return text }
    return try CommitText(assignments, beforeImage: beforeImage, scratch: &scratch)
  }

  /// Whether both are the same step of the history.
  public static func == (a: Commit, b: Commit) -> Bool {
    a.sequence == b.sequence && a.time == b.time && a.assignments == b.assignments
      && a.beforeImage == b.beforeImage && a.completedDisconnectWrite == b.completedDisconnectWrite
      && a.keyTime == b.keyTime
      && a.origin == b.origin
  }
}
