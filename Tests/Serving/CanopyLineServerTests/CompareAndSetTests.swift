import CanopyEngine
import CanopyTesting
import CanopyTree
import CanopyWire
import Testing

@testable import CanopyLineServer
@testable import CanopySession

/// CAS of values that are too large to be hashed on the engine's thread.
@Suite(.timeLimit(.minutes(20))) struct CompareAndSetTests {
  /// Profiles that are together too large to be hashed on the engine's thread.
  private static func profiles(_ count: Int) -> String {
    let members = (0..<count).map { "\"u\($0)\":{\"username\":\"name \($0)\"}" }
    return "{" + members.joined(separator: ",") + "}"
  }

  @Test(arguments: Depth.allCases)
  func `a large value is compared like a small one`(_ depth: Depth) async throws {
    try await withServer(depth) { server async throws in
      let client = try await server.connectAsAdministrator()
      for count in [1, 500] {
        try await client.value("SET /a \(Self.profiles(count))")
        let etag = try await client.text("etag", "GET /a {\"etag\":true}")
        let wrong = try await client.value("CAS /a wrong 1")
        #expect(wrong["committed"] == .leaf(false))
        #expect(wrong["etag"]?.string == etag)
        #expect(wrong["data"] == (try await client.value("GET /a")))
        let right = try await client.value("ONCE k\(count) 1 0 CAS /a \(etag) {\"b\":\(count)}")
        #expect(right["committed"] == .leaf(true))
        try await client.expect("GET /a", "+{\"b\":\(count)}")
        #expect(try await client.value("ONCE k\(count) 1 0 CAS /a \(etag) {\"b\":0}") == right)
      }
    }
  }

  @Test(arguments: Depth.allCases)
  func `the engine's work does not grow with the value, and no hash is computed for strangers`(
    _ depth: Depth
  ) async throws {
    let few = try await work(depth, profiles: 400)
    let many = try await work(depth, profiles: 4_000)
    #expect(many.ofStranger <= few.ofStranger + 20)
    #expect(many.ofAdministrator <= few.ofAdministrator + 20)
  }

  /// Counts the nodes that are touched when a stranger or the administrator compares a large value.
  private func work(
    _ depth: Depth, profiles: Int
  ) async throws -> (ofStranger: Int, ofAdministrator: Int) {
    try await WorkCounter.counting { counter in
      var result = (ofStranger: 0, ofAdministrator: 0)
      try await withServer(depth) { server async throws in
        let administrator = try await server.connectAsAdministrator()
        let stranger = try await server.connect()
        try await administrator.value("SET /users \(Self.profiles(profiles))")
        let etag = try await administrator.text("etag", "GET /users {\"etag\":true}")
        var before = counter.count
        let turns = server.parts.operations.longWork.turns
        for tag in ["x", etag] {
          try await stranger.expect("CAS /users \(tag) 1", failsWith: "PERMISSION_DENIED")
        }
        let ofStranger = counter.count - before
        #expect(server.parts.operations.longWork.turns == turns)
        before = counter.count
        try await administrator.value("CAS /users x 1")
        try await administrator.value("CAS /users \(etag) {\"a\":1}")
        let ofAdministrator = counter.count - before
        #expect(server.parts.operations.longWork.turns == turns + 2)
        try await administrator.expect("GET /users", "+{\"a\":1}")
        result = (ofStranger, ofAdministrator)
      }
      return result
    }
  }

  @Test func `a condition on a priority needs the permission to read`() async throws {
    try await withServer(.inProcess) { server async throws in
      try await server.set(rules: #"{"rules":{"w":{".write":true}}}"#)
      let administrator = try await server.connectAsAdministrator()
      try await administrator.value("SET /w/a {\".value\":1,\".priority\":2}")
      try await administrator.value("SET /w/b 1")
      let stranger = try await server.connect()
      let absent = Node.absent.etag
      for place in ["a", "b", "c"] {
        for etag in [absent, "x"] {
          try await stranger.expect(
            "CAS /w/\(place)/.priority \(etag) 5", failsWith: "PERMISSION_DENIED")
        }
      }
      #expect(server.root.at(try Path("w/b")).priority.isAbsent)
      let created = try await stranger.value("CAS /w/c \(absent) 1")
      #expect(created["committed"] == .leaf(true))
      let compared = try await administrator.value("CAS /w/b/.priority \(absent) 5")
      #expect(compared["committed"] == .leaf(true))
    }
  }

  @Test(arguments: Depth.allCases)
  func `a value that changes while it is hashed is compared again, up to a bound`(
    _ depth: Depth
  ) async throws {
    try await withServer(depth) {
      // Turns cost no time here, so they come in the order of the requests.
      $0.engine.elapsed = { .zero }
    } _: { server async throws in
      let client = try await server.connectAsAdministrator()
      let other = try await server.connectAsAdministrator()
      let hashing = server.parts.operations.longWork
      let value = Self.profiles(500)
      /// Sets the value. Its hashes are kept, so hashing it again takes one turn.
      func set() async throws -> String {
        try await other.value("SET /a \(value)")
        return try await other.text("etag", "GET /a {\"etag\":true}")
      }
      let etag = try await set()
      let compared = "CAS /a \(etag) 1"
      /// Carries out a CAS. Carries out other requests, each one while the value is hashed: its commit is appended, and
      /// not yet a part of the tree.
      func compare(while requests: [String]) async throws -> String {
        let journal = server.parts.journal.gate
        var (gate, holder) = await hold(hashing)
        try await client.send("\(compared)\n")
        for request in requests {
          try await server.eventually { hashing.waiting == 1 }
          journal.hold()
          let write = Task { try await other.value(request) }
          await journal.reached()
          let previous = (gate, holder)
          // Also waits for the turn after the one of the request.
          let next = Gate()
          let waiting = Task { try await hashing.withTurn { await next.pass() } }
          try await server.eventually { hashing.waiting == 2 }
          (gate, holder) = (next, waiting)
          previous.0.open()
          try await previous.1.value
          await next.reached()
          journal.open()
          _ = try await write.value
        }
        gate.open()
        let line = try await client.readLine()
        try await holder.value
        return line
      }
      // A short line: a long one would wait for a turn itself.
      let same = "SET /a/u0 {\"username\":\"name 0\"}"
      var line = try await compare(while: [same, "SET /elsewhere 1"])
      expectReply(line, to: compared, hasPrefix: "+{\"committed\":true")
      #expect(try await set() == etag)
      line = try await compare(while: ["SET /a/new 1"])
      expectReply(line, to: compared, hasPrefix: "+{\"committed\":false")
      #expect(line.contains("\"new\":1"))
      #expect(try await set() == etag)
      let most = Array(repeating: same, count: CompareAndSet.roundsMax)
      line = try await compare(while: most)
      expectReply(line, to: compared, failsWith: "CONFLICT")
      line = try await compare(while: most.dropLast())
      expectReply(line, to: compared, hasPrefix: "+{\"committed\":true")
    }
  }

  @Test(arguments: Depth.allCases)
  func `a CAS does not overwrite an integer with that of another value, above 2^53 too`(
    _ depth: Depth
  ) async throws {
    try await withServer(depth) { server async throws in
      let client = try await server.connectAsAdministrator()
      for place in ["/n", "/deep/n"] {
        try await client.value("SET \(place) 9007199254740993")
        let etag = try await client.text("etag", "GET \(place) {\"etag\":true}")
        for neighbour in ["9007199254740992", "9007199254740994"] {
          try await client.value("SET \(place) \(neighbour)")
          let differs = try await client.value("CAS \(place) \(etag) 1")
          #expect(differs["committed"] == .leaf(false))
        }
        try await client.value("SET \(place) 9007199254740993")
        try await client.expect("CAS \(place) \(etag) 1", contains: "\"committed\":true")
      }
    }
  }

  private func hold(_ queue: TurnQueue) async -> (Gate, Task<Void, any Error>) {
    let gate = Gate()
    let task = Task { try await queue.withTurn { await gate.pass() } }
    await gate.reached()
    return (gate, task)
  }

  @Test(arguments: Depth.allCases)
  func `a write that follows a CAS of a large value is made after it`(_ depth: Depth) async throws {
    try await withServer(depth) { server async throws in
      let client = try await server.connectAsAdministrator()
      for turn in 0..<5 {
        try await client.value("SET /a \(Self.profiles(500))")
        let etag = try await client.text("etag", "GET /a {\"etag\":true}")
        let compared = "CAS /a \(etag) {\"b\":\(turn)}"
        try await client.send("\(compared)\nSET /a/c 3\nGET /a\n")
        try await client.expectNext(to: compared, hasPrefix: "+{\"committed\":true")
        try await client.expectNext(to: "SET /a/c 3", hasPrefix: "+{\"seq\":")
        try await client.expectNext(to: "GET /a", "+{\"b\":\(turn),\"c\":3}")
      }
    }
  }
}
