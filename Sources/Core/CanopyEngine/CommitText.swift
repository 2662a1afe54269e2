public import CanopyTree

/// The form in which a journal stores a commit: JSON text that was read back and compared, so that the journal stores
/// only text that it can read.
///
/// `AssignmentCodec` encodes the assignments, and `BeforeImageCodec` the before-image.
public struct CommitText: Sendable {
  private let bytes: [UInt8]
  /// Bytes of the assignments; the bytes of the before-image follow.
  private let bodyCount: Int

  /// The number of bytes of both texts.
  var byteCount: Int { bytes.count }

  /// Whether the text has the before-image.
  var hasBeforeImage: Bool { bytes.count > bodyCount }

  /// The bytes of the assignments less those of the before-image.
  var growth: Int { bodyCount - (bytes.count - bodyCount) }

  /// Bytes up to which every commit carries its text to the journal.
  static let carriedBytesMax = 16 * 1024

  /// Bytes of the larger texts that the commits of a batch carry together, because all of them are in memory at once.
  /// The journal encodes the others again.
  static let largeBytesMax = 16 * 1024 * 1024

  /// Encodes the text and reads it back. O(bytes).
  ///
  /// A before-image that is large or does not read back is left out. Then no listener can resume over the
  /// commit; nothing else depends on it.
  ///
  /// - Parameters:
  ///   - assignments: see `Commit.assignments`. They are encoded in the order of their locations.
  ///   - beforeImage: see `Commit.beforeImage`.
  ///   - scratch: memory that is overwritten, so that one output serves many commits.
  /// - Throws: `EngineError.unstorable` if the assignments do not read back.
  public init(
    _ assignments: [Assignment], beforeImage: [Assignment]?, scratch: inout JSONOutput
  ) throws(EngineError) {
    let ordered = assignments.sorted { $0.location < $1.location }
    bodyCount = try CommitText.write(ordered, of: nil, beforeImage, bytesMax: .max, &scratch)
    bytes = scratch.bytes
  }

  /// Encodes the text and reads it back. Returns the bytes of the assignments; the bytes of the before-image
  /// follow in the output.
  private static func write(
    _ assignments: [Assignment], of write: Write?, _ beforeImage: [Assignment]?,
    bytesMax: Int, _ output: inout JSONOutput
  ) throws(EngineError) -> Int {
    output.removeAll()
    guard AssignmentCodec.encode(assignments, of: write, to: &output, bytesMax: bytesMax) else {
      throw .commitTooLarge
    }
    let bodyCount = output.count
    guard output.withBytes({ AssignmentCodec.decodes($0, as: assignments, of: write) }) else {
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

  /// Encodes the text and reads it back, as `init` does. Returns nil if the text is too large to be carried.
  ///
  /// - Parameters:
  ///   - write: the write that the assignments come from; nil if there are several.
  ///   - bytesMax: the most bytes of the assignments.
  ///   - largeBytes: the bytes of large texts that the batch may still carry.
  /// - Throws: `EngineError.unstorable` and `.commitTooLarge`.
  static func carried(
    _ assignments: [Assignment], of write: Write?, beforeImage: [Assignment]?, bytesMax: Int,
    largeBytes: inout Int, scratch: inout JSONOutput
  ) throws(EngineError) -> CommitText? {
    let bodyCount = try CommitText.write(
      assignments, of: write, beforeImage, bytesMax: bytesMax, &scratch)
    if scratch.count > carriedBytesMax {
      guard scratch.count <= largeBytes else { return nil }
      largeBytes -= scratch.count
    }
    return CommitText(bytes: scratch.bytes, bodyCount: bodyCount)
  }

  private init(bytes: [UInt8], bodyCount: Int) {
    self.bytes = bytes
    self.bodyCount = bodyCount
  }

  /// Calls `body` with the text of the assignments, and with the text of the before-image or nil if it is left out.
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
