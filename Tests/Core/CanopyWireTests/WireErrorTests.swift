import CanopyTree
import CanopyWire
import Testing

@Suite(.timeLimit(.minutes(20))) struct WireErrorTests {
  @Test func `a sentence never has a line break or an invisible character`() {
    let breaks = [
      "\n", "\r", "\r\n", "\u{0}", "\u{7F}", "\u{85}", "\u{2028}", "\u{2029}", "\u{202E}",
    ]
    for text in breaks {
      let error = WireError(.badRequest, "before\(text)after")
      #expect(isOneLine(error.sentence))
      #expect(error.sentence.hasPrefix("before ") && error.sentence.hasSuffix(" after"))
    }
    #expect(WireError(.badRequest, "naïve — 猫 👍").sentence == "naïve — 猫 👍")
  }

  @Test func `an error that repeats input is one short line`() {
    let long = String(repeating: "x\\u2028\\u0085\\u202e", count: 10_000)
    for line in ["RECENT {\"\(long)\":1}", "GET /a {\"\(long)\":1}", "TOP {\"\(long)\":1}"] {
      let sentence = refusal(line)?.sentence ?? ""
      #expect(isOneLine(sentence))
      #expect(sentence.utf8.count < 2_000)
    }
  }

  @Test func `the codes are those of the protocol's documentation`() {
    let page = """
      BAD_REQUEST UNKNOWN_VERB UNAUTHENTICATED PERMISSION_DENIED NOT_FOUND CONFLICT INVALID_PATH \
      INVALID_DATA INVALID_QUERY TOO_LARGE QUOTA_EXCEEDED RATE_LIMITED OVERLOADED UNAVAILABLE INTERNAL
      """
    #expect(WireError.Code.allCases.map(\.rawValue) == page.split(separator: " ").map(String.init))
  }

  @Test func `each error of the tree has a code`() {
    let codes: [(TreeError, WireError.Code)] = [
      (.invalidKey("x"), .invalidPath), (.invalidPath("x"), .invalidPath),
      (.invalidData("x"), .invalidData), (.invalidJSON("x", offset: 1), .invalidData),
      (.invalidQuery("x"), .invalidQuery), (.tooLarge("x"), .tooLarge),
    ]
    for (error, code) in codes {
      #expect(WireError(error) == WireError(code, error.sentence))
    }
  }

  @Test func `a reply is one line with CRLF`() {
    var output = JSONOutput()
    ReplyLine.success(to: &output) { $0.append("null") }
    ReplyLine.failure(WireError(.notFound, "there is\nnothing"), to: &output)
    #expect(output.text == "+null\r\n-NOT_FOUND there is nothing\r\n")
  }
}
