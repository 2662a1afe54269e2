import CanopyTree

/// Random texts for a fuzzer: JSON, keys and paths that are valid, or nearly so.
///
/// Everything follows from the seed, so the number of a connection repeats its bytes.
struct FuzzText {
  var random: SplitMix64
  /// The token of a user, who may write below `/fuzz` only.
  let token: String
  /// Whether the texts of JSON are valid, though their contents may be wrong.
  var isValid = false

  init(seed: UInt64, token: String) {
    random = SplitMix64(seed: seed)
    self.token = token
  }

  mutating func below(_ bound: Int) -> Int { random.below(max(1, bound)) }

  /// Returns true once in `n` times.
  mutating func oneIn(_ n: Int) -> Bool { below(n) == 0 }

  /// Returns a random element; an empty text for none.
  mutating func pick(_ texts: [String]) -> String {
    texts.isEmpty ? "" : texts[below(texts.count)]
  }

  mutating func bytes(_ count: Int) -> [UInt8] {
    (0..<count).map { _ in UInt8(truncatingIfNeeded: random.next()) }
  }

  /// Returns printable characters.
  mutating func junk(_ count: Int) -> String {
    String(decoding: (0..<count).map { _ in UInt8(0x21 + below(94)) }, as: UTF8.self)
  }

  mutating func key() -> String {
    if oneIn(12) {
      if isValid {
        return pick([".priority", ".value", ".sv", "a.b", "a/b", "[0]", "-1", "é", ""])
      }
      return pick([
        "", ".", "..", ".priority", ".value", ".sv", "a.b", "a/b", "[0]", "$key", "#", "0", "-1",
        "2147483648", "\u{0}", "\u{7F}", "é", "👍🏽", String(repeating: "k", count: below(900)),
      ])
    }
    return String(decoding: [UInt8(ascii: "a") + UInt8(below(8))], as: UTF8.self)
  }

  /// Returns a path, mostly below `/fuzz`.
  mutating func path() -> String {
    if oneIn(16) {
      return pick([
        "", "/", "//", "/safe", "/safe/a", "/secret", "/.info/connected", "/.settings/rules",
        "/fuzz/../safe", "/fuzz//a", "fuzz", String(repeating: "/d", count: below(80)),
        "/" + junk(below(40)).filter { !isValid || $0 != "\"" && $0 != "\\" },
      ])
    }
    return "/fuzz" + (0..<below(5)).map { _ in "/" + key() }.joined()
  }

  /// Returns a value of JSON, in rare cases an invalid one.
  mutating func json(_ depth: Int = 0) -> String {
    switch below(depth > 3 ? 12 : 18) {
    case 0: return "null"
    case 1: return pick(["true", "false"])
    case 2: return "\(Int64(truncatingIfNeeded: random.next()))"
    case 3: return "\(below(1000))"
    case 4 where isValid: return pick(["-0", "0.1", "1.7976931348623157e308", "5e-324"])
    case 4:
      return pick([
        "1e999", "-0", "0.1", "1.7976931348623157e308", "5e-324", "01", "+1", "1.", ".5", "NaN",
        "-", "9007199254740993", "1e", "0x10", "999999999999999999999999999999",
      ])
    case 5, 6: return "\"\(junk(below(20)).filter { $0 != "\"" && $0 != "\\" })\""
    case 7 where isValid: return pick([#""\u0000""#, #""\ud83d\ude00""#, #""\n\"""#, "\"\""])
    case 7:
      return pick([
        #""\u0000""#, #""\ud800""#, #""\udc00\ud800""#, #""\ud83d\ude00""#, #""\x""#, #""\"#,
        "\"\u{1}\"", "\"" + String(repeating: "s", count: below(3000)) + "\"",
      ])
    case 8: return #"{".sv":"timestamp"}"#
    case 9:
      return #"{".sv":{"increment":\#(pick(["1", "-1", "1e308", "null", "\"x\"", "[]"]))}}"#
    case 10: return #"{".sv":\#(pick(["1", "\"now\"", "{}", "null", "{\"increment\":{}}"]))}"#
    case 11: return #"{".value":\#(below(9)),".priority":\#(json(depth + 2))}"#
    case 12:
      let count = below(90)
      return String(repeating: "[", count: count) + String(repeating: "]", count: count)
    case 13:
      return "[" + (0..<below(5)).map { _ in json(depth + 1) }.joined(separator: ",") + "]"
    default:
      let members = (0..<below(5)).map { _ in "\"\(key())\":\(json(depth + 1))" }
      return "{" + members.joined(separator: ",") + "}"
    }
  }

  /// Returns the bytes of a text, in rare cases with some of them changed, removed or repeated.
  mutating func mutated(_ text: String, oneIn n: Int = 12) -> [UInt8] {
    var bytes = Array(text.utf8)
    guard !isValid, oneIn(n), !bytes.isEmpty else { return bytes }
    for _ in 0...below(3) where !bytes.isEmpty {
      let place = below(bytes.count)
      switch below(4) {
      case 0: bytes[place] = UInt8(truncatingIfNeeded: random.next())
      case 1: bytes.removeSubrange(place..<min(bytes.count, place + 1 + below(8)))
      case 2: bytes.insert(contentsOf: bytes[place..<min(bytes.count, place + 9)], at: place)
      default: bytes.removeSubrange(place...)
      }
    }
    return bytes
  }

  /// Returns a token: that of the user, or one that is not valid.
  mutating func credential() -> String {
    switch below(4) {
    case 0, 1: token
    case 2: pick(["", "owner", "null", "a.b.c", "eyJhbGciOiJub25lIn0.e30.", " ", "\u{0}"])
    default: junk(below(200)).filter { $0 != "\"" && $0 != "\\" }
    }
  }
}
