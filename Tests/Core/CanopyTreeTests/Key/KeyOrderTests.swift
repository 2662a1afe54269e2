import CanopyTesting
import Testing

@testable import CanopyTree

/// Comparisons of keys of every form.
struct KeyOrderTests {
  /// Whether `a` sorts before `b`, by the definition.
  private func precedes(_ a: String, _ b: String) -> Bool {
    NaiveKey(a) < NaiveKey(b)
  }

  private func randomText(_ random: inout SeededRandom) -> String {
    let alphabets = ["01", "-09", "-_Zz9", "aé", "a\u{E000}\u{FFFD}\u{10000}\u{10FFFF}\u{D7FF}"]
    let alphabet = Array(random.pick(alphabets).unicodeScalars)
    let length = random.pick([1, 1, 2, 3, 4, 7, 8, 9, 10, 11, 15, 16, 17, 19, 20, 20, 20, 21, 40])
    var text = String.UnicodeScalarView()
    // With a common prefix the last character decides.
    let lead = random.pick(alphabet)
    for i in 0..<length { text.append(i + 2 < length ? lead : random.pick(alphabet)) }
    return String(text)
  }

  @Test func `random keys of all forms compare as defined`() throws {
    try withSeed { random in
      for _ in 0..<20_000 {
        let a = randomText(&random)
        let b = random.oneIn(20) ? a : randomText(&random)
        let (x, y) = (try Key(a), try Key(b))
        try #require((x < y) == precedes(a, b), "\(a.debugDescription) < \(b.debugDescription)")
        let isSame = a.utf8.elementsEqual(b.utf8)
        try #require((x == y) == isSame)
        if isSame { try #require(x.hashValue == y.hashValue) }
        try #require(x.text.utf8.elementsEqual(a.utf8))
      }
    }
  }

  @Test func `a prefix sorts before its extensions, in every form`() throws {
    let text = "abcdefghijklmnopqrstuvwxyz"
    for length in 1..<text.count {
      let shorter = try Key(text.prefix(length))
      let longer = try Key(text.prefix(length + 1))
      #expect(shorter < longer)
      #expect(!(longer < shorter))
    }
  }

  @Test func `characters beyond the sixteen-bit plane sort before the private use area`() throws {
    let plain = ["a", "aaaaaaaaaaaaaaaaaaaaaaaaa", "é"]
    for prefix in plain {
      let (private_, tree) = (try Key(prefix + "\u{E000}"), try Key(prefix + "\u{1F333}"))
      #expect(tree < private_)
      #expect(try Key(prefix + "\u{D7FF}") < tree)
    }
  }

  @Test func `integers in other forms sort by number, then by length, then by text`() throws {
    let texts = [
      "-2147483648", "-10", "-3", "-03", "-1", "0", "-0", "00", "-00", "000", "1", "01",
      "0000000001",
      "00000000001", "3", "03", "003", "9", "10", "2147483647", "02147483647", "+1", "-", "--1",
      "000000000001", "02147483648", "0x1", "1e3", "2147483648",
    ]
    let keys = try texts.map { try Key($0) }
    #expect(keys == keys.sorted(), "\(keys.sorted().map(\.text))")
    for (text, key) in zip(texts, keys) {
      #expect(key.text == text && key.utf8Count == text.utf8.count)
      #expect(key.integer.map { "\($0)" == text } ?? true)
    }
    #expect(Set(keys).count == texts.count)
  }

  @Test func `integers at the edge of 32 bits sort by number and beyond it by text`() throws {
    let texts = ["-2147483648", "-1", "0", "9", "10", "2147483647", "-2147483649", "2147483648"]
    let keys = try texts.map { try Key($0) }
    #expect(keys == keys.sorted())
    #expect(Key(index: 7) == Key("7"))
  }
}
