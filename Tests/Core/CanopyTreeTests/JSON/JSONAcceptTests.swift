import CanopyTesting
import Testing

@testable import CanopyTree

/// Valid JSON texts and the nodes that they give.
struct JSONAcceptTests {
  private static func number(_ double: Double) -> Node { Node(double) ?? .absent }

  static let values: [(String, Node)] = [
    ("null", Node.absent), ("true", true), ("false", false), (#""""#, ""), (#""a""#, "a"),
    (" \t\r\n1 \t\r\n", 1), ("0", 0), ("-0", 0), ("-1", -1), ("10", 10), ("1.5", number(1.5)),
    ("1E2", 100), ("1e+2", 100), ("100e-2", 1), ("0e0", 0), ("0.0e-0", 0), ("0E+5", 0),
    ("1e-400", 0), ("-1e-400", 0),
    ("123456789012345678901234567890e-29", number(1.2345678901234567)),
    ("18446744073709551616", number(0x1p64)), ("9223372036854775808", number(0x1p63)),
    ("1e308", number(1e308)), ("-9223372036854775809", number(-0x1p63)),
    ("4.9e-324", number(Double.leastNonzeroMagnitude)),
    ("{}", .absent), ("[]", .absent), (" { } ", .absent), ("[ ]", .absent), ("[null]", .absent),
    ("[[],{},null,[null,{}]]", .absent), (#"{"a":null}"#, .absent), (#"{"a":{"b":[]}}"#, .absent),
    (#"{"a":1}"#, .of(["a": 1])), (#" { "a" : 1 , "b" : 2 } "#, .of(["a": 1, "b": 2])),
    ("[1,2]", .of(["0": 1, "1": 2])), ("[null,1,null,2,null]", .of(["1": 1, "3": 2])),
    ("[[1],[]]", .of(["0": .of(["0": 1])])), (#"{"é":1}"#, .of(["é": 1])),
    (#"{"\u0061":1}"#, .of(["a": 1])), (#"{"a b":1}"#, .of(["a b": 1])),
  ]

  @Test(arguments: values)
  func `a valid text gives its value`(text: String, expected: Node) {
    let reading = Reading(text)
    #expect(reading == .value(expected, []), "\(text)")
    #expect(reading.node?.brokenInvariant() == nil)
  }

  static let strings: [(String, String)] = [
    (#""\"\\\/\b\f\n\r\t""#, "\"\\/\u{8}\u{C}\n\r\t"), (#""\u0000\u001f""#, "\u{0}\u{1F}"),
    (#""\u00e9\u00E9""#, "éé"), (#""\ud83c\udf33""#, "🌳"), (#""\uD83C\uDF33x""#, "🌳x"),
    (#""\uFFFF\uFFFE""#, "\u{FFFF}\u{FFFE}"), (#""\ud800\udc00""#, "\u{10000}"),
    (#""\udbff\udfff""#, "\u{10FFFF}"), (#""\\u0041""#, "\\u0041"), ("\"\u{7F}\"", "\u{7F}"),
    ("\"\u{2028}\u{2029}\"", "\u{2028}\u{2029}"), (#""e\u0301""#, "e\u{301}"),
    ("\"12345678\\n12345678\"", "12345678\n12345678"), (#""1234567\"""#, "1234567\""),
  ]

  @Test(arguments: strings)
  func `escapes in a string are decoded`(text: String, expected: String) {
    #expect(Reading(text) == .value(Node(expected), []))
  }

  static let duplicates: [(String, Node)] = [
    (#"{"a":1,"a":2}"#, Node.of(["a": 2])), (#"{"a":1,"a":null}"#, .absent),
    (#"{"a":{"b":1},"a":{"c":2}}"#, .of(["a": .of(["c": 2])])),
    (#"{"b":1,"a":2,"b":null,"c":3}"#, .of(["a": 2, "c": 3])),
    (#"{"a":null,"a":1}"#, .of(["a": 1])), (#"{"a":1,"\u0061":2}"#, .of(["a": 2])),
    (#"{"a":1,"b":1,"a":2,"a":3}"#, .of(["a": 3, "b": 1])),
  ]

  @Test(arguments: duplicates)
  func `the last of duplicate keys wins, also if it is null`(text: String, expected: Node) {
    #expect(Reading(text) == .value(expected, []))
  }

  @Test func `canonically equivalent keys are not duplicates`() {
    let text = #"{"\u00e9":1,"e\u0301":2}"#
    #expect(Reading(text).node?.childCount == 2)
  }

  @Test func `keys in any order give a valid branch`() throws {
    try withSeed { random in
      let keys = (0..<300).map { "k\($0)" } + (0..<300).map { "\($0)" }
      let members = keys.shuffled(using: &random).map { "\"\($0)\":\"\($0)\"" }
      let node = try Node(json: "{" + members.joined(separator: ",") + "}")
      #expect(node.brokenInvariant() == nil)
      #expect(node.childCount == 600)
      for key in keys { #expect(node.child(.of(key)) == Node(key)) }
    }
  }

  @Test func `random nodes survive a round trip in export style`() throws {
    try withSeed { random in
      for _ in 0..<500 {
        let model = random.tree(height: 4)
        let node = model.node
        let back = try Node(json: node.json(.export))
        try #require(back == node)
        try #require(back.brokenInvariant() == nil)
        // The model escapes all characters outside ASCII, and sorts members differently.
        try #require(try Node(json: model.json) == node)
      }
    }
  }
}
