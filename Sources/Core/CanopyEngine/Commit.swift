public import CanopyTree

/// One step in the history of the database: the assignments that it made, and its number.
public struct Commit: Sendable, Equatable {
  /// The sequence number: the first commit has 1, each further one the next number.
  public var sequence: Int64
  /// The time at which it was accepted, in milliseconds since 1970 by the server's clock.
  public var time: Int64
  /// The locations that it set, with their values, as `Tree.apply` returns them: server values are resolved, the
  /// locations are in order and do not overlap. They may be applied again.
  public var assignments: [Assignment] { didSet { text = nil } }
  /// The assignments that undo it: see `Tree.beforeImage`. Nil if they are not known, or no longer; then no listener can
  /// resume over this commit.
  public var beforeImage: [Assignment]? { didSet { text = nil } }
  /// The on-disconnect writes that this commit makes, and those that were refused while it was decided. The journal
  /// removes them in the same step, and does not store this field.
  public var completedDisconnectWrites: [DisconnectWriteID]

  /// The time in the greatest key that the engine has made, in milliseconds since 1970, if it is after `time` because
  /// the clock was set back. The journal stores only the greatest one.
  public var keyTime: Int64?

  /// The client and its number of the write, if the client may send it again. The journal stores it in the same step.
  public var origin: WriteOrigin?

  /// The part for other engines; nil if the journal has one engine.
  public var note: CommitNote?

  /// The text of the assignments and of the before-image, if the engine has encoded it already. It follows from the
  /// other fields, so equality ignores it.
  private(set) var text: CommitText?

  /// The bytes that this commit adds to the memory of the tree; nil without a bound, and for a commit of another engine.
  /// Equality ignores it.
  public internal(set) var treeGrowth: TreeGrowth?

  /// Creates a commit.
  public init(
    sequence: Int64, time: Int64, assignments: [Assignment], beforeImage: [Assignment]? = nil,
    completedDisconnectWrites: [DisconnectWriteID] = [], keyTime: Int64? = nil,
    origin: WriteOrigin? = nil, note: CommitNote? = nil
  ) {
    self.sequence = sequence
    self.time = time
    self.assignments = assignments
    self.beforeImage = beforeImage
    self.completedDisconnectWrites = completedDisconnectWrites
    self.keyTime = keyTime
    self.origin = origin
    self.note = note
  }

  init(
    sequence: Int64, time: Int64, assignments: [Assignment], beforeImage: [Assignment]?,
    completedDisconnectWrites: [DisconnectWriteID], keyTime: Int64?, origin: WriteOrigin?,
    note: CommitNote?, text: CommitText?
  ) {
    self.init(
      sequence: sequence, time: time, assignments: assignments, beforeImage: beforeImage,
      completedDisconnectWrites: completedDisconnectWrites, keyTime: keyTime, origin: origin,
      note: note)
    self.text = text
  }

  /// Returns the text to store, which is proven to read back. O(1) if the engine has encoded it, and O(bytes)
  /// otherwise.
  ///
  /// - Parameter scratch: memory that may be overwritten.
  /// - Throws: `EngineError.unstorable` if the commit would not read back.
  public func storedText(scratch: inout JSONOutput) throws(EngineError) -> CommitText {
    if let text { return text }
    return try CommitText(assignments, beforeImage: beforeImage, scratch: &scratch)
  }

  /// The same commit without its text.
  var withoutText: Commit {
    var commit = self
    commit.text = nil
    return commit
  }

  /// Whether both are the same step in the history.
  public static func == (a: Commit, b: Commit) -> Bool {
    a.sequence == b.sequence && a.time == b.time && a.assignments == b.assignments
      && a.beforeImage == b.beforeImage && a.keyTime == b.keyTime && a.origin == b.origin
      && a.completedDisconnectWrites == b.completedDisconnectWrites && a.note == b.note
  }
}
