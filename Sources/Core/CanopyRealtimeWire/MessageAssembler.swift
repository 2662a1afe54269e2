/// Joins the frames of a client into messages.
///
/// A frame that is only a decimal number n announces that the next n frames are one message. `0` is a sign of life.
/// A value without I/O.
public struct MessageAssembler: Sendable {
  /// The outcome of a frame.
  public enum Outcome {
    /// The frame completes a message, whose bytes are valid during the call.
    case message(UnsafeRawBufferPointer)
    /// The frame is a sign of life, or a part of a message.
    case incomplete
    /// The last frame of a message that is too large, with the number of its request if the message begins with it.
    case tooLarge(number: Int64?)
    /// The number of frames is not possible.
    case invalid
  }

  /// The most bytes of a message.
  private let bytesMax: Int
  /// The frames that are missing.
  private var framesLeft = 0
  private var parts: [UInt8] = []
  /// The bytes of the message, with those that were dropped.
  private var bytes = 0

  /// Creates an assembler.
  ///
  /// - Parameter bytesMax: the most bytes of a message.
  public init(bytesMax: Int) {
    self.bytesMax = bytesMax
  }

  /// The bytes that are kept.
  public var keptBytes: Int { parts.count }

  /// The most frames of a message: sixteen times as many as official clients send.
  public var framesMax: Int { 16 * (1 + bytesMax / MessageFrames.charactersMax) }

  /// Takes the text of a frame. Calls `body` once with the outcome.
  ///
  /// - Complexity: O(bytes).
  public mutating func receive(_ frame: UnsafeRawBufferPointer, _ body: (Outcome) -> Void) {
    if framesLeft == 0 {
      if let count = MessageAssembler.frameCount(frame) {
        guard count <= framesMax else { return body(.invalid) }
        framesLeft = count
        return body(.incomplete)
      }
      guard frame.count <= bytesMax else {
        return body(.tooLarge(number: ClientMessage.number(inBeginning: frame)))
      }
      return body(.message(frame))
    }
    framesLeft -= 1
    bytes += frame.count
    if bytes <= bytesMax {
      parts.append(contentsOf: frame)
    } else if parts.count < MessageAssembler.headBytes {
      parts.append(contentsOf: frame.prefix(MessageAssembler.headBytes))
    } else if parts.count > MessageAssembler.headBytes {
      // The beginning is enough for an answer.
      parts = Array(parts.prefix(MessageAssembler.headBytes))
    }
    guard framesLeft == 0 else { return body(.incomplete) }
    let (whole, size) = (parts, bytes)
    parts = []
    bytes = 0
    guard size <= bytesMax else {
      return body(.tooLarge(number: ClientMessage.number(inBeginning: whole)))
    }
    whole.withUnsafeBytes { body(.message($0)) }
  }

  /// The number of bytes that are kept of a message that is too large.
  private static let headBytes = 256

  /// Returns the number in a frame that is nothing else; nil for a frame with a message.
  private static func frameCount(_ frame: UnsafeRawBufferPointer) -> Int? {
    guard (1...6).contains(frame.count) else { return nil }
    var number = 0
    for byte in frame {
      guard (0x30...0x39).contains(byte) else { return nil }
      number = 10 * number + Int(byte - 0x30)
    }
    return number
  }
}
