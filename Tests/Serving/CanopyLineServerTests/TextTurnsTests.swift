import CanopyEngine
import CanopyTesting
import Testing

@testable import CanopyLineServer
@testable import CanopySession

/// Texts that are decoded on another thread.
@Suite(.timeLimit(.minutes(20))) struct TextTurnsTests {
  /// Holds the only turn of a queue while `body` runs.
  private static func holding(
    _ turns: TurnQueue, _ body: () async throws -> Void
  ) async throws {
    let gate = Gate()
    async let held: Void = turns.withTurn(of: nil) { await gate.pass() }
    await gate.reached()
    let result: Result<Void, any Error>
    do { result = .success(try await body()) } catch { result = .failure(error) }
    gate.open()
    try await held
    try result.get()
  }

  private static func line(_ bytes: Int) -> String {
    let start = "SET /a \""
    return start + String(repeating: "x", count: bytes - start.utf8.count - 1) + "\""
  }

  @Test(arguments: Depth.allCases)
  func `a text of some kilobytes does not wait for long work, nor does that wait for it`(
    _ depth: Depth
  ) async throws {
    try await withServer(depth) { server in
      let operations = server.parts.operations
      let client = try await server.connectAsAdministrator()
      let (short, long) = (Operations.longTextBytes, Operations.hugeTextBytes)
      try await Self.holding(operations.longWork) {
        for bytes in [short, long - 1] {
          try await client.expect(Self.line(bytes), hasPrefix: "+{\"seq\":")
        }
      }
      #expect(operations.textWork.turns == 2)
      let turns = operations.longWork.turns
      try await Self.holding(operations.textWork) {
        try await client.expect(Self.line(long), hasPrefix: "+{\"seq\":")
      }
      #expect(operations.longWork.turns > turns)
    }
  }
}
