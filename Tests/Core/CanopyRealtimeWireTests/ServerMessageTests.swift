import CanopyTree
import CanopyWire
import Testing

@testable import CanopyRealtimeWire

/// The texts of the server's messages.
struct ServerMessageTests {
  private func text(_ write: (inout JSONOutput) -> Void) -> String {
    var output = JSONOutput()
    write(&output)
    return output.text
  }

  @Test func `the messages have the form of the protocol`() throws {
    #expect(
      text { ServerMessage.handshake(milliseconds: 5, host: "h:1", session: "s", to: &$0) }
        == #"{"t":"c","d":{"t":"h","d":{"ts":5,"v":"5","h":"h:1","s":"s"}}}"#)
    #expect(text(ServerMessage.pong) == #"{"t":"c","d":{"t":"o","d":{}}}"#)
    #expect(text { ServerMessage.error("e", to: &$0) } == #"{"t":"c","d":{"t":"e","d":"e"}}"#)
    #expect(text { ServerMessage.shutdown("r", to: &$0) } == #"{"t":"c","d":{"t":"s","d":"r"}}"#)
    #expect(
      text { ServerMessage.answer(3, .dataStale, to: &$0) { $0.append("{}") } }
        == #"{"t":"d","d":{"r":3,"b":{"s":"datastale","d":{}}}}"#)
    #expect(
      text { ServerMessage.revoked(.expiredToken, "why", to: &$0) }
        == #"{"t":"d","d":{"a":"ac","b":{"s":"expired_token","d":"why"}}}"#)
    let path = try Path("a/b")
    #expect(
      text { ServerMessage.cancelled(path, queryText: nil, to: &$0) }
        == #"{"t":"d","d":{"a":"c","b":{"p":"a/b"}}}"#)
    #expect(
      text { ServerMessage.cancelled(path, queryText: #"{"l":1}"#, to: &$0) }
        == #"{"t":"d","d":{"a":"c","b":{"p":"a/b","q":[{"l":1}]}}}"#)
  }

  @Test(arguments: [nil, 0, 12, Int64.max])
  func `a push begins with its tag`(tag: Int64?) throws {
    let beginning = text { PushMessage.begin(tag: tag, to: &$0) }
    #expect(beginning.utf8.count == PushMessage.beginBytes(tag: tag))
    let message = text { output in
      PushMessage.begin(tag: tag, to: &output)
      PushMessage.put(Location(.root), to: &output) { $0.append("1") }
    }
    let body = try #require(try JSONValue(json: message)["d"]?["b"])
    #expect(body["p"]?.string == "")
    #expect(body["t"] == tag.map { .leaf(Node($0)) })
    #expect(try JSONValue(json: message)["d"]?["a"]?.string == "d")
  }

  @Test func `every error of the server has a word of the protocol`() {
    for code in WireError.Code.allCases {
      #expect(RealtimeStatus(code) != .ok)
      #expect(RealtimeStatus(code) != .dataStale)
    }
    #expect(RealtimeStatus(.permissionDenied) == .permissionDenied)
    #expect(RealtimeStatus(.tooLarge) == .tooBig)
    #expect(RealtimeStatus(.invalidQuery) == .invalidParameters)
  }
}
