import CanopyTesting
import CanopyTree
import Foundation
import Testing

@testable import CanopyClient

/// The sentences of errors: each names the bound or the place, in the words of the library.
@Suite(.timeLimit(.minutes(20))) struct ErrorSentenceTests {
  /// Returns the sentence of the error of a query.
  private func sentence(of query: DatabaseQuery) throws -> String {
    try #require(#expect(throws: DatabaseError.self) { try query.spec() }).sentence
  }

  @Test func `a query names its highest limit, and the bound that has a key too many`() throws {
    let list = try Database(url: "canopy://127.0.0.1:1").reference(withPath: "list")
    for limit in [UInt.max, UInt(Int.max), UInt(Int32.max) + 1] {
      for query in [list.queryLimited(toFirst: limit), list.queryLimited(toLast: limit)] {
        #expect(try sentence(of: query) == "a limit may be at most 2147483647")
      }
    }
    _ = try list.queryLimited(toLast: UInt(Int32.max)).spec()
    let byKey = list.queryOrderedByKey().queryStarting(atValue: "a", childKey: "b")
    #expect(
      try sentence(of: byKey) == "by key, startAt must be one key, without the key of a child")
  }

  @Test func `data that are too deep are refused with their path`() async throws {
    let place = try Database(url: "canopy://127.0.0.1:1").reference(withPath: "deep")
    let keys = (0..<32).map { "k\($0)" }
    var value: Any = 1
    for key in keys { value = [key: value] }
    let set = await #expect(throws: DatabaseError.self) { try await place.setValue(value) }
    #expect(set?.sentence == "data may stand at most 32 levels deep, at \"/deep\"")
    let update = await #expect(throws: DatabaseError.self) {
      try await place.updateChildValues([keys.joined(separator: "/"): 1])
    }
    #expect(update?.sentence == "data may stand at most 32 levels deep, at \"/deep\"")
  }

  @Test func `a refusal of the server has no words of the line protocol`() async throws {
    var limits = Limits()
    limits.listenersMax = 1
    limits.updateLocationsMax = 1
    try await withBackend(limits: limits) { backend in
      try await backend.replaceRules(by: #"{"rules":{".read":true,".write":true}}"#)
      let root = try backend.anonymousClient().reference()
      let ends = Received<String>()
      root.child("a").observe(.value, with: { _ in ends.add("value") })
      await ends.wait(for: 1)
      root.child("b").observe(
        .value, with: { _ in }, withCancel: { ends.add(($0 as? DatabaseError)?.sentence ?? "") })
      #expect(
        await ends.wait(for: 2).last
          == "a connection may have at most 1 subscriptions; end some first")
      let error = await #expect(throws: DatabaseError.self) {
        try await root.updateChildValues(["c": 1, "d": 1])
      }
      #expect(error?.sentence == "one update may set at most 1 locations; split it into several")
    }
  }

  @Test(arguments: WireKind.allCases)
  func `a request about accounts that is too long is an invalid argument`(_ kind: WireKind)
    async throws
  {
    try await withBackend(over: kind) { backend in
      let auth = Auth.auth(database: try backend.anonymousClient())
      let error = await #expect(throws: AuthError.self) {
        try await auth.createUser(
          withEmail: "ada@example.org", password: String(repeating: "x", count: 17 << 20))
      }
      #expect(error?.code == .invalidArgument)
    }
  }

  @Test func `an app with an invalid name is logged and not created`() throws {
    for name in ["", "a b", "ä", "a/b"] {
      let log = LineLog()
      let options = FirebaseOptions()
      options.databaseOptions.logger = log.logger
      FirebaseApp.configure(name: name, options: options)
      #expect(FirebaseApp.app(name: name) == nil)
      #expect(log.lines.count == 1 && log.lines[0].hasPrefix("error an app is not created"))
    }
  }
}
