import CanopyEngine
import CanopyEvents
import CanopyTesting
import CanopyTree
import NIOCore
import NIOEmbedded
import Testing

@testable import CanopyGateway
@testable import CanopySession

/// The charge for the requests of connections that are gone.
@Suite(.timeLimit(.minutes(20))) struct LostConnectionTests {
  private static let bound = 1024 * 1024

  private static func parts() async throws -> LineParts {
    var limits = Limits()
    limits.memoryMax = bound
    return try await LineParts(limits: limits)
  }

  /// Returns an active connection, and charges its request.
  private static func connection(
    _ operations: Operations, work: Int
  ) throws -> (GatewayConnection, EmbeddedChannel) {
    let channel = EmbeddedChannel()
    let loop = channel.embeddedEventLoop
    let connection = GatewayConnection(
      channel, operations,
      .makeBoxSendingValue(GatewayLoop(operations, loop: loop), eventLoop: loop))
    try channel.connect(to: SocketAddress(ipAddress: "127.0.0.1", port: 1)).wait()
    connection.becomeHTTP()
    connection.charge(work)
    return (connection, channel)
  }

  @Test func `the writes of connections that are gone hold back new connections`() async throws {
    let parts = try await Self.parts()
    let memory = parts.operations.memory
    let (first, firstChannel) = try Self.connection(parts.operations, work: 600_000)
    #expect(memory.used == 600_000 + GatewayConnection.baseBytes)
    first.lose()
    let task = GatewayConnection.baseBytes - GatewayConnection.newBytes
    #expect(memory.used == 600_000 + task, "its channel is released")
    // The second one is cut off. The first one is gone, so cutting it off would release nothing.
    let (second, secondChannel) = try Self.connection(parts.operations, work: 600_000)
    firstChannel.embeddedEventLoop.run()
    secondChannel.embeddedEventLoop.run()
    #expect(firstChannel.isActive && !secondChannel.isActive)
    second.lose()
    #expect(memory.used == 1_200_000 + 2 * task && memory.isExhausted)
    // The connections end before the writes.
    first.end()
    second.end()
    #expect(memory.used == 1_200_000 && memory.isExhausted)
    first.charge(0)
    #expect(memory.used == 600_000 && !memory.isExhausted)
    second.charge(0)
    #expect(memory.used == 0)
  }

  @Test func `a connection that is gone stays charged for its requests until they have ended`()
    async throws
  {
    let parts = try await Self.parts()
    let memory = parts.operations.memory
    let (connection, channel) = try Self.connection(parts.operations, work: 50_000)
    connection.charge(head: 40_000)
    connection.charge(input: 30_000)
    connection.charge(output: 20_000)
    connection.receivedBody(10_000)
    #expect(memory.used == 150_000 + GatewayConnection.baseBytes)
    connection.lose()
    let task = GatewayConnection.baseBytes - GatewayConnection.newBytes
    #expect(memory.used == 100_000 + task)
    connection.charge(0)
    #expect(memory.used == 50_000 + task)
    connection.end()
    #expect(memory.used == 0)
    _ = try? channel.finish()
  }

  @Test func `a connection that has closed itself is not reported as cut off`() async throws {
    for closes in [true, false] {
      let parts = try await Self.parts()
      let (large, channel) = try Self.connection(parts.operations, work: 700_000)
      let (other, otherChannel) = try Self.connection(parts.operations, work: 600_000)
      if closes { channel.close(promise: nil) }
      channel.embeddedEventLoop.run()
      otherChannel.embeddedEventLoop.run()
      #expect(!channel.isActive)
      let lines = parts.log.lines.filter { $0.contains("short of memory") }
      #expect(lines.count == (closes ? 0 : 1))
      for connection in [large, other] {
        connection.charge(0)
        connection.end()
      }
      #expect(parts.operations.memory.used == 0)
    }
  }

  @Test func `the log has a bounded number of lines about connections that are cut off`()
    async throws
  {
    let parts = try await Self.parts()
    let count = 70
    for _ in 0..<count {
      let (large, channel) = try Self.connection(parts.operations, work: 700_000)
      let (other, otherChannel) = try Self.connection(parts.operations, work: 600_000)
      for loop in [channel, otherChannel].map(\.embeddedEventLoop) { loop.run() }
      #expect(!channel.isActive)
      for connection in [large, other] {
        connection.charge(0)
        connection.end()
      }
    }
    #expect(parts.operations.memory.used == 0)
    let lines = parts.log.lines.filter { $0.contains("short of memory") }
    // The clock of the test stands still, unless it is that of the system.
    #expect((60..<count).contains(lines.count), "\(lines.count)")
  }

  @Test(arguments: [10, 100_000])
  func `a write stays charged until it is made, though its client is gone`(
    bytes: Int
  ) async throws {
    try await withGateway { server in
      let memory = server.parts.operations.memory
      let gate = server.parts.journal.holdNextAppend()
      let before = try await server.connect { client in
        let body = "\"" + String(repeating: "x", count: bytes) + "\""
        try await client.begin("PUT", "/open/a.json", [:], body)
        await gate.reached()
        let before = memory.used
        server.gate.closeAll()
        _ = try? await client.end()
        return before
      }
      try await eventually { server.gate.count == 0 }
      let mostBytes = before - GatewayConnection.newBytes + MemoryBudget.reportBytes
      try await eventually { memory.used <= mostBytes }
      #expect(memory.used >= 1024 + bytes)
      gate.open()
      try await eventually { memory.used == 0 }
    }
  }

  @Test(arguments: [10_000, 100_000])
  func `a body that waits to be decoded is dropped when its client is gone`(
    elements: Int
  ) async throws {
    try await withGateway { server in
      let operations = server.parts.operations
      let turns = elements < 50_000 ? operations.textWork : operations.longWork
      let gate = Gate()
      async let held: Void = turns.withTurn(of: nil) { await gate.pass() }
      await gate.reached()
      try await server.connect { client in
        let body = "[" + Array(repeating: "1", count: elements).joined(separator: ",") + "]"
        try await client.begin("PUT", "/open/a.json", [:], body)
        try await eventually { turns.waiting == 1 }
        #expect(operations.memory.used > 96 * elements)
        server.gate.closeAll()
        _ = try? await client.end()
      }
      try await eventually { operations.memory.used == 0 }
      #expect(turns.waiting == 0)
      gate.open()
      try await held
      #expect(server.parts.engine.root.child("open").isAbsent)
    }
  }
}
