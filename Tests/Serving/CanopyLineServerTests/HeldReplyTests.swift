import CanopyEngine
import CanopyTesting
import CanopyTree
import Testing

@testable import CanopyLineServer
@testable import CanopySession

/// Replies that a client does not read are charged with the memory of their values, not with their JSON.
@Suite(.timeLimit(.minutes(20))) struct HeldReplyTests {
  /// A list that takes more than 50 bytes of memory for each element, which has five bytes of JSON.
  private static let count = 100_000
  private static let list = Node(children: (0..<count).map { (Key(index: Int32($0)), true) })

  private func withList(
    memoryMax: Int = Limits().memoryMax, _ body: @escaping (TestServer) async throws -> Void
  ) async throws {
    try await withServer(.inProcess) {
      $0.limits.memoryMax = memoryMax
      $0.receiveBytes = 16_384
    } _: { server in
      let write = try Write.set(Location("list"), WriteValue(Self.list))
      _ = try await server.parts.engine.transact { _ in Decision(write, ()) }
      try await body(server)
    }
  }

  @Test(arguments: [
    "GET /list", #"GET /list {"orderBy":"$value"}"#, "CAS /list x 1", "LISTEN /list",
    #"LISTEN /list {"events":"value"}"#,
  ])
  func `an unread reply is charged with the memory of its nodes`(_ request: String) async throws {
    try await withList { server in
      let client = try await server.connectAsAdministrator()
      let memory = server.parts.operations.memory
      let before = memory.used
      try await client.pauseReading()
      try await client.send(request + "\n")
      try await server.eventually { memory.used - before > 50 * Self.count }
      // At most the pages, and an array of the children that grew by doubling.
      #expect(memory.used - before < (64 + 2 * 48) * Self.count)
      await client.disconnect()
      try await server.eventually { memory.used - before < 2 * MemoryBudget.reportBytes }
    }
  }

  @Test(arguments: ["GET /list", "CAS /list x 1", "LISTEN /list"])
  func `a client gets a value that takes half of the budget, and no larger one`(
    _ request: String
  ) async throws {
    // A value is charged without the node itself and its place.
    let bytes = Self.list.heldBytes(atMost: .max) - 64
    for memoryMax in [2 * bytes, 2 * bytes - 1] {
      try await withList(memoryMax: memoryMax) { server in
        let client = try await server.connectAsAdministrator()
        let reply = try await client.request(request)
        #expect(reply.hasPrefix("-TOO_LARGE") == (memoryMax < 2 * bytes), "\(reply.prefix(200))")
        if request == "GET /list", memoryMax == 2 * bytes {
          #expect(reply.utf8.count == 1 + 2 + 5 * Self.count - 1)
        }
      }
    }
  }
}
