/// Splits input into lines.
///
/// A line ends in LF; a CR before it is dropped. A line that is complete in one piece is passed to the
/// caller without a copy; only an unfinished line is copied and kept. The lines do not depend on how the
/// bytes are split into pieces.
public struct LineDecoder: Sendable {
  /// The outcome of one piece.
  public enum Outcome: Equatable, Sendable {
    /// All lines of the piece were passed on.
    case done
    /// The consumer stopped after this many bytes of the piece. Feed the rest again later.
    case stopped(consumed: Int)
    /// A line exceeds the limit. The decoder cannot continue.
    case tooLong
  }

  private let lineBytesMax: Int
  private var partial: [UInt8] = []

  /// Creates a decoder.
  ///
  /// - Parameter lineBytesMax: the longest line, in bytes without its terminator.
  public init(lineBytesMax: Int) {
    self.lineBytesMax = lineBytesMax
  }

  /// The bytes of an unfinished line that are kept.
  public var keptBytes: Int { partial.count }

  /// The memory of an unfinished line, in bytes. The buffer grows by doubling, so it may have twice the bytes of
  /// the line.
  public var keptMemory: Int { partial.isEmpty ? 0 : partial.capacity }

  /// Decodes the next piece.
  ///
  /// - Parameter body: receives each line without its terminator, valid during the call, and
  ///   returns whether to continue. Empty lines are skipped.
  public mutating func feed(
    _ piece: UnsafeRawBufferPointer, _ body: (UnsafeRawBufferPointer) -> Bool
  ) -> Outcome {
    var start = 0
    while start < piece.count {
      guard let end = LineDecoder.firstLineFeed(piece, from: start) else {
        // One byte more than the limit may be the CR of the terminator.
        guard partial.count + piece.count - start - 1 <= lineBytesMax else { return .tooLong }
        partial.append(contentsOf: piece[start...])
        return .done
      }
      var wantsMore = true
      let fits: Bool
      if partial.isEmpty {
        fits = deliver(UnsafeRawBufferPointer(rebasing: piece[start..<end]), &wantsMore, body)
      } else {
        partial.append(contentsOf: piece[start..<end])
        var line: [UInt8] = []
        swap(&line, &partial)
        fits = line.withUnsafeBytes { deliver($0, &wantsMore, body) }
      }
      guard fits else { return .tooLong }
      start = end + 1
      if !wantsMore, start < piece.count { return .stopped(consumed: start) }
    }
    return .done
  }

  private func deliver(
    _ bytes: UnsafeRawBufferPointer, _ wantsMore: inout Bool,
    _ body: (UnsafeRawBufferPointer) -> Bool
  ) -> Bool {
    let hasReturn = bytes.last == UInt8(ascii: "\r")
    let line = UnsafeRawBufferPointer(rebasing: bytes.dropLast(hasReturn ? 1 : 0))
    guard line.count <= lineBytesMax else { return false }
    if !line.isEmpty { wantsMore = body(line) }
    return true
  }

  private static func firstLineFeed(_ bytes: UnsafeRawBufferPointer, from start: Int) -> Int? {
    bytes[start...].firstIndex(of: UInt8(ascii: "\n"))
  }
}
