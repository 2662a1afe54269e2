public import CanopyTree

/// The form in which a journal stores what a commit writes: JSON text that was read back and compared, so
/// that nothing is journaled which cannot be read.
///
/// The text of assignments as `AssignmentCodec` writes it, and that of the before-image as
/// `BeforeImageCodec` does.
public struct CommitText: Sendable {
  private let bytes: [UInt8]
  /// Bytes of the assignments; those of the before-image follow.
  private let bodyCount: Int

  /// Bytes up to which a commit carries its text to the journal. The text of a larger commit is written
  /// again there, as the commits of a batch wait for the journal together.
  static let carriedBytesMax = 16 * 1024

  /// Writes the text and reads it back. O(bytes).
  ///
  /// A before-image that is large or does not read back is left out: then nobody can resume over the
  /// commit, and nothing else depends on it.
  ///
  /// - Parameters:
  ///   - assignments: see `Commit.assignments`; in another order they are put into that of their locations,
  ///     in which they are read.
  ///   - beforeImage: see `Commit.beforeImage`.
  ///   - scratch: is overwritten; so one output serves for many commits.
  /// - Throws: `EngineError.unstorable` when the assignments do not read back.
  public init(
    _ assignments: [Assignment], beforeImage: [Assignment]?, scratch: inout JSONOutput
  ) throws(EngineError) {
    let ordered = assignments.sorted { $0.location < $1.location }
    bodyCount = try CommitText.write(ordered, beforeImage, &scratch)
    bytes = scratch.bytes
  }

  /// Writes the text and reads it back. Returns the bytes of the assignments; those of the before-image
  /// follow in the output.
  private static func write(
    _ assignments: [Assignment], _ beforeImage: [Assignment]?, _ output: inout JSONOutput
  ) throws(EngineError) -> Int {
    output.removeAll()
    AssignmentCodec.encode(assignments, to: &output)
    let bodyCount = output.count
    guard output.withBytes({ AssignmentCodec.decodes($0, as: assignments) }) else {
      throw .unstorable
    }
    guard let beforeImage, BeforeImageCodec.append(beforeImage, of: assignments, to: &output) else {
      return bodyCount
    }
    let isReadable = output.withBytes {
      BeforeImageCodec.decodes(
        UnsafeRawBufferPointer(rebasing: $0[bodyCount...]), as: beforeImage, of: assignments)
    }
    if !isReadable { output.truncate(to: bodyCount) }
    return bodyCount
  }

  /// As `init`, with nil for a text that is too large to be carried.
  static func carried(
    _ assignments: [Assignment], beforeImage: [Assignment]?, scratch: inout JSONOutput
  ) throws(EngineError) -> CommitText? {
    let bodyCount = try write(assignments, beforeImage, &scratch)
    guard scratch.count <= carriedBytesMax else { return nil }
    return CommitText(bytes: scratch.bytes, bodyCount: bodyCount)
  }

  private init(bytes: [UInt8], bodyCount: Int) {
    self.bytes = bytes
    self.bodyCount = bodyCount
  }

  /// Calls `body` with the text of the assignments and that of the before-image; nil if it is not kept.
  public func withBytes<R>(
    _ body: (UnsafeRawBufferPointer, UnsafeRawBufferPointer?) throws -> R
  ) rethrows -> R {
    try bytes.withUnsafeBytes { bytes in
      let image = UnsafeRawBufferPointer(rebasing: bytes[bodyCount...])
      return try body(
        UnsafeRawBufferPointer(rebasing: bytes[..<bodyCount]), image.isEmpty ? nil : image)
    }
  }
}
