import CanopyTesting
import NIOCore
import NIOEmbedded
import Testing

@testable import CanopyEvents
@testable import CanopyLineServer

/// The requests that a connection carries out before other connections have their turn.
struct WorkBudgetTests {
  /// A loop whose clock advances each time it is read.
  private final class Setting {
    let loop = EmbeddedEventLoop()
    private let parts: LineParts
    private let context: LoopContext
    private let pending: Pending
    /// The time that passes between two looks at the clock, in nanoseconds.
    private let step: UInt64

    private final class Pending {
      var turn: (() -> Void)?
      var nanoseconds: UInt64 = 0
    }

    init(_ parts: LineParts, microseconds: UInt64) {
      let (pending, step) = (Pending(), microseconds * 1000)
      (self.pending, self.step) = (pending, step)
      context = LoopContext(
        parts.operations, loop: loop,
        turns: LoopTurns(loop: loop) { pending.turn = $0 },
        now: {
          pending.nanoseconds += step
          return .uptimeNanoseconds(pending.nanoseconds)
        })
      self.parts = parts
    }

    func connect() throws -> EmbeddedChannel {
      let channel = EmbeddedChannel(
        handler: LineHandler(shared: context), loop: loop)
      try channel.connect(to: SocketAddress(ipAddress: "127.0.0.1", port: 1)).wait()
      return channel
    }

    /// Returns the number of lines that a channel has sent.
    func lines(_ channel: EmbeddedChannel) throws -> Int {
      loop.run()
      var count = 0
      while let buffer = try channel.readOutbound(as: ByteBuffer.self) {
        count += buffer.readableBytesView.count { $0 == UInt8(ascii: "\n") }
      }
      return count
    }

    /// The number of looks at the clock.
    var looks: Int { Int(pending.nanoseconds / step) }

    /// Lets one connection have its turn. Returns whether one waited.
    func goOn() -> Bool {
      guard let turn = pending.turn.take() else { return false }
      turn()
      return true
    }
  }

  private func burst(_ count: Int) -> ByteBuffer {
    ByteBuffer(string: String(repeating: "PING\n", count: count))
  }

  @Test func `a burst of requests is carried out in turns, and others are served between them`()
    async throws
  {
    try await withServer(.inProcess) { server in
      let setting = Setting(server.parts, microseconds: 200)
      let attacker = try setting.connect()
      let honest = try setting.connect()
      try attacker.writeInbound(burst(4_096))
      // The clock is read at every fourth request. The third time half a millisecond is over.
      var answered = try setting.lines(attacker)
      #expect(answered < 20)
      var turns = 0
      while setting.goOn() {
        turns += 1
        try honest.writeInbound(burst(1))
        #expect(try setting.lines(honest) == 1)
        let count = try setting.lines(attacker)
        #expect(count <= 20)
        answered += count
      }
      #expect(answered == 4_096)
      #expect(turns > 200)
    }
  }

  @Test func `the requests of several reads do not add up, so the clock is not read for them`()
    async throws
  {
    try await withServer(.inProcess) { server in
      let setting = Setting(server.parts, microseconds: 200)
      let channel = try setting.connect()
      let fewRequests = WorkBudget.requestsPerLook - 1
      for _ in 0..<10 {
        try channel.writeInbound(burst(fewRequests))
        #expect(try setting.lines(channel) == fewRequests)
      }
      #expect(setting.looks == 0)
      try channel.writeInbound(burst(WorkBudget.requestsPerLook))
      #expect(setting.looks == 1)
    }
  }

  @Test func `the clock is read after each line of a kibibyte`() async throws {
    try await withServer(.inProcess) { server in
      let setting = Setting(server.parts, microseconds: 200)
      let attacker = try setting.connect()
      let line = "HELP " + String(repeating: "x", count: 1024) + "\n"
      try attacker.writeInbound(ByteBuffer(string: String(repeating: line, count: 100)))
      // The third time half a millisecond is over.
      #expect(try setting.lines(attacker) == 3)
      #expect(setting.goOn())
      #expect(try setting.lines(attacker) == 3)
    }
  }

  @Test func `the clock is read after each reply of 16 kibibytes`() async throws {
    try await withServer(.inProcess) { server in
      let administrator = try await server.connectAsAdministrator()
      for (name, count) in [("small", 1_000), ("large", 17_000)] {
        try await administrator.value(
          "SET /\(name) \"\(String(repeating: "x", count: count))\"")
      }
      try await server.set(rules: #"{"rules":{".read":true}}"#)
      func answered(_ name: String) throws -> Int {
        let setting = Setting(server.parts, microseconds: 200)
        let attacker = try setting.connect()
        try attacker.writeInbound(
          ByteBuffer(string: String(repeating: "GET /\(name)\n", count: 100)))
        return try setting.lines(attacker)
      }
      // The third time half a millisecond is over. The first request has no reply before it.
      #expect(try answered("large") == 4)
      let small = try answered("small")
      #expect(small >= 3 * WorkBudget.requestsPerLook && small < 20)
    }
  }

  @Test func `connections with bursts take turns`() async throws {
    try await withServer(.inProcess) { server in
      let setting = Setting(server.parts, microseconds: 200)
      let channels = try (0..<3).map { _ in try setting.connect() }
      for channel in channels { try channel.writeInbound(burst(100)) }
      for channel in channels { _ = try setting.lines(channel) }
      for turn in 0..<6 {
        #expect(setting.goOn())
        let counts = try channels.map { try setting.lines($0) }
        #expect(counts.indices.filter { counts[$0] > 0 } == [turn % 3])
      }
    }
  }

  @Test func `requests that take less than half a millisecond together are carried out at once`()
    async throws
  {
    try await withServer(.inProcess) { server in
      let setting = Setting(server.parts, microseconds: 1)
      let client = try setting.connect()
      try client.writeInbound(burst(500))
      #expect(try setting.lines(client) == 500)
      #expect(!setting.goOn())
      // The next turn begins after the loop has checked for input.
      try client.writeInbound(burst(1_999))
      #expect(try setting.lines(client) == 1_999)
      try client.writeInbound(burst(4_000))
      #expect(try setting.lines(client) < 2_010)
      #expect(setting.goOn())
    }
  }

  @Test
  func `all connections together have two milliseconds, but each carries out a few requests`()
    async throws
  {
    try await withServer(.inProcess) { server in
      let setting = Setting(server.parts, microseconds: 200)
      let channels = try (0..<20).map { _ in try setting.connect() }
      for channel in channels { try channel.writeInbound(burst(100)) }
      let counts = try channels.map { try setting.lines($0) }
      #expect(counts.reduce(0, +) < 20 * 4 + 60)
      #expect(counts.allSatisfy { $0 >= 3 })
      #expect(counts.dropLast(5).contains { $0 > 4 } && (counts.last ?? 9) <= 4)
    }
  }

  @Test func `a client that ends its sending side within a burst gets all its replies`()
    async throws
  {
    try await withServer(.inProcess) { server in
      let setting = Setting(server.parts, microseconds: 200)
      let client = try setting.connect()
      try client.writeInbound(burst(200))
      client.pipeline.fireUserInboundEventTriggered(ChannelEvent.inputClosed)
      var answered = try setting.lines(client)
      #expect(answered < 20)
      while setting.goOn() { answered += try setting.lines(client) }
      #expect(answered == 200)
    }
  }
}
