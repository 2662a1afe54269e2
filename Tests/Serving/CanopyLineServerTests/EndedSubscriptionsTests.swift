import CanopyTesting
import CanopyTree
import NIOCore
import NIOEmbedded
import Testing

@testable import CanopyEngine
@testable import CanopyEvents
@testable import CanopySession

/// The subscriptions of connections that have ended.
@Suite(.timeLimit(.minutes(20))) struct EndedSubscriptionsTests {
  /// Ends the subscriptions of a connection in turns that a test gives.
  private final class Turns: Sendable {
    private let due: NIOLoopBoundBox<[() -> Void]>

    init(_ loop: any EventLoop) {
      due = .makeBoxSendingValue([], eventLoop: loop)
    }

    /// Ends the subscriptions of connections in this order.
    func end(
      _ numbers: [Int], _ setting: OwnHubSetting, network: String?, to memory: MemoryBudget
    ) async throws {
      let turns = try await setting.loop.executeInContext { [due, loop = setting.loop] in
        NIOLoopBound(LoopTurns(loop: loop) { due.value.append($0) }, eventLoop: loop)
      }
      for number in numbers {
        try await setting.onLoop(number) { connection in
          let group = TurnGroup(network: network, connection: ObjectIdentifier(connection))
          EndedSubscriptions(connection.subscriptions, of: connection.hub, turnGroup: group)
            .remove(in: turns.value, charging: 1_000, to: memory)
        }
      }
    }

    /// Gives a turn. Returns whether one was wanted.
    func give(_ setting: OwnHubSetting) async throws -> Bool {
      try await setting.loop.executeInContext { [due] in
        guard let body = due.value.first else { return false }
        due.value.removeFirst()
        body()
        return true
      }
    }
  }

  @Test func `a few are removed in each turn, and their memory stays charged until all are`()
    async throws
  {
    try await withOwnHubSetting { setting in
      let few = EndedSubscriptions.removedMax
      let number = try await setting.open(3 * few + 1)
      try await setting.giveTurns()
      #expect(setting.engine.listenerCounts.listeners == 3 * few + 1)
      let (memory, turns) = (MemoryBudget(bytesMax: 1 << 30), Turns(setting.loop))
      try await turns.end([number], setting, network: nil, to: memory)
      var counts: [Int] = []
      repeat {
        counts.append(setting.engine.listenerCounts.listeners)
        #expect(memory.used == (counts.last == 0 ? 0 : 1_000))
      } while try await turns.give(setting)
      #expect(counts == [2 * few + 1, few + 1, 1, 0])
      #expect(try await setting.left(number) == [0, 0, 0])
    }
  }

  @Test func `few of them are removed at once`() async throws {
    try await withOwnHubSetting { setting in
      let number = try await setting.open(EndedSubscriptions.removedMax)
      try await setting.giveTurns()
      let (memory, turns) = (MemoryBudget(bytesMax: 1 << 30), Turns(setting.loop))
      try await turns.end([number], setting, network: nil, to: memory)
      #expect(setting.engine.listenerCounts.listeners == 0 && memory.used == 0)
      #expect(try await !turns.give(setting))
    }
  }

  @Test func `none of them gets an event before it is removed`() async throws {
    try await withOwnHubSetting { setting in
      let number = try await setting.open(2 * EndedSubscriptions.removedMax)
      let other = try await setting.open(1)
      try await setting.giveTurns()
      let before = try await setting.onLoop(number) { $0.sequences }
      let seen = try await setting.onLoop(other) { $0.sequences.count }
      let (memory, turns) = (MemoryBudget(bytesMax: 1 << 30), Turns(setting.loop))
      try await turns.end([number], setting, network: nil, to: memory)
      #expect(setting.engine.listenerCounts.listeners > 1)
      try await setting.write(1)
      try await setting.giveTurns()
      #expect(try await setting.onLoop(number) { $0.sequences } == before)
      #expect(try await setting.onLoop(other) { $0.sequences.count } == seen + 1)
    }
  }

  @Test func `a connection that is lost while many subscriptions move leaves nothing`()
    async throws
  {
    try await withOwnHubSetting { setting in
      let count = EventHubs.connectionMax + 1
      let number = try await setting.open(count)
      #expect(try await !setting.isShared(number))
      let (memory, turns) = (MemoryBudget(bytesMax: 1 << 30), Turns(setting.loop))
      try await turns.end([number], setting, network: nil, to: memory)
      try await setting.giveTurns()
      while try await turns.give(setting) {}
      try await setting.giveTurns()
      #expect(setting.engine.listenerCounts.listeners == 0 && memory.used == 0)
      #expect(try await setting.left(number) == [0, 0, 0])
    }
  }

  @Test func `a subscription whose verdict waits for its turn does not begin`() async throws {
    try await withOwnHubSetting { setting in
      let gate = Gate()
      async let held: Void = setting.engine.longStarts.withTurn { await gate.pass() }
      await gate.reached()
      let costly = ListenAuthorization { _, _, stepsLeft in
        guard stepsLeft == .max else {
          stepsLeft = 0
          return nil
        }
        return ReadVerdict(isAllowed: true)
      }
      let number = try await setting.open(1, costly)
      try await eventually { setting.engine.longStarts.waiting == 1 }
      try await setting.onLoop(number) { $0.endAll() }
      try await eventually { setting.engine.longStarts.waiting == 0 }
      try await setting.waitUntilIdle()
      #expect(try await setting.onLoop(number) { $0.refused } == 1)
      #expect(try await setting.left(number) == [0, 0, 0])
      gate.open()
      try await held
    }
  }

  @Test(arguments: Depth.allCases)
  func `a lost connection with many subscriptions leaves nothing in the end`(
    _ depth: Depth
  ) async throws {
    try await withServer(depth) { server in
      let other = try await server.connectAsAdministrator()
      try await other.value("SET /n 0")
      let idle = server.parts.operations.memory.used
      let count = 5 * EndedSubscriptions.removedMax
      for _ in 0..<3 {
        let client = try await server.connectAsAdministrator()
        for number in 0..<count { _ = try await client.begin("LISTEN /n/\(number)") }
        #expect(server.parts.engine.listenerCounts.listeners == count)
        await client.disconnect()
        try await server.eventually {
          server.parts.engine.listenerCounts.listeners == 0
            && server.parts.operations.memory.used <= idle
        }
      }
    }
  }
}
