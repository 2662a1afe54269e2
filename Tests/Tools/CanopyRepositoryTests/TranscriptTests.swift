import CanopyTesting
import Foundation
import Testing

struct TranscriptTests {
  private struct Mismatch: Error, CustomStringConvertible {
    var description: String
  }

  @Test func `most documents for readers of the protocol have transcripts`() throws {
    let documents = try Document.all().filter { !$0.transcripts.isEmpty }
    #expect(documents.count >= 3)
    #expect(documents.flatMap(\.transcripts).count >= 5)
  }

  @Test(
    .timeLimit(.minutes(20)),
    arguments: try Document.all().filter { !$0.transcripts.isEmpty })
  func `a server sends the replies of a transcript`(_ document: Document) async throws {
    let folder = try TemporaryFolder()
    let data = folder.file("data")
    let seed = try await Program.run(
      Program.canopy,
      ["seed", "--data", data, Repository.root.appending(path: SeedTests.path).path])
    try #require(seed.status == 0, "\(seed.errors)")
    let server = try await RunningServer(data: data)
    let token = try String(contentsOfFile: data + "/admin-token", encoding: .utf8)
      .trimmingCharacters(in: .whitespacesAndNewlines)
    try await blocking {
      var matcher = ReplyMatcher()
      for transcript in document.transcripts {
        try Self.play(transcript, of: document, to: server, token: token, &matcher)
      }
    }
    #expect(try await server.stop() == 0)
  }

  private static func play(
    _ transcript: Document.Transcript, of document: Document, to server: RunningServer,
    token: String, _ matcher: inout ReplyMatcher
  ) throws {
    let connection = try LineConnection(to: server)
    var isOver = false
    for exchange in transcript.exchanges {
      let typed = exchange.typed.replacing("<the text in data/admin-token>", with: token)
      try connection.send(matcher.sent(typed))
      for expected in exchange.replies {
        let reply = try connection.receive() ?? "(the connection closed)"
        guard try matcher.matches(expected, reply) else {
          throw Mismatch(
            description: """
              \(document.path):\(exchange.line): \(exchange.typed)
              document: \(expected)
              server:   \(reply)
              """)
        }
      }
      isOver =
        exchange.typed == "QUIT"
        || exchange.replies.last?.hasSuffix("the connection closes") == true
    }
    // The server has sent no other line.
    if !isOver { try connection.send("PING") }
    let last = try connection.receive()
    guard last == (isOver ? nil : "+\"PONG\"") else {
      throw Mismatch(
        description:
          "\(document.path):\(transcript.line): the server sent more: \(last ?? "nothing")")
    }
  }

  @Test
  func `in a transcript an ellipsis matches any text, and an id matches the same id everywhere`()
    throws
  {
    let (mine, other) = ("-OkNdt6cBe5Vp3NTAr2j", "-OkOM3i7rRkXifX_caNQ")
    let (hers, his) = ("-P57_YMVEJvIQmvEmzqs", "-P6wLu5nheZxxGnjIeUW")
    var matcher = ReplyMatcher()
    #expect(try matcher.matches("+{…}", #"+{"a":1}"#))
    #expect(try !matcher.matches("+{…}", "-{}"))
    #expect(try !matcher.matches("+[1.0]", "+[1x0]"))
    #expect(try !matcher.matches(#"+{"id":"\#(mine)"}"#, #"+{"id":"short"}"#))
    #expect(try !matcher.matches("+\(mine) \(mine)", "+\(hers) \(his)"))
    #expect(try matcher.matches("+\(mine) \(mine)", "+\(hers) \(hers)"))
    #expect(matcher.sent("SHOW \(mine)") == "SHOW \(hers)")
    #expect(matcher.sent("SHOW \(other)") == "SHOW \(other)")
    #expect(try !matcher.matches("+\(mine)", "+\(his)"))
    #expect(try matcher.matches("+\(mine)\(other)…", "+\(mine)\(other)!"), "too long for an id")
  }
}
