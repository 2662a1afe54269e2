import CanopyAccounts
import CanopyTesting
import Testing

@Suite struct EmailAddressTests {
  @Test(arguments: [
    "a@b", "ada@example.org", "ada.byron+notes@mail.example.org", "ädä@exämple.org", "a@localhost",
    "\"quoted\"@example.org", "用户@例子.公司",
  ])
  func `a plausible address is accepted and kept as written`(_ text: String) throws {
    #expect(try #require(EmailAddress(text)).given == text)
  }

  @Test(arguments: [
    "", " ", "@", "a@", "@b", "a", "a b@c", "a@b c", "a@b@c", "a@@b", "a\t@b", "a@b\u{0}", "a\n@b",
    "a\u{200B}@b", "a@b\u{3164}", "a\u{2800}@b", "a@b\u{FE0F}", "a\u{34F}@b", "a@b\u{202E}c",
    "a\u{A0}b@c", "a@b\u{2028}c", "a@b\u{7F}c", "a@b@\u{301}c",
  ])
  func `a text that cannot be an address is refused`(_ text: String) {
    #expect(EmailAddress(text) == nil)
  }

  @Test func `an address has at most 254 bytes`() {
    let domain = "@example.org"
    let longest = String(repeating: "a", count: 254 - domain.utf8.count) + domain
    #expect(EmailAddress(longest) != nil)
    #expect(EmailAddress("a" + longest) == nil)
    #expect(EmailAddress("  \(longest)\n")?.given == longest)
    let wide = String(repeating: "é", count: (254 - domain.utf8.count) / 2) + domain
    #expect(EmailAddress(wide) != nil)
    #expect(EmailAddress("éé" + wide) == nil)
  }

  @Test func `spellings of one address have the same normalized bytes`() throws {
    let spellings = [
      "Ren\u{E9}@Example.ORG", "rene\u{301}@example.org", "  REN\u{C9}@EXAMPLE.org\r\n",
    ]
    for spelling in spellings {
      let normalized = try #require(EmailAddress(spelling)).normalized
      #expect(Array(normalized.utf8) == Array("ren\u{E9}@example.org".utf8))
      #expect(EmailAddress(normalized)?.normalized == normalized)
    }
  }

  @Test func `the check accepts any text, and normalizing twice has the same result`() {
    var generator = SeededGenerator(printingSeedFor: "EmailAddressTests")
    let pieces = [
      "@", "a", " ", "é", "e\u{301}", "İ", "ß", "\u{1F469}\u{200D}\u{1F680}", "\0", ".",
    ]
    for _ in 0..<2_000 {
      let count = Int.random(in: 0...12, using: &generator)
      let text = (0..<count).compactMap { _ in pieces.randomElement(using: &generator) }.joined()
      guard let address = EmailAddress(text) else { continue }
      #expect(EmailAddress(address.normalized)?.normalized == address.normalized)
      #expect(address.given.unicodeScalars.count { $0 == "@" } == 1)
    }
  }
}
