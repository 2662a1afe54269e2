public import CanopyTree

/// The frames of a message whose beginning differs between the listeners that get it: a short head for each of them, and
/// a rest that all share.
///
/// The first frame with text has the beginning and the first part of the message. A message that may be too long for
/// one frame has a frame with the number of frames before it.
public struct SharedFrames: Sendable {
  /// The bytes after the head.
  public let rest: [UInt8]
  private let beginningBytesMax: Int
  /// The number of frames with text.
  private let frameCount: Int
  /// The bytes of the first frame after the beginning.
  private let firstBytes: Int

  /// Creates the frames of a message. O(bytes).
  ///
  /// - Parameters:
  ///   - message: the message without its beginning.
  ///   - beginningBytesMax: the most bytes of a beginning, less than those of a frame.
  public init(_ message: UnsafeRawBufferPointer, beginningBytesMax: Int) {
    self.beginningBytesMax = beginningBytesMax
    let room = MessageFrames.charactersMax - beginningBytesMax
    firstBytes = MessageFrames.pieceEnd(message, from: 0, bytesMax: room)
    var output = JSONOutput(capacity: message.count + message.count / 1024 + 16)
    output.append(UnsafeRawBufferPointer(rebasing: message[..<firstBytes]))
    var count = 1
    var start = firstBytes
    while start < message.count {
      let end = MessageFrames.pieceEnd(message, from: start)
      MessageFrames.append(
        frame: UnsafeRawBufferPointer(rebasing: message[start..<end]), to: &output)
      count += 1
      start = end
    }
    frameCount = count
    rest = output.bytes
  }

  /// Appends the head for a listener: everything before `rest`.
  public func appendHead(_ beginning: UnsafeRawBufferPointer, to output: inout JSONOutput) {
    assert(beginning.count <= beginningBytesMax, "the beginning is too long for the first frame")
    if frameCount > 1 { MessageFrames.append(frameCount: frameCount, to: &output) }
    MessageFrames.appendHead(bytes: beginning.count + firstBytes, to: &output)
    output.append(beginning)
  }
}
