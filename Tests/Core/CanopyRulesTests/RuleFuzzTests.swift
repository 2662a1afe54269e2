import CanopyTesting
import CanopyTree
import Foundation
import Testing

@testable import CanopyRules

/// Texts that are almost rules: loading and evaluating them never traps or hangs.
///
/// `CANOPY_RULES_FUZZ` is their number; release builds have run a million.
struct RuleFuzzTests {
  static let count =
    ProcessInfo.processInfo.environment["CANOPY_RULES_FUZZ"].flatMap { Int($0) } ?? 10_000

  static let expressions = [
    "auth != null && auth.uid === $a", "root.child('a/b').child($a).val() == data.parent().val()",
    "newData.child('n').val() - (data.exists() ? data.child('n').val() : 0) % 7 <= now * 1.5e3",
    "newData.hasChildren(['a', 'b' + $b]) || !newData.child('x').isString()",
    "newData.val().matches(/^[a-z0-9_-]{1,20}(a|b)*\\.x?$/i) ? true : $b.length > 3",
    "root.child(auth.uid).parent().child('s').val().replace('a', 'bb').contains(\"\\u00e9\")",
    "auth.token[$b].length != -9223372036854775807 / -1", "data.getPriority() < 'é' + 9e9",
    "newData.childCount() === data.childCount() + 1", "$a.toUpperCase().beginsWith('A')",
    "$a.pushTime() <= now",
    "newData.parent().hasChild(newData.val()) && root.hasChildren()",
  ]

  static let tokens = [
    "(", ")", "[", "]", "{", "}", ".", ",", "?", ":", "!", "&&", "||", "==", "===", "!=", "<", ">=",
    "+", "-", "*", "/", "%", "'", "\\\"", "\\\\", "auth", "now", "root", "data", "newData", "query",
    "$a", "$b", ".val()", ".parent()", ".child(", ".exists()", ".length", ".matches(/", "/i)",
    ".hasChildren([", ".replace('a',", "null", "true", "0", "1", "9223372036854775807", "1e308",
    "0.1", "é", "🌳", "\\u0000", "^", "$", "|", "*", "{2,9}", "[^a-z]", "\\\\d",
  ]

  private func mutate(_ text: String, _ random: inout SeededGenerator) -> [UInt8] {
    var bytes = Array(text.utf8)
    for _ in 0..<Int.random(in: 1...4, using: &random) {
      let position = Int.random(in: 0...bytes.count, using: &random)
      let end = min(bytes.count, position + Int.random(in: 0...6, using: &random))
      switch Int.random(in: 0..<6, using: &random) {
      case 0: bytes.removeSubrange(position..<end)
      case 1: bytes.insert(contentsOf: random.pick(Self.tokens).utf8, at: position)
      case 2: bytes.replaceSubrange(position..<end, with: random.pick(Self.tokens).utf8)
      case 3: bytes.insert(UInt8.random(in: 0x20...0xFF, using: &random), at: position)
      case 4:
        let other = Array(random.pick(Self.expressions).utf8)
        bytes.replaceSubrange(
          position..<end, with: other.prefix(Int.random(in: 0...20, using: &random)))
      default: bytes.insert(contentsOf: Array(bytes[position..<end]), at: position)
      }
    }
    return bytes
  }

  private func file(_ random: inout SeededGenerator) -> [UInt8] {
    var file = Array(#"{"rules":{"a":{},"$a":{"$b":{"#.utf8)
    for (i, kind) in RuleKind.allCases.enumerated() {
      if i > 0 { file.append(UInt8(ascii: ",")) }
      file.append(contentsOf: "\"\(kind.rawValue)\":\"".utf8)
      let text = random.pick(Self.expressions)
      let isQuoted = text.replacing("\\", with: "\\\\").replacing("\"", with: "\\\"")
      file.append(contentsOf: random.oneIn(3) ? Array(isQuoted.utf8) : mutate(isQuoted, &random))
      file.append(UInt8(ascii: "\""))
    }
    file.append(contentsOf: "}}}}".utf8)
    return random.oneIn(10) ? mutate(String(decoding: file, as: UTF8.self), &random) : file
  }

  @Test func `mutated rules never trap, and both ways of evaluating agree`() throws {
    var random = SeededGenerator(printingSeedFor: "rule fuzz")
    let data = try tree(
      #"{"a":{"b":"text","n":5,"s":"aéa🌳"},"s":"aaa","ann":true,"n":9223372036854775807}"#)
    let callers = [nobody, user("ann"), user("a/b"), user("")]
    let places = try ["x/y", "a/b", "s/n", "ann", "x/y/z", ""].map { try Path($0) }
    let values = try ["null", "true", "5", #""text""#, #""ann""#, #"{"a":1,"n":7,"b":"x"}"#]
      .map { try tree($0) }
    var loaded = 0
    for _ in 0..<Self.count {
      let bytes = file(&random)
      guard let rules = try? RuleSet(utf8: bytes) else { continue }
      loaded += 1
      let caller = random.pick(callers)
      let path = random.pick(places)
      let mayRead = rules.mayRead(path, in: data, as: caller)
      let read = rules.explainRead(path, in: data, as: caller)
      let isSame = mayRead == read.verdict.isAllowed
      try #require(isSame, "\(String(decoding: bytes, as: UTF8.self))")
      let value = random.pick(values)
      let after = data.setting(value, at: path)
      let location = Location(path, isPriority: random.oneIn(5))
      let verdict = rules.authorize([location], before: data, after: after, as: caller)
      let write = rules.explainWrite([location], before: data, after: after, as: caller)
      let isSameVerdict = verdict == write.verdict
      try #require(isSameVerdict, "\(String(decoding: bytes, as: UTF8.self))")
      // A write is denied early only if it is denied, and without data only if it is denied with data.
      let early = rules.denies([location], before: data, as: caller)
      let earliest = rules.denies([location], before: nil, as: caller)
      let set = try Write(
        setting: [Assignment(location, location.isPriority ? Node(1) : value)])
      let earlySet = rules.denies(set, before: data, as: caller)
      let earliestSet = rules.denies(set, before: nil, as: caller)
      let isSound =
        (!earliest || early && earliestSet) && (!early || earlySet) && (!earliestSet || earlySet)
        && (!earlySet || !verdict.isAllowed)
      try #require(isSound, "\(String(decoding: bytes, as: UTF8.self))")
    }
    #expect(loaded > Self.count / 100)
  }

  @Test func `random patterns never trap, and agree with matching whole parts`() throws {
    var random = SeededGenerator(printingSeedFor: "pattern fuzz")
    let parts = ["a", "b", "c", ".", "(", ")", "|", "*", "+", "?", "[ab]", "[^a]", "{1,2}", "\\d"]
    for _ in 0..<Self.count {
      let text = (0..<Int.random(in: 1...12, using: &random)).map { _ in random.pick(parts) }
        .joined()
      guard let whole = try? PatternTable.compile("^(\(text))$"),
        let part = try? PatternTable.compile(text)
      else { continue }
      let input = String(
        (0..<Int.random(in: 0...6, using: &random)).map { _ in random.pick(Array("abc1")) })
      // A pattern occurs in a text exactly if it matches a whole part of it.
      let occurs = (0...input.count).contains { start in
        (start...input.count).contains { end in
          whole.matches(String(Array(input)[start..<end]))
        }
      }
      try #require(part.matches(input) == occurs, "\(text) in \(input)")
    }
  }
}
