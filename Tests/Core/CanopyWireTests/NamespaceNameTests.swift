import CanopyTree
import CanopyWire
import Testing

/// The names of namespaces.
@Suite struct NamespaceNameTests {
  @Test(arguments: [
    "a", "0", "default", "my-blog", "a-", "1-2-3", String(repeating: "z", count: 63),
  ])
  func `a name has letters, digits and hyphens, up to the bound`(_ text: String) throws {
    #expect(try NamespaceName(text).text == text)
  }

  @Test(arguments: [
    "", "-a", "A", "aB", "..", ".", "a.b", "a/b", "/", "a\\b", "a b", " a", "a\n", "a\0", "a_b",
    "%2e", "%2e%2e",
    "é", "e\u{301}", "ａ", "а", "٣", "🙂", "a:b", "a*", String(repeating: "z", count: 64),
    String(repeating: "z", count: 100_000),
  ])
  func `any other text is refused with a sentence`(_ text: String) {
    let error = #expect(throws: WireError.self) { try NamespaceName(text) }
    #expect(error?.code == .badRequest)
    #expect(error?.sentence.contains("1 to 63") == true)
  }

  @Test func `every ASCII character is allowed or refused`() {
    let allowed = Set("abcdefghijklmnopqrstuvwxyz0123456789-".utf8)
    for byte in UInt8(0)..<128 {
      let text = "a" + String(decoding: [byte], as: UTF8.self)
      #expect(((try? NamespaceName(text)) != nil) == allowed.contains(byte), "\(byte)")
    }
  }
}
