import CanopyTesting
import NIOCore
import NIOEmbedded
import Testing

@testable import CanopyEvents
@testable import CanopyLineServer

/// Replies that wait for events while their connection moves to a hub of its own.
@Suite(.timeLimit(.minutes(20))) struct MovedWaitTests {
  @Test func `a read that began to wait before a move follows the events after the move`()
    async throws
  {
    try await withServer(.inProcess) { server in
      let connected = try await server.connectAsAdministrator()
      let client = try #require(connected as? ChannelClient)
      try await client.value("LISTEN /a {\"events\":\"value\"}")
      #expect(try await client.readLine().hasPrefix(">"))
      let handler = try await client.handler()
      let loop = client.channel.testingEventLoop
      let shared = try await loop.executeInContext {
        let hub = handler.value.hub
        // The hub sends nothing as long as it waits for events.
        hub.state.value.isComputing = true
        return hub
      }
      try await client.send("GET /a\n")
      try await loop.executeInContext { handler.value.noteLongCheck(of: 1) }
      // The engine moves the subscription, and then gives the event to the other hub.
      let writer = try await server.connectAsAdministrator()
      try await writer.value("SET /a 1")
      try await loop.executeInContext {
        #expect(handler.value.hub !== shared)
        shared.state.value.isComputing = false
        shared.goOnLater()
      }
      await loop.run()
      #expect(try await client.readLine().hasPrefix(">"))
      try await client.expectNext(to: "GET /a", "+1")
    }
  }
}

extension ChannelClient {
  /// Returns the handler of the connection.
  fileprivate func handler() async throws -> NIOLoopBound<LineHandler> {
    try await channel.testingEventLoop.executeInContext { [channel] in
      NIOLoopBound(
        try channel.pipeline.syncOperations.handler(type: LineHandler.self),
        eventLoop: channel.eventLoop)
    }
  }
}
