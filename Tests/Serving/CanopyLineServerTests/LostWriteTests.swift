import CanopyEngine
import CanopyTesting
import CanopyTree
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
}
