import CanopyEngine
import CanopySession
import CanopyTesting
import CanopyTree
import Testing

@testable import CanopyGateway

/// Responses that a client does not read are charged with the memory of their values, not with their JSON.
@Suite(.timeLimit(.minutes(20))) struct HeldResponseTests {
  /// A list that takes more than 50 bytes of memory for each element, which has five bytes of JSON.
  private static let count = 300_000
  private static let list = Node(children: (0..<count).map { (Key(index: Int32($0)), true) })

  @Test(arguments: [
    ("", [:]), ("?orderBy=%22$key%22", [:]), ("", ["Accept": "text/event-stream"]),
  ])
  func `an unread response is charged with the memory of its nodes`(
    _ query: String, _ fields: [String: String]
  ) async throws {
    try await withGateway { server in
      let write = try Write.set(Location("open/list"), WriteValue(Self.list))
      _ = try await server.parts.engine.transact { _ in Decision(write, ()) }
      let memory = server.parts.operations.memory
      let before = memory.used
      try await HTTPClient.connect(server.port, receiveBytes: 16_384) { client in
        try await client.begin("GET", "/open/list.json\(query)", fields)
        try await eventually { memory.used - before > 50 * Self.count }
        // At most the pages, and an array of the children that grew by doubling.
        #expect(memory.used - before < (64 + 2 * 48) * Self.count)
      }
      try await eventually { memory.used - before < 2 * MemoryBudget.reportBytes }
    }
  }

  @Test func `a client gets a value that takes half of the budget, and no larger one`() async throws
  {
    // A value is charged without the node itself and its place.
    let bytes = Self.list.heldBytes(atMost: .max) - 64
    for memoryMax in [2 * bytes, 2 * bytes - 1] {
      var limits = Limits()
      limits.memoryMax = memoryMax
      try await withGateway(limits: limits) { server in
        let write = try Write.set(Location("open/list"), WriteValue(Self.list))
        _ = try await server.parts.engine.transact { _ in Decision(write, ()) }
        try await server.connect { client in
          let response = try await client.request("GET", "/open/list.json")
          guard memoryMax == 2 * bytes else {
            return #expect(response.status == 413, "\(response)")
          }
          #expect(
            response.status == 200 && response.body.count == 2 + 5 * Self.count - 1, "\(response)")
        }
      }
    }
  }
}
