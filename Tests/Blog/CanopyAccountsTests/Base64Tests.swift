import CanopyTesting
import Testing

@testable import CanopyAccounts

@Suite struct Base64Tests {
  @Test func `the texts of the specification are encoded and decoded`() {
    let known: [(String, String)] = [
      ("", ""), ("f", "Zg"), ("fo", "Zm8"), ("foo", "Zm9v"), ("foob", "Zm9vYg"),
      ("fooba", "Zm9vYmE"), ("foobar", "Zm9vYmFy"),
    ]
    for (plain, text) in known {
      #expect(Base64.encode(Array(plain.utf8), as: .standard) == text)
      #expect(Base64.decode(text, as: .url) == Array(plain.utf8))
    }
    #expect(Base64.encode([0xFB, 0xFF], as: .standard) == "+/8")
    #expect(Base64.encode([0xFB, 0xFF], as: .url) == "-_8")
  }

  @Test(arguments: ["A", "AAAAA", "Zh", "Zm9", "Zg==", "Z g", "Zm+v", "Zmé", "\0\0\0\0"])
  func `a text that encoding never returns is refused`(_ text: String) {
    #expect(Base64.decode(text, as: .url) == nil)
  }

  @Test func `decoding reverses encoding, and each byte has one text of two characters`() {
    var generator = SeededGenerator(printingSeedFor: "Base64Tests")
    for count in 0...100 {
      let bytes = generator.bytes(count)
      #expect(Base64.decode(Base64.encode(bytes, as: .standard), as: .standard) == bytes)
      #expect(Base64.decode(Base64.encode(bytes, as: .url), as: .url) == bytes)
    }
    var decoded = 0
    for one in UInt8(0)..<128 {
      for other in UInt8(0)..<128 {
        let text = String(decoding: [one, other], as: UTF8.self)
        guard let bytes = Base64.decode(text, as: .url) else { continue }
        #expect(Base64.encode(bytes, as: .url) == text)
        decoded += 1
      }
    }
    #expect(decoded == 256)
  }
}
