import CanopyTree
import Testing

struct ByteStringTests {
  private static let one = "usr\u{E9}"
  private static let two = "usre\u{301}"

  @Test func `canonically equivalent texts are different identities`() {
    #expect(Self.one == Self.two)
    #expect(ByteString(Self.one) != ByteString(Self.two))
    #expect(ByteString(Self.one) == ByteString(Self.one))
    #expect(Set([ByteString(Self.one), ByteString(Self.two), ByteString(Self.one)]).count == 2)
    #expect(ByteString("\u{212A}") != "K")
    #expect("\(Self.two)" as ByteString == ByteString(Self.two))
  }

  @Test func `identities are in the order of their bytes`() {
    let texts: [ByteString] = ["", "K", "a", "ab", "b", "e\u{301}", "\u{E9}"]
    #expect(texts.reversed().sorted() == texts)
    for (index, text) in texts.enumerated() {
      for (other, otherText) in texts.enumerated() {
        #expect((text < otherText) == (index < other))
        #expect((text == otherText) == (index == other))
      }
    }
  }

  @Test func `writes of owners with other bytes have different origins`() throws {
    var first = try WriteOrigin(client: "k", number: 1, seen: 0)
    first.owner = Self.one
    var second = first
    second.owner = Self.two
    #expect(first != second)
    #expect(Set([first, second, first]).count == 2)
    #expect(first.rememberedName != second.rememberedName)
  }
}
