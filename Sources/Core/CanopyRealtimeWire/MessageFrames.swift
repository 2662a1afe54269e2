public import CanopyTree

/// The frames of the messages of a server, as bytes: WebSocket frames with text.
///
/// A message of at most `charactersMax` characters is one frame. A longer one is a frame with a number, and as many
/// frames with the pieces of the message.
public enum MessageFrames {
  /// The most characters of a frame: UTF-16 code units. A server's frame has as many bytes at most.
  public static let charactersMax = 16_384

  /// The most bytes of the head of a frame with at most `charactersMax` bytes.
  public static let headBytesMax = 4

  private static let text: UInt8 = 0x81

  /// Appends a control frame, such as a pong (0xA) or the end of the connection (0x8).
  ///
  /// - Precondition: `bytes` has at most 125 bytes.
  public static func append(
    control opcode: UInt8, _ bytes: UnsafeRawBufferPointer, to output: inout JSONOutput
  ) {
    assert(bytes.count < 126, "a control frame is too long")
    appendHead(0x80 | opcode, bytes: bytes.count, to: &output)
    output.append(bytes)
  }

  /// Appends a part of a text message that has no numbers of frames: a message of the line protocol.
  public static func append(
    fragment bytes: [UInt8], isFirst: Bool, isLast: Bool, to output: inout JSONOutput
  ) {
    appendHead((isFirst ? 0x01 : 0x00) | (isLast ? 0x80 : 0), bytes: bytes.count, to: &output)
    bytes.withUnsafeBytes { output.append($0) }
  }

  /// Appends the head of a frame of a server.
  ///
  /// - Parameter kind: the first byte: whether it is the last of its message, and its opcode.
  static func appendHead(
    _ kind: UInt8 = text, bytes count: Int, to output: inout JSONOutput
  ) {
    output.append(kind)
    if count < 126 {
      output.append(UInt8(truncatingIfNeeded: count))
    } else if count <= Int(UInt16.max) {
      output.append(UInt8(126))
      output.append(UInt8(truncatingIfNeeded: count >> 8))
      output.append(UInt8(truncatingIfNeeded: count))
    } else {
      output.append(UInt8(127))
      for shift in stride(from: 56, through: 0, by: -8) {
        output.append(UInt8(truncatingIfNeeded: count >> shift))
      }
    }
  }

  /// Appends a frame with a part of a message.
  static func append(frame bytes: UnsafeRawBufferPointer, to output: inout JSONOutput) {
    appendHead(bytes: bytes.count, to: &output)
    output.append(bytes)
  }

  /// Appends the frame that says how many frames follow.
  static func append(frameCount count: Int, to output: inout JSONOutput) {
    let digits = String(count)
    appendHead(bytes: digits.utf8.count, to: &output)
    output.append(raw: digits)
  }

  /// Appends a message that consists of two parts, in one frame or several.
  ///
  /// - Complexity: O(bytes).
  public static func append(
    _ beginning: UnsafeRawBufferPointer, _ rest: UnsafeRawBufferPointer, to output: inout JSONOutput
  ) {
    let count = beginning.count + rest.count
    guard count > charactersMax else {
      appendHead(bytes: count, to: &output)
      output.append(beginning)
      output.append(rest)
      return
    }
    var whole = [UInt8]()
    whole.reserveCapacity(count)
    whole.append(contentsOf: beginning)
    whole.append(contentsOf: rest)
    whole.withUnsafeBytes { append(long: $0, to: &output) }
  }

  /// Appends a message, in one frame or several.
  public static func append(_ message: UnsafeRawBufferPointer, to output: inout JSONOutput) {
    append(message, UnsafeRawBufferPointer(start: nil, count: 0), to: &output)
  }

  /// Appends the message that `write` writes.
  public static func append(
    to output: inout JSONOutput, _ write: (inout JSONOutput) -> Void
  ) {
    var message = JSONOutput(capacity: 512)
    write(&message)
    message.withBytes { append($0, to: &output) }
  }

  private static func append(long message: UnsafeRawBufferPointer, to output: inout JSONOutput) {
    var ends: [Int] = []
    var start = 0
    while start < message.count {
      start = pieceEnd(message, from: start)
      ends.append(start)
    }
    append(frameCount: ends.count, to: &output)
    start = 0
    for end in ends {
      append(frame: UnsafeRawBufferPointer(rebasing: message[start..<end]), to: &output)
      start = end
    }
  }

  /// Returns the end of the frame that begins at an offset. Each frame must be valid UTF-8, so it ends with a whole
  /// character.
  static func pieceEnd(
    _ bytes: UnsafeRawBufferPointer, from start: Int, bytesMax: Int = MessageFrames.charactersMax
  ) -> Int {
    var end = min(start + bytesMax, bytes.count)
    guard end < bytes.count else { return end }
    // A character has at most four bytes.
    for _ in 0..<3 where end > start + 1 && bytes[end] & 0xC0 == 0x80 { end -= 1 }
    return end
  }
}

/// The frames of one message that is encoded piece by piece, and whose size is known only about.
///
/// The number of frames goes out first, so it is that of the largest size possible. When the message is complete, the
/// frames that are left are filled with spaces, which JSON allows after a value. If the message is larger than was
/// said, the last frame has all the rest.
public struct FrameStream: Sendable {
  private var framesLeft: Int
  private var hasBegun = false
  /// The bytes that no frame has yet.
  private var kept: [UInt8] = []

  /// Creates the frames of a message.
  ///
  /// - Parameter bytesMax: its size in bytes, or more.
  public init(bytesMax: Int) {
    // A frame may lack the last three bytes of a character.
    framesLeft = max(2, bytesMax / (MessageFrames.charactersMax - 3) + 1)
  }

  /// Appends the frames that can be completed.
  ///
  /// - Parameters:
  ///   - bytes: the next bytes of the message.
  ///   - isLast: whether the message ends with them.
  public mutating func append(
    _ bytes: UnsafeRawBufferPointer, isLast: Bool, to output: inout JSONOutput
  ) {
    if !hasBegun {
      hasBegun = true
      MessageFrames.append(frameCount: framesLeft, to: &output)
    }
    kept.append(contentsOf: bytes)
    var start = 0
    kept.withUnsafeBytes { kept in
      while framesLeft > 1, kept.count - start > MessageFrames.charactersMax {
        let end = MessageFrames.pieceEnd(kept, from: start)
        MessageFrames.append(
          frame: UnsafeRawBufferPointer(rebasing: kept[start..<end]), to: &output)
        framesLeft -= 1
        start = end
      }
      guard isLast else { return }
      MessageFrames.append(frame: UnsafeRawBufferPointer(rebasing: kept[start...]), to: &output)
      framesLeft -= 1
      start = kept.count
      while framesLeft > 0 {
        MessageFrames.appendHead(bytes: 1, to: &output)
        output.append(" ")
        framesLeft -= 1
      }
    }
    kept.removeFirst(start)
  }
}

extension MessageFrames {
  /// Returns the pieces of a message, each the text of one frame. A message of several pieces follows a frame with
  /// their number.
  ///
  /// - Complexity: O(pieces).
  public static func pieces(of message: UnsafeRawBufferPointer) -> [Range<Int>] {
    var pieces: [Range<Int>] = []
    var start = 0
    while start < message.count {
      let end = pieceEnd(message, from: start)
      pieces.append(start..<end)
      start = end
    }
    return pieces
  }
}
