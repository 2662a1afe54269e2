/// Cuts what arrives into lines.
///
/// A line ends in LF; a CR before it is dropped. Lines that lie whole in one piece are handed on where
/// they lie; only what a piece leaves unfinished is copied and kept. However the bytes are cut into
/// pieces, the lines are the same.
public struct LineDecoder: Sendable {
  /// What one piece came to.
  public enum Outcome: Equatable, Sendable {
    /// All its lines were handed on.
    case done
    /// The consumer wanted no more: so many bytes of the piece are used up, and the rest is to be fed
    /// again later.
    case stopped(consumed: Int)
    /// A line is longer than the bound. Nothing can be read any more.
    case tooLong
  }

  private let lineBytesMax: Int
  private var partial: [UInt8] = []

  /// A decoder.
  ///
  /// - Parameter lineBytesMax: the most bytes in a line, its end not counted.
  public init(lineBytesMax: Int) {
    self.lineBytesMax = lineBytesMax
  }

  /// Bytes of an unfinished line that are kept.
  public var keptBytes: Int { partial.count }

  /// Takes the next piece.
  ///
  /// - Parameter body: gets each line, valid during the call, without its end; empty lines are left
  ///   out. Returns whether it wants more.
  public mutating func feed(
    _ piece: UnsafeRawBufferPointer, _ body: (UnsafeRawBufferPointer) -> Bool
  ) -> Outcome {
    var start = 0
    while start < piece.count {
      guard let end = LineDecoder.firstLineFeed(piece, from: start) else {
        // One byte more than the bound may be a CR that turns out to belong to the end.
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
