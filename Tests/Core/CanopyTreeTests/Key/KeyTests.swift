import CanopyTesting
import Testing

@testable import CanopyTree

struct KeyTests {
  @Test func `canonically equivalent texts are different keys`() {
    let one = Key("\u{E9}")
    let two = Key("e\u{301}")
    #expect("\u{E9}" == "e\u{301}")
    #expect(one != two)
    #expect(one.text.utf8.elementsEqual("\u{E9}".utf8))
  }

  @Test func `every form returns its text`() throws {
    let texts = [
      "a", "0", "-1", "2147483647", "-2147483648", "2147483648", "007", "-0", "+1", "1e3",
      "sixteen bytes ok", "seventeen bytes !", "-OaBcDeFgHiJkLmNoPqR", "--------------------",
      "zzzzzzzzzzzzzzzzzzzz", "not a push id 20 byt", "ключ", "日本語のキー", "🌳",
      String(repeating: "k", count: 768),
    ]
    for text in texts {
      let key = try Key(text)
      #expect(key.text == text)
      #expect(key.utf8Count == text.utf8.count)
    }
    #expect(Key("2147483647").integer == .max)
    #expect(Key("-2147483648").integer == .min)
    for text in ["2147483648", "-2147483649", "007", "-0", "+1", "1e3", "-"] {
      #expect(try Key(text).integer == nil)
    }
  }

  @Test func `texts of any length are compared by their first difference`() {
    // The order of UTF-16: a surrogate sorts before U+E000 to U+FFFF.
    let characters = [
      "a", "b", "\u{7F}", "\u{E9}", "\u{D7FF}", "\u{1F333}", "\u{E000}", "\u{FFFD}",
    ]
    for count in 0...40 {
      let beginning = String(repeating: "x", count: count)
      for (index, first) in characters.enumerated() {
        let text = beginning + first
        #expect(text.compareCodeUnits(with: beginning) > 0)
        #expect(beginning.compareCodeUnits(with: text) < 0)
        for (other, second) in characters.enumerated() {
          for rest in ["", "y", "longer than a word"] {
            let result = (text + rest).compareCodeUnits(with: beginning + second + rest)
            #expect(result.signum() == (index - other).signum(), "\(count) \(first) \(second)")
          }
        }
      }
    }
  }

  @Test func `a key has 1 to 768 bytes`() throws {
    #expect(try Key(String(repeating: "é", count: 384)).utf8Count == 768)
    #expect(throws: TreeError.self) { try Key(String(repeating: "é", count: 384) + "x") }
    let empty = ""
    #expect(throws: TreeError.self) { try Key(empty) }
  }

  @Test func `a key contains no forbidden character`() throws {
    for code in UInt8(0)...127 {
      let text = "a" + String(Character(UnicodeScalar(code))) + "b"
      let isForbidden = code < 0x20 || code == 0x7F || ".$#[]/".utf8.contains(code)
      if isForbidden {
        #expect(throws: TreeError.self) { try Key(text) }
      } else {
        #expect(try Key(text).text == text)
      }
    }
  }

  @Test func `a forbidden character is found at each place of a key of any length`() {
    for count in 1...21 {
      for place in 0..<count {
        for code in UInt8(0)...127 {
          for filling in "aZ_5-".utf8 {
            var bytes = [UInt8](repeating: filling, count: count)
            bytes[place] = code
            let isForbidden = code < 0x20 || code == 0x7F || ".$#[]/".utf8.contains(code)
            let key = bytes.withUnsafeBytes { try? Key(utf8: $0) }
            if (key == nil) != isForbidden { Issue.record("\(bytes)") }
          }
        }
      }
    }
  }

  @Test func `the form of a key depends on its bytes alone`() {
    var random = SeededRandom(printingSeedFor: "forms of keys")
    let characters = Array("-0123456789ABCXYZ_abcxyz{|}~@^ \"\\é🌳")
    for _ in 0..<20_000 {
      let count = 1 + random.below(22)
      let text = String((0..<count).map { _ in characters[random.below(characters.count)] })
      Array(text.utf8).withUnsafeBytes { bytes in
        if (try? Key(utf8: bytes)) != Key(unchecked: bytes) { Issue.record("\(text)") }
      }
    }
  }

  @Test func `integers come first by number and the rest by UTF-16 code units`() throws {
    let texts = [
      "10", "9", "-5", "2147483648", "a", "B", "", "\u{FFFD}", "\u{1F333}", "\u{E000}", "é", "z",
      "-OaBcDeFgHiJkLmNoPqR", "-OaBcDeFgHiJkLmNoPqS", "-Oa", "aaaaaaaaaaaaaaaaaaaaaaaaaa", "zz",
      "aaaaaaaaaaaaaaaaaaaaaaaaab", "aaaaaaaaaaaaaaaa", "\u{EE00}\u{1F333}", "\u{EE00}\u{FFFF}",
      "01", "-", "-0",
    ].filter { !$0.isEmpty }
    let keys = try texts.map { try Key($0) }
    for (i, a) in keys.enumerated() {
      for (j, b) in keys.enumerated() {
        let expected = NaiveKey(texts[i]) < NaiveKey(texts[j])
        #expect((a < b) == expected, "\(texts[i]) < \(texts[j])")
        #expect((a == b) == (i == j))
      }
    }
  }
}
