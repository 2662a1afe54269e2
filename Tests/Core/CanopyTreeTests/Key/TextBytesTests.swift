import Testing

@testable import CanopyTree

/// Byte-wise operations on texts for which operations on characters differ.
struct TextBytesTests {
  @Test func `canonically equivalent texts have different bytes`() {
    #expect("é" == "e\u{301}")
    #expect(!"é".hasSameBytes(as: "e\u{301}") && "é".hasSameBytes(as: "é"))
    #expect("K" == "\u{212A}" && !"K".hasSameBytes(as: "\u{212A}"))
    #expect(Node("e\u{301}").hasText(of: "e\u{301}") && !Node("é").hasText(of: "e\u{301}"))
    #expect(!Node(1).hasText(of: "1") && !Node.absent.hasText(of: "a"))
  }

  @Test func `prefixes and suffixes are found where a character combines with its neighbour`() {
    let joined = "k\u{600}/\u{301}x"
    #expect(!joined.hasPrefix("k\u{600}/") && joined.hasBytePrefix("k\u{600}/"))
    #expect(!joined.hasSuffix("\u{301}x") && joined.hasByteSuffix("\u{301}x"))
    #expect("abc".hasBytePrefix("") && "abc".hasByteSuffix("") && "".hasBytePrefix(""))
    #expect("abc".hasBytePrefix("abc") && "abc".hasByteSuffix("abc"))
    #expect(!"abc".hasBytePrefix("abcd") && !"abc".hasByteSuffix("zabc"))
    #expect("/\u{301}x".droppingBytes(1).hasSameBytes(as: "\u{301}x"))
    #expect("ab".droppingBytes(2).isEmpty)
  }

  @Test func `only ASCII letters change their case`() {
    #expect("AZ az é É \u{212A} İ ß".asciiLowercased.hasSameBytes(as: "az az é É \u{212A} İ ß"))
    #expect("AZ az é ſ ß".asciiUppercased.hasSameBytes(as: "AZ AZ é ſ ß"))
    #expect("@[`{".asciiLowercased == "@[`{" && "@[`{".asciiUppercased == "@[`{")
  }

  @Test func `a path with very many keys is refused before all are read`() {
    let text = String(repeating: "a/", count: 1_000_000)
    #expect(throws: TreeError.invalidPath("a path may have at most 32 keys")) { try Path(text) }
  }
}
