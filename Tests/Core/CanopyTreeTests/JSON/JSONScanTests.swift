import CanopyTesting
import Testing

@testable import CanopyTree

/// The end of a JSON value in a text.
struct JSONScanTests {
  private func end(_ text: String, from start: Int = 0) -> Int? {
    Array(text.utf8).withUnsafeBytes { JSONScan.valueEnd($0, from: start) }
  }

  @Test(arguments: [
    #""""#, #""a""#, #""\"""#, #""\\""#, #""a \u0022 {[""#, "{}", "[]", #"{"a":[1,{"b":"}]"}]}"#,
    "[[],[[]]]", "1", "-1.5e+3", "true", "null", #""a string of more than eight bytes\"{""#,
  ])
  func `a value ends before the text that follows it`(_ value: String) {
    for rest in ["", ",", "}", "]", " ", "\n", ":", #","x":"y""#] {
      #expect(end(value + rest) == value.utf8.count, "\(value)\(rest)")
      #expect(end("[\"," + value + rest, from: 3) == value.utf8.count + 3, "\(value)\(rest)")
    }
  }

  @Test(arguments: [
    "", "\"", #""\"#, #""\""#, #""a"#, "{", "[", "[[]", #"{"a":"}"#, #"["]"#, ",", "}", " 1", ":1",
  ])
  func `a truncated text has no end`(_ text: String) {
    #expect(end(text) == nil)
  }

  @Test func `an offset outside the text has no value`() {
    #expect(end("1", from: 1) == nil && end("1", from: 2) == nil && end("1", from: -1) == nil)
  }

  @Test func `the end of random values is that of their text`() {
    withSeed { random in
      for _ in 0..<500 {
        let text = random.tree(height: 3).node.json(.export)
        #expect(end(text + ",x") == text.utf8.count, "\(text)")
      }
    }
  }

  @Test func `random bytes never trap, and an end is inside the text`() {
    withSeed { random in
      let alphabet = Array(#"{}[]",:\a1 "#.utf8)
      for _ in 0..<5_000 {
        let bytes = (0..<random.below(20)).map { _ in random.pick(alphabet) }
        let start = random.below(21)
        let end = bytes.withUnsafeBytes { JSONScan.valueEnd($0, from: start) }
        if let end { #expect(start < end && end <= bytes.count) }
      }
    }
  }
}
