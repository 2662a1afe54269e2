import CanopyEngine
import CanopyTesting
import CanopyTree
import NIOCore
import NIOEmbedded
import Synchronization
import Testing

@testable import CanopySession

/// Writes that wait for a turn of long work when their connection is lost.
@Suite(.timeLimit(.minutes(20))) struct LostWriteTests {
  /// Returns an object in JSON.
  private static func object(members count: Int) -> String {
    "{" + (0..<count).map { "\"k\($0)\":1" }.joined(separator: ",") + "}"
  }

  private static let requests = [
    "CAS /large wrong 1",
    "ONCE drawn-at-random-12345 1 0 CAS /large wrong 1",
    "UPDATE /a \(object(members: Operations.locationsMadeAtOnceMax + 1))",
    "ONCE drawn-at-random-12345 1 0 UPDATE /a "
      + object(members: Operations.locationsMadeAtOnceMax + 1),
  ]

  @Test(arguments: Depth.allCases, requests)
  func `a write that waits for its turn ends with its connection, and may be sent again`(
    _ depth: Depth, _ request: String
  ) async throws {
    try await withServer(depth) { server in
      let writer = try await server.connectAsAdministrator()
      try await writer.value("SET /large \(Self.object(members: 5_000))")
      let work = server.parts.operations.longWork
      let gate = Gate()
      async let held: Void = work.withTurn(of: nil) { await gate.pass() }
      await gate.reached()
      let client = try await server.connectAsAdministrator()
      try await client.send(request + "\n")
      try await server.eventually { work.waiting == 1 }
      await client.disconnect()
      // Other work has the turn all this time.
      try await server.eventually { work.waiting == 0 }
      gate.open()
      try await held
      try await writer.value("SET /later 1")
      #expect(server.root.child("a").isAbsent && server.root.child("large").childCount == 5_000)
      try await writer.value(request)
      #expect(server.root.child("a").isAbsent == request.contains("CAS"))
    }
  }

  /// A clock whose look in a later turn of a queue runs a closure, when the work of the turn has not begun.
  private final class TurnClock: Sendable {
    private struct Next {
      let queue: TurnQueue
      let turns: Int
      let run: @Sendable () -> Void
    }

    private let next = Mutex<Next?>(nil)

    /// - Parameter number: 1 for the next turn.
    func run(inTurn number: Int, of queue: TurnQueue, _ run: @escaping @Sendable () -> Void) {
      next.withLock { $0 = Next(queue: queue, turns: queue.turns + number, run: run) }
    }

    func look() -> Duration {
      let due: Next? = next.withLock { next in
        guard let found = next, found.queue.turns == found.turns else { return nil }
        next = nil
        return found
      }
      due?.run()
      return .zero
    }
  }

  /// Returns requests whose writes take long to prepare, in a server with an object at `/large`.
  private static func longRequests(_ etag: String) -> [String] {
    let text = "\"\(String(repeating: "x", count: Operations.bytesEncodedAtOnceMax))\""
    let many = object(members: Operations.locationsMadeAtOnceMax + 1)
    return [
      "SET /a \(text)", "PUSH /a \(text)", "UPDATE /a \(many)",
      "ONCE drawn-at-random-12345 1 0 SET /a \(text)", "CAS /a null_etag \(text)",
      "CAS /large \(etag) 1",
    ]
  }

  @Test(arguments: 0..<6)
  func `no write that is prepared when its connection is lost follows the on-disconnect writes`(
    _ index: Int
  ) async throws {
    let clock = TurnClock()
    try await withServer(.inProcess) {
      $0.engine.elapsed = { clock.look() }
    } _: { server in
      let writer = try await server.connectAsAdministrator()
      try await writer.value("SET /large \(Self.object(members: 5_000))")
      let (memory, work) = (server.parts.operations.memory, server.parts.operations.longWork)
      try await server.eventually { !server.parts.engine.hasCommitsUnderWay }
      let before = (root: server.root, bytes: memory.used)
      let client = try #require(try await server.connectAsAdministrator() as? ChannelClient)
      try await client.value("ONDISCONNECT SET /status \"gone\"")
      let request = Self.longRequests(before.root.child("large").etag)[index]
      // A long text takes a turn to be decoded.
      let number = request.utf8.count < Operations.longTextBytes ? 1 : 2
      clock.run(inTurn: number, of: work) { [channel = client.channel] in
        // The loop of the connection ends it meanwhile.
        try? channel.close().wait()
        try? channel.eventLoop.submit {}.wait()
      }
      try await client.send(request + "\n")
      try await server.eventually { server.root.child("status") == "gone" }
      // The request has an outcome.
      try await server.eventually { memory.used <= before.bytes }
      try await writer.value("SET /later 1")
      #expect(server.root.child("a").isAbsent)
      #expect(server.root.child("large") == before.root.child("large"))
    }
  }

  @Test func `a write that waits for its turn ends when the administrator ends its connection`()
    async throws
  {
    try await withServer(.inProcess) { server in
      let administrator = try await server.connectAsAdministrator()
      let work = server.parts.operations.longWork
      let gate = Gate()
      async let held: Void = work.withTurn(of: nil) { await gate.pass() }
      await gate.reached()
      let client = try #require(try await server.connectAsAdministrator() as? ChannelClient)
      try await client.value("ONDISCONNECT SET /status \"gone\"")
      // It is short, so it is decoded at once.
      try await client.send(Self.longRequests("")[2] + "\n")
      try await server.eventually { work.waiting == 1 }
      // The connection stays until its client has read the reason.
      try await client.pauseReading()
      let all = try await administrator.value("CLIENTS")["clients"]?.elements
      guard case .leaf(let id)? = all?.last?["id"] else {
        Issue.record("the connection is not listed")
        return gate.open()
      }
      try await administrator.expect("ENDCLIENT \(try #require(id.integerValue))", "+null")
      try await server.eventually { server.root.child("status") == "gone" && work.waiting == 0 }
      #expect(client.channel.isActive)
      gate.open()
      try await held
      try await administrator.value("SET /later 1")
      #expect(server.root.child("a").isAbsent)
    }
  }
}
