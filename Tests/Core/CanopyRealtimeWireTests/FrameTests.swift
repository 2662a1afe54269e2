import CanopyTesting
import CanopyTree
import Testing

@testable import CanopyRealtimeWire

/// The frames of messages, in both directions.
struct FrameTests {
  /// Reads the frames of a server: their texts.
  private func texts(_ bytes: [UInt8]) -> [[UInt8]] {
    var texts: [[UInt8]] = []
    var rest = bytes[...]
    while let kind = rest.popFirst() {
      #expect(kind == 0x81)
      var count = Int(rest.popFirst() ?? 0)
      if count == 126 {
        count = rest.prefix(2).reduce(0) { $0 << 8 | Int($1) }
        rest = rest.dropFirst(2)
      } else if count == 127 {
        count = rest.prefix(8).reduce(0) { $0 << 8 | Int($1) }
        rest = rest.dropFirst(8)
      }
      texts.append(Array(rest.prefix(count)))
      #expect(texts.last?.count == count)
      rest = rest.dropFirst(count)
    }
    return texts
  }

  private func frames(_ message: [UInt8]) -> [[UInt8]] {
    var output = JSONOutput()
    message.withUnsafeBytes { MessageFrames.append($0, to: &output) }
    return texts(output.bytes)
  }

  @Test(arguments: [0, 1, 125, 126, 127, MessageFrames.charactersMax])
  func `a message of at most the size of a frame is one frame`(count: Int) {
    let message = [UInt8](repeating: 0x61, count: count)
    #expect(frames(message) == [message])
  }

  @Test(arguments: [1, 2, 3, 4])
  func `a longer message is a number and its pieces, each with whole characters`(
    width: Int
  ) {
    let character = ["a", "é", "€", "🌳"][width - 1]
    for count in [MessageFrames.charactersMax + 1, 3 * MessageFrames.charactersMax + 5] {
      let message = Array(String(repeating: character, count: count / width + 1).utf8)
      let frames = self.frames(message)
      #expect(frames.first == Array(String(frames.count - 1).utf8))
      #expect(frames.dropFirst().flatMap { $0 } == message)
      for frame in frames.dropFirst() {
        #expect(frame.count <= MessageFrames.charactersMax)
        #expect(String(validating: frame, as: UTF8.self) != nil)
      }
    }
  }

  @Test(arguments: [
    4, 16_000, MessageFrames.charactersMax - 20, MessageFrames.charactersMax, 50_000,
  ])
  func `messages with different beginnings share the frames after them`(count: Int) {
    let message = Array(String(repeating: "é", count: count / 2).utf8)
    let shared = message.withUnsafeBytes { SharedFrames($0, beginningBytesMax: 20) }
    for beginning in ["", "{\"t\":1,", String(repeating: "b", count: 20)] {
      let beginning = Array(beginning.utf8)
      var head = JSONOutput()
      beginning.withUnsafeBytes { shared.appendHead($0, to: &head) }
      #expect(head.count <= beginning.count + 8)
      var texts = self.texts(head.bytes + shared.rest)
      if texts.count > 1 {
        let announced = texts.removeFirst()
        #expect(announced == Array(String(texts.count).utf8))
      }
      #expect(texts.count > 1 || count <= MessageFrames.charactersMax - 20)
      #expect(texts.flatMap { $0 } == beginning + message)
      for text in texts {
        #expect(text.count <= MessageFrames.charactersMax)
        #expect(String(validating: text, as: UTF8.self) != nil)
      }
    }
  }

  @Test func `bytes that are not text are cut as well`() {
    let message = [UInt8](repeating: 0x80, count: 50_000)
    #expect(frames(message).dropFirst().flatMap { $0 } == message)
  }

  @Test func `a message that is encoded in pieces has the frames that were announced`() {
    var random = SeededGenerator(printingSeedFor: "pieces of a message")
    for _ in 0..<60 {
      let count = Int.random(in: 1...100_000, using: &random)
      let message = Array(
        String(repeating: random.pick(["a", "é", "🌳"]), count: count / 4 + 1).utf8)
      let excess = random.pick([-40_000, 0, 0, 1, 1000, 100_000])
      var stream = FrameStream(bytesMax: max(1, message.count + excess))
      var output = JSONOutput()
      var rest = message[...]
      repeat {
        let piece = Array(rest.prefix(Int.random(in: 0...70_000, using: &random)))
        rest = rest.dropFirst(piece.count)
        piece.withUnsafeBytes { stream.append($0, isLast: rest.isEmpty, to: &output) }
      } while !rest.isEmpty
      let frames = self.texts(output.bytes)
      #expect(frames.first == Array(String(frames.count - 1).utf8))
      let text = frames.dropFirst().flatMap { $0 }
      #expect(Array(text.prefix(message.count)) == message)
      #expect(text.dropFirst(message.count).allSatisfy { $0 == 0x20 })
      for frame in frames.dropFirst() { #expect(String(validating: frame, as: UTF8.self) != nil) }
    }
  }

  // MARK: From clients

  private enum Result: Equatable {
    case message([UInt8]), incomplete, tooLarge(Int64?), invalid
  }

  private func receive(_ assembler: inout MessageAssembler, _ text: String) -> Result {
    receive(&assembler, Array(text.utf8))
  }

  private func receive(_ assembler: inout MessageAssembler, _ frame: [UInt8]) -> Result {
    var result = Result.incomplete
    frame.withUnsafeBytes { bytes in
      assembler.receive(bytes) { outcome in
        switch outcome {
        case .message(let bytes): result = .message(Array(bytes))
        case .incomplete: result = .incomplete
        case .tooLarge(let number): result = .tooLarge(number)
        case .invalid: result = .invalid
        }
      }
    }
    return result
  }

  @Test func `a number announces the frames of one message`() {
    var assembler = MessageAssembler(bytesMax: 100)
    #expect(receive(&assembler, "0") == .incomplete)
    #expect(receive(&assembler, "{}") == .message(Array("{}".utf8)))
    #expect(receive(&assembler, "3") == .incomplete)
    #expect(receive(&assembler, "{\"a\"") == .incomplete)
    #expect(receive(&assembler, ":") == .incomplete)
    // Within a message a number is a part of it.
    #expect(receive(&assembler, "12") == .message(Array("{\"a\":12".utf8)))
    #expect(assembler.keptBytes == 0)
    #expect(receive(&assembler, "1234567") == .message(Array("1234567".utf8)))
  }

  @Test func `a message has a bound, and a larger one is dropped but for its number`() {
    let bytesMax = 1000
    var assembler = MessageAssembler(bytesMax: bytesMax)
    let head = #"{"t":"d","d":{"r":5,"a":"p""#
    let rest = String(repeating: "x", count: bytesMax - head.utf8.count)
    #expect(receive(&assembler, head + rest) == .message(Array((head + rest).utf8)))
    #expect(receive(&assembler, head + rest + "x") == .tooLarge(5))
    _ = receive(&assembler, "2")
    _ = receive(&assembler, head)
    #expect(receive(&assembler, rest) == .message(Array((head + rest).utf8)))
    _ = receive(&assembler, "4")
    for _ in 0..<3 {
      #expect(receive(&assembler, head + rest) == .incomplete)
      #expect(assembler.keptBytes <= bytesMax)
    }
    #expect(receive(&assembler, "") == .tooLarge(5))
    // The connection goes on.
    #expect(receive(&assembler, "{}") == .message(Array("{}".utf8)))
  }

  @Test func `the number of frames has a bound`() {
    var assembler = MessageAssembler(bytesMax: 1_000_000)
    #expect(receive(&assembler, String(assembler.framesMax + 1)) == .invalid)
    #expect(receive(&assembler, String(assembler.framesMax)) == .incomplete)
  }

  @Test func `a message that a server has cut is the same for a client`() {
    let message = Array(String(repeating: "🌳é", count: 20_000).utf8)
    var assembler = MessageAssembler(bytesMax: message.count)
    var results: [Result] = []
    for frame in frames(message) { results.append(receive(&assembler, frame)) }
    #expect(results.last == .message(message))
    #expect(results.dropLast().allSatisfy { $0 == .incomplete })
  }

  @Test func `random frames never make the assembler keep more than its bound`() {
    var random = SeededGenerator(printingSeedFor: "random frames")
    var assembler = MessageAssembler(bytesMax: 512)
    for _ in 0..<5000 {
      let isNumber = random.oneIn(4)
      let frame =
        isNumber
        ? Array(String(Int.random(in: 0...20, using: &random)).utf8)
        : random.bytes(Int.random(in: 0...300, using: &random))
      _ = receive(&assembler, frame)
      #expect(assembler.keptBytes <= 512 + 256)
    }
  }
}
