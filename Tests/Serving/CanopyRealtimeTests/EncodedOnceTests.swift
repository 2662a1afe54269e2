import CanopyEvents
import NIOCore
import NIOPosix
import Testing

@testable import CanopyRealtime

/// Values that several clients get over the WebSockets of one event loop.
@Suite(.timeLimit(.minutes(20))) struct EncodedOnceTests {
  @Test func `a value for a get, a listener and a line is encoded once in a style`() async throws {
    try await withRealtime(.socket) { server in
      try await server.write("/a", #"{"n":1,"tags":[1,2]}"#)
      let loop = server.group.next()
      func counts() async throws -> EncodedNodes.Counts {
        try await loop.submit { server.connections.encoded.value(of: loop).counts }.get()
      }
      let clients = [try await server.connect(), try await server.connect()]
      for client in clients {
        try await client.send(1, "g", #"{"p":"/a"}"#)
        try await client.expect(answer: 1, "ok", #"{"n":1,"tags":{"0":1,"1":2}}"#)
        try await client.send(2, "q", #"{"p":"/a","h":""}"#)
        try await client.expect(push: "a", #"{"n":1,"tags":{"0":1,"1":2}}"#)
        try await client.expect(answer: 2, status: "ok")
      }
      let afterMessages = try await counts()
      #expect(afterMessages.made == 1 && afterMessages.found == 3)
      for _ in 0..<2 {
        let line = try await server.connectForLines()
        try await line.send("GET /a")
        try await line.expect(#"+{"n":1,"tags":[1,2]}"#)
      }
      let afterLines = try await counts()
      #expect(afterLines.made == 2 && afterLines.found == 4)
    }
  }
}
