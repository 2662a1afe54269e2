import CanopyTesting
import CanopyWire
import Testing

@Suite(.timeLimit(.minutes(20))) struct LineDecoderTests {
  /// The result of decoding some input.
  private struct Decoded: Equatable {
    var lines: [[UInt8]] = []
    var isTooLong = false
  }

  /// Returns the result by the definition, on all bytes at once.
  private static func expected(_ bytes: [UInt8], max: Int) -> Decoded {
    var result = Decoded()
    var line: [UInt8] = []
    for byte in bytes {
      guard byte == UInt8(ascii: "\n") else {
        line.append(byte)
        continue
      }
      if line.last == UInt8(ascii: "\r") { line.removeLast() }
      if line.count > max { return Decoded(lines: result.lines, isTooLong: true) }
      if !line.isEmpty { result.lines.append(line) }
      line = []
    }
    result.isTooLong = line.count > max + 1
    return result
  }

  /// Feeds pieces to a decoder. The consumer stops after the lines for which `stops` returns true.
  private static func decode(
    _ pieces: [[UInt8]], max: Int, stops: (Int) -> Bool = { _ in false }
  ) -> Decoded {
    var decoder = LineDecoder(lineBytesMax: max)
    var result = Decoded()
    for piece in pieces {
      var rest = piece
      feeding: while true {
        var hasStopped = false
        let outcome = rest.withUnsafeBytes { bytes in
          decoder.feed(bytes) { line in
            #expect(!hasStopped, "a line came after the consumer had said to stop")
            result.lines.append(Array(line))
            hasStopped = stops(result.lines.count)
            return !hasStopped
          }
        }
        #expect(outcome == .tooLong || decoder.keptBytes <= max + 1)
        switch outcome {
        case .done: break feeding
        case .tooLong:
          result.isTooLong = true
          return result
        case .stopped(let consumed):
          #expect(hasStopped && consumed > 0 && consumed < rest.count)
          rest.removeFirst(consumed)
        }
      }
    }
    return result
  }

  private static func texts(_ text: String, max: Int = 100) -> [String] {
    decode([Array(text.utf8)], max: max).lines.map { String(decoding: $0, as: UTF8.self) }
  }

  @Test func `a line ends in LF, and a CR before it is dropped`() {
    #expect(Self.texts("a\nb\r\nc") == ["a", "b"])
    #expect(Self.texts("a\rb\r\r\n") == ["a\rb\r"], "one CR alone, and only at the end")
  }

  @Test func `an empty line is skipped`() {
    #expect(Self.texts("\n\r\n\n\na\n\n") == ["a"])
    #expect(Self.texts(" \n") == [" "], "a space is not nothing")
  }

  @Test func `every split of some input into two pieces gives the same lines`() {
    let input = Array("PING\r\n\n\r\nSET /a \"é\r\"\n\r\r\nx\r\ny".utf8)
    let whole = Self.expected(input, max: 20)
    for first in 0...input.count {
      for second in first...input.count {
        let pieces = [input[..<first], input[first..<second], input[second...]].map(Array.init)
        #expect(Self.decode(pieces, max: 20) == whole)
      }
    }
  }

  @Test func `random input in random pieces gives the same lines, whenever the consumer stops`() {
    var random = SeededGenerator(printingSeedFor: "LineDecoderTests")
    let alphabet = Array("ab\r\n\n ".utf8)
    for _ in 0..<4_000 {
      let max = Int.random(in: 1...8, using: &random)
      let input = (0..<Int.random(in: 0...40, using: &random)).map { _ in
        alphabet.randomElement(using: &random) ?? 0
      }
      let expected = Self.expected(input, max: max)
      var pieces: [[UInt8]] = []
      var rest = input[...]
      while !rest.isEmpty {
        let piece = rest.prefix(Int.random(in: 1...9, using: &random))
        pieces.append(Array(piece))
        rest = rest.dropFirst(piece.count)
      }
      let stopped = Set((0..<40).filter { _ in Bool.random(using: &random) })
      let results = [
        Self.decode([input], max: max), Self.decode(input.map { [$0] }, max: max),
        Self.decode(pieces, max: max), Self.decode(pieces, max: max) { stopped.contains($0) },
      ]
      for result in results {
        #expect(result.lines == expected.lines)
        #expect(result.isTooLong == expected.isTooLong)
      }
    }
  }

  @Test(arguments: [1, 2, 1_000], [false, true])
  func `a line at the bound is accepted, and one byte more is too long`(
    _ max: Int, _ hasReturn: Bool
  ) {
    let end: [UInt8] = hasReturn ? [0x0D, 0x0A] : [0x0A]
    for excess in [0, 1] {
      let line = [UInt8](repeating: 0x78, count: max + excess)
      for pieces in [[line + end], (line + end).map { [$0] }, [line, end]] {
        let result = Self.decode(pieces, max: max)
        #expect(result.isTooLong == (excess == 1))
        #expect(result.lines == (excess == 0 ? [line] : []))
      }
    }
  }

  @Test func `an unterminated line is too long before more than the bound is kept`() {
    var decoder = LineDecoder(lineBytesMax: 100)
    let piece = [UInt8](repeating: 0x78, count: 7)
    for count in 1... {
      let outcome = piece.withUnsafeBytes { decoder.feed($0) { _ in true } }
      #expect(decoder.keptBytes <= 101)
      guard outcome == .done else {
        #expect(outcome == .tooLong)
        #expect(count == 15, "the first piece that goes past 101 bytes")
        return
      }
    }
  }

  @Test func `the memory of an unfinished line is that of its buffer, and ends with the line`() {
    var decoder = LineDecoder(lineBytesMax: 1_000_000)
    #expect(decoder.keptMemory == 0)
    var hasRoom = false
    for count in 1...200 {
      let piece = [UInt8](repeating: 0x78, count: 999)
      let outcome = piece.withUnsafeBytes { decoder.feed($0) { _ in true } }
      #expect(outcome == .done)
      #expect(decoder.keptBytes == count * 999)
      #expect(decoder.keptBytes...(2 * decoder.keptBytes + 4_096) ~= decoder.keptMemory)
      if decoder.keptMemory > decoder.keptBytes * 3 / 2 { hasRoom = true }
    }
    #expect(hasRoom, "the buffer is larger than the line at some time")
    let outcome = [UInt8(ascii: "\n")].withUnsafeBytes { decoder.feed($0) { _ in true } }
    #expect(outcome == .done && decoder.keptMemory == 0)
  }

  @Test(arguments: [-1, 0, 1, LineDecoder.blockBytes, 3 * LineDecoder.blockBytes + 7])
  func `a line of several blocks is whole, and takes at most a block more than its bytes`(
    _ more: Int
  ) {
    var random = SeededGenerator(printingSeedFor: "LineDecoderTests")
    let line = (0..<LineDecoder.blockBytes + more).map { _ in
      UInt8.random(in: 0x20...0x7E, using: &random)
    }
    var decoder = LineDecoder(lineBytesMax: line.count)
    var rest = (line + [UInt8(ascii: "\n")] + line)[...]
    var lines: [[UInt8]] = []
    while !rest.isEmpty {
      let piece = rest.prefix(Int.random(in: 1...40_000, using: &random))
      rest = rest.dropFirst(piece.count)
      let outcome = piece.withUnsafeBytes { bytes in
        decoder.feed(bytes) {
          lines.append(Array($0))
          return true
        }
      }
      #expect(outcome == .done)
      // The allocator rounds up.
      let most = decoder.keptBytes + LineDecoder.blockBytes + 4_096
      #expect(decoder.keptBytes...most ~= decoder.keptMemory)
    }
    #expect(lines == [line])
    #expect(decoder.keptBytes == line.count)
    decoder.drop()
    #expect(decoder.keptBytes == 0 && decoder.keptMemory == 0)
  }

  @Test func `the bound may be the largest integer`() {
    #expect(Self.decode([Array("PI".utf8), Array("NG\n".utf8)], max: .max - 1).lines.count == 1)
    var decoder = LineDecoder(lineBytesMax: .max)
    #expect(Array("PI".utf8).withUnsafeBytes { decoder.feed($0) { _ in true } } == .done)
  }

  @Test func `the lines before one that is too long are passed on`() {
    let result = Self.decode([Array("PING\nWHOAMI\nxxxxxxxxxx\n".utf8)], max: 8)
    #expect(result.lines.count == 2)
    #expect(result.isTooLong)
  }

  @Test func `a consumer that stops at the end of a piece has consumed it`() {
    var decoder = LineDecoder(lineBytesMax: 8)
    let outcome = Array("PING\n".utf8).withUnsafeBytes { decoder.feed($0) { _ in false } }
    #expect(outcome == .done)
    #expect(decoder.keptBytes == 0)
  }
}
