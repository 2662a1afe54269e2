import CanopyEngine
import CanopyTesting
import CanopyTree
import CanopyWire
import Testing

@testable import CanopySession

/// The turns in which requests for on-disconnect writes are authorized.
@Suite(.timeLimit(.minutes(20))) struct ArmingTurnsTests {
  private func request(locations: Int, valueBytes: Int = 1) throws -> (DisconnectRequest, String) {
    let value = String(repeating: "x", count: valueBytes)
    let changes = try (0..<locations).map {
      Request.Update(location: try Location("k\($0)"), value: WriteValue(Node(value)))
    }
    return (.update(.root, changes), String(repeating: "x", count: valueBytes * locations))
  }

  @Test func `a short request takes a turn of short work, and a long one a turn of long work`()
    async throws
  {
    let parts = try await LineParts()
    let running = Task { await parts.run() }
    let operations = parts.operations
    _ = try await parts.rules.replace(
      by: #"{"rules":{".write":true}}"#, in: parts.engine)
    let (atOnce, bytes) = (Operations.locationsMadeAtOnceMax, Operations.bytesEncodedAtOnceMax)
    for (locations, valueBytes, isLong) in [
      (1, 1, false), (atOnce, 1, false), (atOnce + 1, 1, true), (1, bytes, false),
      (1, bytes + 1, true),
    ] {
      let (request, text) = try request(locations: locations, valueBytes: valueBytes)
      let before = (operations.shortWork.turns, operations.longWork.turns)
      let completion = await operations.onDisconnect(request, text: text, as: .anonymous, [])
      #expect(completion.armed?.count == 1, "\(completion.reply)")
      #expect(operations.shortWork.turns - before.0 == (isLong ? 0 : 1))
      #expect(operations.longWork.turns - before.1 == (isLong ? 1 : 0))
    }
    parts.engine.stop()
    await running.value
  }

  @Test func `a request waits for the turn of its network`() async throws {
    let parts = try await LineParts()
    let running = Task { await parts.run() }
    let operations = parts.operations
    let (request, text) = try request(locations: Operations.locationsMadeAtOnceMax + 1)
    let (held, end) = AsyncStream.makeStream(of: Void.self)
    let holder = Task {
      try await operations.longWork.withTurn { for await _ in held {} }
    }
    try await eventually { operations.longWork.turns == 1 }
    let arming = Task {
      await operations.onDisconnect(request, text: text, as: .administrator, [])
    }
    try await eventually { operations.longWork.waiting == 1 }
    end.finish()
    try await holder.value
    #expect(await arming.value.armed?.count == 1)
    parts.engine.stop()
    await running.value
  }
}
