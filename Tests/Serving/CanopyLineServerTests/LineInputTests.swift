import NIOCore
import Testing

@testable import CanopyLineServer

struct LineInputTests {
  /// Decodes a text, and returns its lines, and a word for the line that ends it. Stops after `most` lines.
  private func decode(_ text: String, _ input: LineInput, most: Int = .max) -> [String] {
    var items: [String] = []
    let invalid = input.decode(ByteBuffer(string: text)) { line in
      #expect(input.isDecoding)
      items.append(String(decoding: line, as: UTF8.self))
      return items.count < most
    }
    #expect(!input.isDecoding)
    switch invalid {
    case .foreign: items.append("foreign")
    case .tooLong: items.append("too long")
    case nil: break
    }
    return items
  }

  @Test func `the rest of the input is kept when the receiver stops, and decoded later`() throws {
    let input = LineInput(lineBytesMax: 10)
    #expect(decode("a\nb\nc", input, most: 1) == ["a"])
    #expect(input.hasBacklog && 3...64 ~= input.byteCount)
    var more = ByteBuffer(string: "d\n")
    #expect(input.keep(&more))
    #expect(5...64 ~= input.byteCount)
    let kept = try #require(input.takeBacklog())
    #expect(!input.hasBacklog)
    #expect(decode(String(buffer: kept), input) == ["b", "cd"])
    #expect(input.byteCount == 0)
  }

  @Test func `a buffer is kept behind a line that is decoded on another thread`() throws {
    let input = LineInput(lineBytesMax: 10)
    input.bytesBeside = 10
    var buffer = ByteBuffer(string: "a\n")
    #expect(input.keep(&buffer))
    #expect(input.byteCount == 12)
    input.bytesBeside = 0
    let kept = try #require(input.takeBacklog())
    #expect(decode(String(buffer: kept), input) == ["a"])
  }

  @Test func `a buffer is not kept without a backlog`() {
    let input = LineInput(lineBytesMax: 10)
    var buffer = ByteBuffer(string: "a\n")
    #expect(!input.keep(&buffer))
    #expect(buffer.readableBytes == 2 && input.byteCount == 0)
  }

  @Test func `an unfinished line is counted, and is not a backlog`() {
    let input = LineInput(lineBytesMax: 10)
    #expect(decode("abc", input) == [])
    #expect(3...64 ~= input.byteCount && !input.hasBacklog)
  }

  @Test func `an unfinished line is dropped with the rest of the input`() {
    let input = LineInput(lineBytesMax: 10)
    #expect(decode("abc", input) == [])
    input.drop()
    #expect(input.byteCount == 0)
    let other = LineInput(lineBytesMax: 10)
    let invalid = other.decode(ByteBuffer(string: "a\nb\nc")) { _ in
      other.drop()
      return false
    }
    #expect(invalid == nil)
    #expect(other.byteCount == 0 && !other.hasBacklog)
  }

  @Test func `input after a line of another protocol is dropped`() {
    let input = LineInput(lineBytesMax: 100)
    #expect(decode("PING\nGET / HTTP/1.1\nSET /a 1\n", input) == ["PING", "foreign"])
    #expect(!input.hasBacklog)
  }

  @Test func `a line of the bound is received, and a longer one is too long`() {
    #expect(decode("0123456789\r\n", LineInput(lineBytesMax: 10)) == ["0123456789"])
    #expect(decode("01234567890\n", LineInput(lineBytesMax: 10)) == ["too long"])
  }
}
