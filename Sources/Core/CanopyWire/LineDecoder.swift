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

  /// The number of bytes in a block of an unfinished line. Equal blocks are easy for the allocator to reuse. Growing
  /// one array would copy the line each time, and the memory would hold it twice meanwhile.
  public static let blockBytes = 64 * 1024

  private static let carriageReturn = UInt8(ascii: "\r")

  private let lineBytesMax: Int
  /// The full blocks of the unfinished line.
  private var blocks: [[UInt8]] = []
  /// The bytes of the unfinished line behind its full blocks.
  private var partial: [UInt8] = []

  /// Creates a decoder.
  ///
  /// - Parameter lineBytesMax: the longest line, in bytes without its terminator.
  public init(lineBytesMax: Int) {
    self.lineBytesMax = lineBytesMax
  }

  /// The bytes of an unfinished line that are kept.
  public var keptBytes: Int { blocks.count * LineDecoder.blockBytes + partial.count }

  /// The memory of an unfinished line, in bytes: its blocks, of which the last one grows by doubling.
  public var keptMemory: Int {
    blocks.count * LineDecoder.blockBytes + (partial.isEmpty ? 0 : partial.capacity)
  }

  /// Drops the unfinished line, because the input ends.
  public mutating func drop() {
    blocks = []
    partial = []
  }

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
        guard keptBytes + piece.count - start - 1 <= lineBytesMax else { return .tooLong }
        keep(piece[start...])
        return .done
      }
      let wantsMore: Bool
      if keptBytes == 0 {
        let hasReturn = end > start && piece[end - 1] == LineDecoder.carriageReturn
        let line = UnsafeRawBufferPointer(rebasing: piece[start..<(hasReturn ? end - 1 : end)])
        guard line.count <= lineBytesMax else { return .tooLong }
        wantsMore = line.isEmpty || body(line)
      } else {
        let line = takeLine(endingWith: piece[start..<end])
        guard line.count <= lineBytesMax else { return .tooLong }
        wantsMore = line.isEmpty || line.withUnsafeBytes(body)
      }
      start = end + 1
      if !wantsMore, start < piece.count { return .stopped(consumed: start) }
    }
    return .done
  }

  /// Appends bytes to the unfinished line.
  private mutating func keep(_ bytes: Slice<UnsafeRawBufferPointer>) {
    var rest = bytes
    while !rest.isEmpty {
      let part = rest.prefix(LineDecoder.blockBytes - partial.count)
      let count = partial.count + part.count
      if count > partial.capacity {
        // Only the first block grows step by step: most lines are short.
        let room = blocks.isEmpty ? max(count, 2 * partial.capacity) : LineDecoder.blockBytes
        partial.reserveCapacity(min(room, LineDecoder.blockBytes))
      }
      partial.append(contentsOf: part)
      rest = rest.dropFirst(part.count)
      if partial.count == LineDecoder.blockBytes {
        blocks.append(partial)
        partial = []
      }
    }
  }

  /// Returns the line in one piece, without the CR of its terminator, and keeps nothing.
  private mutating func takeLine(endingWith end: Slice<UnsafeRawBufferPointer>) -> [UInt8] {
    var line: [UInt8] = []
    if blocks.isEmpty {
      swap(&line, &partial)
    } else {
      line.reserveCapacity(keptBytes + end.count)
      for block in blocks { line += block }
      line += partial
      drop()
    }
    line.append(contentsOf: end)
    if line.last == LineDecoder.carriageReturn { line.removeLast() }
    return line
  }

  private static func firstLineFeed(_ bytes: UnsafeRawBufferPointer, from start: Int) -> Int? {
    bytes[start...].firstIndex(of: UInt8(ascii: "\n"))
  }
}
