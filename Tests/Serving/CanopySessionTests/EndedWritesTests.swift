import CanopyEngine
import CanopyTesting
import CanopyTree
import CanopyWire
import Synchronization
import Testing

@testable import CanopySession

/// Large on-disconnect writes, when their connection has ended.
@Suite(.timeLimit(.minutes(20))) struct EndedWritesTests {
  private static let rules = #"{"rules":{".write":true,"list":{".indexOn":["n"]}}}"#

  private func armed(
    _ requests: [(location: String, json: String)], _ operations: Operations
  ) async throws -> [ArmedWrite] {
    var armed: [ArmedWrite] = []
    for (location, json) in requests {
      let request = DisconnectRequest.set(try Location(location), try WriteValue(json: json))
      let text = "SET /\(location) \(json)"
      let completion = await operations.onDisconnect(request, text: text, as: .anonymous, armed)
      armed = try #require(completion.armed)
    }
    return armed
  }

  private func list(_ count: Int) -> String {
    let members = (0..<count).map { "\"k\($0)\":{\"n\":\($0 % 7),\"t\":\"abcdefghijklmnop\"}" }
    return "{" + members.joined(separator: ",") + "}"
  }

  /// Returns the nodes that the engine touches for writes at the end of a connection.
  private func work(
    _ requests: [(location: String, json: String)]
  ) async throws -> (nodes: Int, turns: Int) {
    try await WorkCounter.counting { counter in
      var configuration = Engine.Configuration.forTests
      configuration.threadTime = { .zero }
      let parts = try await LineParts(engine: configuration)
      let operations = parts.operations
      return try await withThrowingTaskGroup(of: Void.self) { group in
        group.addTask { await parts.run() }
        _ = try await parts.rules.replace(by: Self.rules, in: parts.engine)
        let armed = try await armed(requests, operations)
        let (before, turns) = (counter.count, operations.longWork.turns)
        await withCheckedContinuation { continuation in
          operations.carryOut(
            armed, as: .anonymous, from: "192.0.2.1", retry: { _ in },
            completion: { continuation.resume() })
        }
        let result = (counter.count - before, operations.longWork.turns - turns)
        for (location, json) in requests {
          #expect(parts.engine.root.at(try Path(location)) == (try Node(json: json)))
        }
        #expect(parts.engine.snapshot.sequence == 1)
        parts.engine.stop()
        try await group.waitForAll()
        return result
      }
    }
  }

  @Test(arguments: [false, true])
  func `the writer encodes and sorts no large value at the end of a connection`(
    withAnother: Bool
  ) async throws {
    let others = withAnother ? [(location: "online", json: "false")] : []
    let few = try await work([(location: "list", json: list(2_000))] + others)
    let many = try await work([(location: "list", json: list(16_000))] + others)
    #expect(many.nodes < few.nodes + 200, "\(few), then \(many)")
    #expect(few.turns == 1 && many.turns == 1)
  }

  @Test func `the large writes of a connection that ends before the server stops are made`()
    async throws
  {
    let parts = try await LineParts(engine: .forTests)
    let operations = parts.operations
    try await withThrowingTaskGroup(of: Void.self) { group in
      group.addTask { await parts.run() }
      _ = try await parts.rules.replace(by: Self.rules, in: parts.engine)
      let armed = try await armed([(location: "list", json: list(4_000))], operations)
      let isDone = Mutex(false)
      operations.carryOut(
        armed, as: .anonymous, from: "192.0.2.1", retry: { _ in },
        completion: { isDone.withLock { $0 = true } })
      #expect(!operations.isIdle)
      await operations.endedWritesSubmitted()
      parts.engine.stop()
      try await eventually { isDone.withLock { $0 } }
      #expect(parts.engine.root.child("list").childCount == 4_000)
      #expect(operations.isIdle)
      try await group.waitForAll()
    }
  }

  @Test func `many small writes of a connection are encoded beside the writer together`()
    async throws
  {
    func requests(_ count: Int) -> [(location: String, json: String)] {
      (0..<40).map { (location: "a\($0)", json: list(count)) }
    }
    let few = try await work(requests(100))
    let many = try await work(requests(400))
    #expect(many.nodes < few.nodes + 4_000, "\(few), then \(many)")
    #expect(few.turns == 1 && many.turns == 1)
    #expect(try await work(requests(2)).turns == 0)
  }
}
