import CanopyEngine
import CanopyTesting
import Testing

/// Tasks of which each network has one under way.
@Suite(.timeLimit(.minutes(20))) struct NetworkTurnsTests {
  /// A substitute for a connection.
  private final class Connection: Sendable {
    let network: String?

    init(_ network: String?) {
      self.network = network
    }

    var turns: TurnGroup { TurnGroup(network: network, connection: ObjectIdentifier(self)) }
  }

  @Test func `a task waits for the one of its network, and for no other`() async throws {
    let turns = NetworkTurns()
    let connections = ["a", "a", "b", nil, nil].map { Connection($0) }
    let gate = Gate()
    let done = Answers<Int>()
    let first = Task { try await turns.withTurn(of: connections[0].turns) { await gate.pass() } }
    await gate.reached()
    let second = Task {
      try await turns.withTurn(of: connections[1].turns) { done.add(1) }
    }
    // Each connection from this machine is a network of its own, and a task without a group waits for none.
    for index in 2..<connections.count {
      try await turns.withTurn(of: connections[index].turns) { done.add(index) }
    }
    try await turns.withTurn(of: nil) { done.add(5) }
    #expect(done.values == [2, 3, 4, 5])
    #expect(turns.networks == 1)
    gate.open()
    try await first.value
    try await second.value
    #expect(done.values == [2, 3, 4, 5, 1])
    // Nothing is kept for a network without tasks.
    #expect(turns.networks == 0)
  }

  @Test func `a task that is cancelled while it waits leaves nothing behind`() async throws {
    let turns = NetworkTurns()
    let connection = Connection("a")
    let gate = Gate()
    let first = Task { try await turns.withTurn(of: connection.turns) { await gate.pass() } }
    await gate.reached()
    let second = Task { try await turns.withTurn(of: connection.turns) {} }
    second.cancel()
    await #expect(throws: CancellationError.self) { try await second.value }
    #expect(turns.networks == 1)
    gate.open()
    try await first.value
    #expect(turns.networks == 0)
    await #expect(throws: CancellationError.self) {
      try await turns.withTurn(of: connection.turns) { throw CancellationError() }
    }
    #expect(turns.networks == 0)
  }
}
