import CanopyEngine
import CanopyTesting
import CanopyTree
import CanopyWire
import Testing

@testable import CanopySession

/// Long reads that end before their result.
@Suite(.timeLimit(.minutes(20))) struct InterruptedReadTests {
  @Test func `an interrupted read ends without a reply`() async throws {
    let parts = try await LineParts()
    let interruption = Interruption()
    var query = GetOptions()
    query.hasQuery = true
    for options in [GetOptions(), query] {
      let request = ReadRequest.get(Location(.root), options)
      func read() throws -> Reply {
        try parts.operations.reply(
          to: request, as: .administrator, in: true, isLong: true, interruption)
      }
      if !interruption.isMade { _ = try read() }
      interruption.make()
      #expect(throws: CancellationError.self) { try read() }
    }
  }

  @Test
  func `a read whose connection has events to send does not hold its turn while it waits for them`()
    async throws
  {
    let operations = try await LineParts().operations
    let request = ReadRequest.get(Location(.root), GetOptions())
    let reply = await operations.longRead(request, as: .administrator, turns: nil) {
      nil
    } after: {
      // The only turn is free.
      let other = await operations.longRead(request, as: .administrator, turns: nil) {
        true
      } after: {
        false
      }
      guard case .value(let node, _, _, _) = other else { return .absent }
      return node
    }
    guard case .value(let node, _, _, _) = reply else {
      Issue.record("the read failed")
      return
    }
    #expect(node == true)
  }

  @Test func `a cancelled task reads nothing`() async throws {
    let parts = try await LineParts()
    let task = Task {
      withUnsafeCurrentTask { $0?.cancel() }
      return await parts.operations.longRead(
        .get(Location(.root), GetOptions()), as: .administrator, turns: nil
      ) {
        true
      } after: {
        true
      }
    }
    guard case .failure(let error) = await task.value else {
      Issue.record("the read was not cancelled")
      return
    }
    expectRefusal(error, of: "a cancelled read of the root", .unavailable)
  }
}
