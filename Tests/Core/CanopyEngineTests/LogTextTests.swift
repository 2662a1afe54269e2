import CanopyTree
import Testing

@testable import CanopyEngine

/// Texts of clients in the log.
struct LogTextTests {
  @Test func `invisible characters become spaces, and the text cannot end its quotation marks`() {
    #expect("plain".quotedForLog == "\"plain\"")
    let evil = "a\u{85}b\u{9B}31m\u{2028}\u{202E}c\u{1B}\r\nd\u{200B}\u{FEFF}e"
    #expect(evil.quotedForLog == "\"a b 31m  c   d  e\"")
    #expect("x\" level=\"error\\".quotedForLog == #""x\" level=\"error\\""#)
    #expect("é 🌲 漢".quotedForLog == "\"é 🌲 漢\"")
  }

  @Test func `a text of two hundred characters is whole, and a longer one is cut off`() {
    let most = String(repeating: "x", count: 200)
    #expect(most.quotedForLog == "\"\(most)\"")
    #expect((most + "y").quotedForLog == "\"\(most)…\"")
  }

  @Test func `a location has a slash`() throws {
    #expect(try Location("a/b\u{2028} level=error").textForLog == "\"/a/b  level=error\"")
    #expect(try Location("a/.priority").textForLog == "\"/a/.priority\"")
  }
}
