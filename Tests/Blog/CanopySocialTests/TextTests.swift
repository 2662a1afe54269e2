import CanopySocial
import CanopyTree
import Testing

struct TextTests {
  /// Characters of one scalar with 1 to 4 bytes.
  static let characters = ["x", "é", "日", "🌳"]

  private func isRefused(_ check: () throws -> Void) -> Bool {
    do {
      try check()
      return false
    } catch let error as SocialError {
      if case .invalid(let sentence) = error {
        return sentence.contains(" must ") || sentence.contains(" may ")
      }
      return false
    } catch {
      return false
    }
  }

  private func text(_ character: String, _ count: Int) -> String {
    String(repeating: character, count: count)
  }

  @Test(arguments: characters)
  func `the limit of a text is in characters and not in bytes`(character: String) throws {
    #expect(Texts.titleMax == 200 && Texts.bodyMax == 65_536 && Texts.commentMax == 10_000)
    for (max, check) in [
      (Texts.titleMax, { try Texts.checkPost(title: $0, body: "b") }),
      (Texts.bodyMax, { try Texts.checkPost(title: "t", body: $0) }),
      (Texts.commentMax, { try Texts.checkComment($0) }),
    ] as [(Int, (String) throws -> Void)] {
      #expect(!isRefused { try check(text(character, 1)) })
      #expect(!isRefused { try check(text(character, max)) })
      #expect(isRefused { try check(text(character, max + 1)) })
    }
  }

  @Test func `characters are counted as scalars and not as combined characters`() throws {
    // Each looks like one character: e with an accent, and a family of seven scalars.
    #expect(!isRefused { try Texts.checkPost(title: text("e\u{301}", 100), body: "b") })
    #expect(isRefused { try Texts.checkPost(title: text("e\u{301}", 101), body: "b") })
    let family = "👨\u{200D}👩\u{200D}👧\u{200D}👦"
    #expect(!isRefused { try Texts.checkPost(title: text(family, 28), body: "b") })
    #expect(isRefused { try Texts.checkPost(title: text(family, 29), body: "b") })
  }

  @Test(arguments: [
    "", " ", "\t", "\n", " \r\n\t ", "\u{A0}", "\u{3000}\u{2003}", "\u{2028}", "\u{85}",
  ])
  func `a text needs a character that is not a space`(blank: String) throws {
    #expect(isRefused { try Texts.checkPost(title: blank, body: "b") })
    #expect(isRefused { try Texts.checkPost(title: "t", body: blank) })
    #expect(isRefused { try Texts.checkComment(blank) })
    #expect(!isRefused { try Texts.checkPost(title: "t", body: blank + "x" + blank) })
  }

  @Test
  func `a title is one line without control characters, and bodies and comments may have several`()
  {
    let controls = (0..<0x20).map { $0 } + [0x7F, 0x80, 0x85, 0x9F]
    for code in controls {
      let text = "a\(Unicode.Scalar(UInt8(code)))b"
      #expect(isRefused { try Texts.checkPost(title: text, body: "b") }, "U+\(code)")
      #expect(!isRefused { try Texts.checkPost(title: "t", body: text) })
      #expect(!isRefused { try Texts.checkComment(text) })
    }
    for text in ["a\u{A0}b", "a~", "a\u{AD}b", "\u{202E}abc", "🌳"] {
      #expect(!isRefused { try Texts.checkPost(title: text, body: "b") })
    }
  }

  @Test func `texts are stored unchanged`() async throws {
    try await Blog.with { blog in
      let title = "  e\u{301} \u{E9} 🌳 <b>\"quoted\"</b>  "
      let body = " \u{0}\r\n\ttext "
      let id = try await blog.post("ada", title, body)
      #expect(blog.at("posts/\(id)/title") == Node(title))
      #expect(blog.at("posts/\(id)/body") == Node(body))
    }
  }

  @Test func `a user name has 1 to 32 allowed characters`() throws {
    let ok = ["a", "Z", "0", "_", "-", "Ada_Lovelace-1843", text("a", 32)]
    for name in ok {
      #expect(!isRefused { try Texts.checkUsername(name) }, "\(name)")
    }
    let wrong = [
      "", text("a", 33), "a b", " a", "é", "e\u{301}", "a.b", "a/b", "a$b", "a@b", "аda", "a\u{0}",
      "ａ", "🌳", "a\n", text("é", 16), "a[0]", "a#",
    ]
    for name in wrong {
      #expect(isRefused { try Texts.checkUsername(name) }, "\(name)")
    }
    for code in UInt8(0)...127 {
      let character = Character(Unicode.Scalar(code))
      let isAllowed = character.isLetter || character.isNumber || "_-".contains(character)
      #expect(isRefused { try Texts.checkUsername("a\(character)") } == !isAllowed)
    }
  }
}
