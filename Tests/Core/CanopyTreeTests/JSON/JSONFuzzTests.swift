import Foundation
import CanopyTesting
import Testing

@testable import CanopyTree

/// Tens of thousands of texts that are almost JSON: none traps, the split into pieces does not
/// matter, and the accepted ones give the same value as Foundation's reader.
struct JSONFuzzTests {
  static let corpus: [String] =
    JSONStreamTests.texts
    + [
      #"{"posts":{"-OaBcDeFgHiJkLmNoPqR":{"title":"Hello \u00e9 🌳","stars":{"a":true},"n":1.5e3}}}"#,
      #"[[1,-2,3.25],[true,false,null],["a\\b\"c\/d"],{"0":{},"1":[]}]"#,
      #"{".priority":1,"a":{".value":"x",".priority":"p"},"b":{".sv":{"increment":-1}}}"#,
      #"{"a":{".sv":"timestamp",".priority":{".sv":"timestamp"}},"z":[{".sv":"timestamp"}]}"#,
      #"{"0":0,"1":1e1,"2":2E-2,"10":-0.0,"x y":9223372036854775807,"é":18446744073709551616}"#,
      #""\ud83c\udf33\u0000\b\f\n\r\t\"\\\/""#,
    ]

  private func mutate(_ text: String, _ random: inout SeededRandom) -> [UInt8] {
    var bytes = Array(text.utf8)
    let tokens = [
      "{", "}", "[", "]", ",", ":", "\"", "\\", "\\u", "d800", "null", "true", "1", "-", ".", "e",
      "0",
      "\"a\":", "\".value\":", "\".priority\":", "\".sv\":", " ", "\u{0}", "\u{1F}", "é", "🌳",
    ]
    for _ in 0..<1 + random.below(4) {
      let position = random.below(bytes.count + 1)
      let end = min(bytes.count, position + random.below(4))
      switch random.below(6) {
      case 0: bytes.removeSubrange(position..<end)
      case 1: bytes.insert(contentsOf: random.pick(tokens).utf8, at: position)
      case 2: bytes.replaceSubrange(position..<end, with: random.pick(tokens).utf8)
      case 3: bytes.insert(UInt8.random(in: 0...255, using: &random), at: position)
      case 4: bytes.removeSubrange(position...)
      default: bytes.insert(contentsOf: Array(bytes[position..<end]), at: position)
      }
      if bytes.isEmpty { break }
    }
    return bytes
  }

  @Test func `mutated texts never trap, and pieces do not matter`() throws {
    try withSeed { random in
      for i in 0..<20_000 {
        let bytes = mutate(random.pick(Self.corpus), &random)
        let whole = Reading(bytes)
        try #require(
          Reading(bytes, pieces: 1 + random.below(3)) == whole,
          "\(String(decoding: bytes, as: UTF8.self).debugDescription)")
        if let node = whole.node {
          try #require(node.brokenInvariant() == nil)
          try #require(try Node(json: node.json(.export)) == node)
        }
        if i.isMultiple(of: 4) {
          bytes.withUnsafeBytes { bytes in
            _ = try? JSONValue(json: bytes)
            _ = try? JSONReader.readUpdate(json: bytes)
            _ = try? AssignmentCodec.decode(bytes)
          }
        }
      }
    }
  }

  @Test func `random bytes never trap`() throws {
    try withSeed { random in
      let common = Array("{}[]\",:\\u01-.eE+ ntfa".utf8)
      for _ in 0..<20_000 {
        let bytes = (0..<random.below(30)).map { _ in
          random.oneIn(4) ? UInt8.random(in: 0...255, using: &random) : random.pick(common)
        }
        try #require(Reading(bytes, pieces: 2) == Reading(bytes))
      }
    }
  }

  @Test func `accepted texts give the same value as Foundation's reader`() throws {
    try withSeed { random in
      var compared = 0
      for _ in 0..<20_000 {
        let bytes = mutate(random.pick(Self.corpus), &random)
        guard case .value(let node, let serverValues) = Reading(bytes), serverValues.isEmpty,
          let value = (bytes.withUnsafeBytes { try? JSONValue(json: $0) }), isComparable(value)
        else { continue }
        let other = try JSONSerialization.jsonObject(
          with: Data(bytes), options: [.fragmentsAllowed])
        try #require(
          agrees(node, other), "\(String(decoding: bytes, as: UTF8.self).debugDescription)")
        compared += 1
      }
      #expect(compared > 100)
    }
  }

  @Test func `a byte order mark at the beginning of a text is kept`() throws {
    #expect(try Node(json: "\"\u{FEFF}1\"") == Node("\u{FEFF}1"))
    let object = try Node(json: #"{"\uFEFFa":"\ufeff"}"#)
    #expect(object.json(.export) == "{\"\u{FEFF}a\":\"\u{FEFF}\"}")
  }

  /// Whether Foundation reads the value as the tree does: no special members, no repeated names
  /// (also canonically equivalent ones, which Swift's dictionaries treat as equal), and no names
  /// that begin with a byte order mark, which Foundation's reader drops.
  private func isComparable(_ value: JSONValue) -> Bool {
    switch value {
    case .null, .leaf: true
    case .array(let elements): elements.allSatisfy(isComparable)
    case .object(let members):
      Set(members.map(\.name)).count == members.count
        && members.allSatisfy {
          !$0.name.hasPrefix(".") && $0.name.unicodeScalars.first != "\u{FEFF}"
            && isComparable($0.value)
        }
    }
  }

  private func agrees(_ node: Node, _ other: Any) -> Bool {
    switch other {
    case let members as [String: Any]:
      let present = members.filter { !isNothing($0.value) }
      return node.childCount == present.count
        && present.allSatisfy { agrees(node.child(.of($0.key)), $0.value) }
    case let elements as [Any]:
      let present = elements.enumerated().filter { !isNothing($0.element) }
      return node.childCount == present.count
        && present.allSatisfy { agrees(node.child(Key(index: Int32($0.offset))), $0.element) }
    case let text as String:
      guard let own = node.stringValue else { return false }
      // Foundation's reader drops a byte order mark at the beginning of a text.
      return own.utf8.elementsEqual(text.utf8)
        || own.utf8.elementsEqual("\u{FEFF}\(text)".utf8)
    case let number as NSNumber:
      if let bool = node.boolValue { return number == NSNumber(value: bool) }
      guard let double = node.doubleValue else { return false }
      // Foundation converts through decimals of 38 digits, and is not exact to the last bit.
      return number.int64Value == node.integerValue
        || abs(number.doubleValue - double) <= abs(double) * 1e-14
    default:
      return isNothing(other) && node.isAbsent
    }
  }

  private func isNothing(_ other: Any) -> Bool {
    switch other {
    case let members as [String: Any]: members.values.allSatisfy(isNothing)
    case let elements as [Any]: elements.allSatisfy(isNothing)
    default: other is NSNull
    }
  }
}
