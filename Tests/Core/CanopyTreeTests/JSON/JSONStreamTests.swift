import CanopyTesting
import Testing

@testable import CanopyTree

/// A reader with a source gives the same result as a reader of the whole, however the bytes are
/// split.
struct JSONStreamTests {
  static let texts = [
    "", " ", "1", "-", "12e", "null", "nul", "tru e", #""abc"#, #""a\u00"#, #""\ud83c\udf33""#,
    #""\ud83c"#, #""\ud83c\"#, #""\ud83cx""#, #"{"a":1,"b":[true,false,null,"é🌳"]}"#, #"{"a" 1}"#,
    #"{"a":1,}"#, "[1,2", #"{"-OaBcDeFgHiJkLmNoPqR":{".value":-1.5e-3,".priority":"p"}}"#,
    #"{".sv":"timestamp"}"#, #"{".sv":"timestam"}"#, "\"a\u{1}\"", "\"a\tb\"", "1e999", "01", "1 x",
    #"{"a.b":1}"#, #"{"abcdefgh\n":1}"#, #"{"":1}"#, #"{".value":1,"a":2}"#, "[[[[[[1]]]]]]",
    String(repeating: "[", count: 40), String(repeating: "1", count: 1100), "\u{FEFF}1",
    #"  {  "key"  :  [  1  ,  "two"  ]  }  "#, "123456789012345678901234567890",
  ]

  @Test func `a text gives the same values whole, in pieces and byte by byte`() {
    for text in Self.texts {
      let bytes = Array(text.utf8)
      let whole = Reading(bytes)
      for size in [1, 2, 3, 7, 64, .max] {
        #expect(Reading(bytes, pieces: size) == whole, "\(text) in pieces of \(size)")
      }
    }
  }

  @Test func `invalid UTF-8 is found at the same offset`() {
    for invalid in JSONUTF8Tests.invalid {
      let quote = UInt8(ascii: "\"")
      for bytes in [
        [quote, 0x61] + invalid + [0x61, quote], invalid,
        Array("{\"".utf8) + invalid + Array("\":1}".utf8),
      ] {
        let whole = Reading(bytes)
        for size in [1, 2, 3] { #expect(Reading(bytes, pieces: size) == whole) }
      }
    }
  }

  @Test func `random nodes`() throws {
    try withSeed { random in
      for _ in 0..<100 {
        let bytes = Array(random.tree(height: 3).json.utf8)
        let whole = Reading(bytes)
        try #require(whole.node != nil)
        for size in [1, 5] { try #require(Reading(bytes, pieces: size) == whole) }
      }
    }
  }

  @Test func `a string longer than the window`() {
    let text = String(repeating: "0123456789é", count: 60_000)
    for json in ["\"\(text)\"", #"["\n"# + text + #"",1]"#] {
      let bytes = Array(json.utf8)
      #expect(Reading(bytes).node != nil)
      #expect(Reading(bytes, pieces: .max) == Reading(bytes))
      #expect(Reading(bytes, pieces: 1000) == Reading(bytes))
    }
  }

  private struct Broken: Error {}

  @Test(arguments: ["12", "[1,2", "{\"a\":\"b", "true", "[1] "])
  func `a failing source makes reading fail with its error`(text: String) {
    var isFirst = true
    var reader = JSONReader(source: { buffer in
      guard isFirst else { throw Broken() }
      isFirst = false
      buffer.copyBytes(from: text.utf8)
      return text.utf8.count
    })
    var isRead = false
    do throws(TreeError) {
      _ = try reader.readNode()
      try reader.readEnd()
      isRead = true
    } catch {}
    #expect(!isRead)
    #expect(reader.failure is Broken)
  }

  @Test func `several values can be read from one source`() throws {
    var rest = Array(#"[1] {"a":2} "x""#.utf8)[...]
    var reader = JSONReader(source: { buffer in
      let piece = rest.prefix(1)
      rest = rest.dropFirst()
      buffer.copyBytes(from: piece)
      return piece.count
    })
    #expect(try reader.readNode().node == .of(["0": 1]))
    #expect(try reader.readNode().node == .of(["a": 2]))
    #expect(try reader.readNode().node == "x")
    try reader.readEnd()
  }
}
