import CanopyEngine
import CanopyTesting
import CanopyTree
import CanopyWire
import Testing

@testable import CanopySession

/// Rules that take many steps, for requests of event loops.
@Suite(.timeLimit(.minutes(20))) struct CostlyRuleTests {
  private static let rules =
    #"{"rules":{"n":{"$u":{".read":"data.child('title').val().matches(/^[^<>]*$/)"}}}}"#

  private func root(titleBytes: Int) throws -> Node {
    try Node(json: #"{"n":{"a":{"title":"\#(String(repeating: "a", count: titleBytes))","q":1}}}"#)
  }

  private func withRules(_ body: (LineParts) async throws -> Void) async throws {
    let parts = try await LineParts()
    try await withThrowingTaskGroup(of: Void.self) { group in
      group.addTask { await parts.run() }
      _ = try await parts.rules.replace(by: Self.rules, in: parts.engine)
      try await body(parts)
      parts.engine.stop()
      try await group.waitForAll()
    }
  }

  @Test func `a read whose rules take many steps is carried out on another thread`()
    async throws
  {
    try await withRules { parts in
      let requests: [ReadRequest] = try [
        .get(Location("n/a/q"), GetOptions()), .count(Path("n/a/q"), .all),
      ]
      for request in requests {
        let few = try root(titleBytes: 1_000)
        #expect(parts.operations.read(request, as: .anonymous, in: few) != nil)
        let many = try root(titleBytes: 100_000)
        #expect(parts.operations.read(request, as: .anonymous, in: many) == nil)
        #expect(parts.operations.read(request, as: .administrator, in: many) != nil)
        let reply = await parts.operations.longRead(request, as: .anonymous, turns: nil) {
          many
        } after: {
          many
        }
        if case .failure(let error) = reply { Issue.record("\(error)") }
      }
    }
  }

  @Test func `a listener whose rules take many steps is not authorized with few of them`()
    async throws
  {
    try await withRules { parts in
      let (path, last) = (try Path("n/a/q"), try Query(order: .key, limit: .last(1)))
      #expect(parts.operations.listenAuthorization(Listening(path), as: .administrator) == nil)
      let authorization = try #require(
        parts.operations.listenAuthorization(Listening(path, last), as: .anonymous))
      let briefly = authorization.authorizeBriefly
      var stepsLeft = 8_192
      let verdict = briefly(try root(titleBytes: 1_000), 0, &stepsLeft)
      #expect(verdict?.isAllowed == true && verdict?.dependsOnQuery == false)
      #expect((1..<8_192 - 1_000).contains(stepsLeft))
      let many = try root(titleBytes: 100_000)
      #expect(briefly(many, 0, &stepsLeft) == nil && stepsLeft == 0)
      #expect(authorization.authorize(many, 0).isAllowed)
    }
  }

  @Test func `a subscription whose rules take many steps is decided by the engine alone`()
    async throws
  {
    try await withRules { parts in
      let path = try Path("n/a/q")
      func subscribe() throws(WireError) {
        _ = try parts.operations.subscription(to: path, ListenOptions(), as: .anonymous)
      }
      #expect(throws: WireError.self) { try subscribe() }
      let value = try root(titleBytes: 100_000)
      _ = try await parts.engine.transact { _ in
        Decision(try Write.set(Location(.root), WriteValue(value)), ())
      }
      try subscribe()
    }
  }
}
