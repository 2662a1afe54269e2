import Testing

@testable import CanopyTree

/// Invalid UTF-8 is refused everywhere.
struct JSONUTF8Tests {
  private static let quote = UInt8(ascii: "\"")

  static let invalid: [[UInt8]] = [
    [0x80], [0xBF], [0xC0, 0x80], [0xC1, 0xBF], [0xC2], [0xC2, 0x41], [0xC3, 0xC3],
    [0xE0, 0x80, 0x80], [0xE0, 0x9F, 0xBF], [0xE2], [0xE2, 0x82], [0xE2, 0x82, 0x41],
    [0xED, 0xA0, 0x80], [0xED, 0xBF, 0xBF], [0xED, 0xA0, 0xBC, 0xED, 0xBC, 0xB3],
    [0xF0, 0x80, 0x80, 0x80], [0xF0, 0x8F, 0xBF, 0xBF], [0xF0, 0x9F], [0xF0, 0x9F, 0x8C],
    [0xF4, 0x90, 0x80, 0x80], [0xF5, 0x80, 0x80, 0x80], [0xF8, 0x88, 0x80, 0x80, 0x80], [0xFE],
    [0xFF], [0xEF, 0xBB], [0xFF, 0xFE], [0xFE, 0xFF],
  ]

  @Test(arguments: invalid)
  func `invalid bytes in a string are refused at every position`(bytes: [UInt8]) {
    for before in 0..<20 {
      for after in [0, 1, 9] {
        let string =
          [Self.quote] + [UInt8](repeating: 0x61, count: before) + bytes
          + [UInt8](repeating: 0x61, count: after) + [Self.quote]
        #expect(Reading(string).offset == 0, "\(string)")
        // Also in a key and beside an escape.
        let key = [UInt8(ascii: "{")] + string + Array(":1}".utf8)
        #expect(Reading(key).offset == 1)
        let escaped = [Self.quote, UInt8(ascii: "\\"), UInt8(ascii: "n")] + string.dropFirst()
        #expect(Reading(escaped).offset == 0)
      }
    }
  }

  @Test(arguments: invalid)
  func `invalid bytes outside a string are refused`(bytes: [UInt8]) {
    #expect(Reading(bytes).offset == 0)
    #expect(Reading(Array("[1".utf8) + bytes + Array("]".utf8)).offset == 2)
    #expect(Reading(Array("1 ".utf8) + bytes).offset == 2)
  }

  @Test func `every kind of valid character is accepted at every position`() {
    let characters = ["é", "\u{7FF}", "\u{800}", "€", "\u{D7FF}", "\u{E000}", "🌳", "\u{10FFFF}"]
    for character in characters {
      for before in 0..<20 {
        let text = String(repeating: "a", count: before) + character + "b"
        #expect(Reading("\"" + text + "\"") == .value(Node(text), []))
      }
    }
  }

  @Test func `a text in another encoding is refused`() {
    #expect(Reading([0x31, 0x00]).offset == 1)
    #expect(Reading([0x00, 0x31]).offset == 0)
    #expect(Reading([0xEF, 0xBB, 0xBF, 0x31]).offset == 0)
    #expect(Reading([0xFF, 0xFE, 0x31, 0x00]).offset == 0)
  }
}
