import CanopyEngine
import CanopyEvents
import CanopyTesting
import CanopyTree
import CanopyWire
import NIOCore
import NIOEmbedded
import Testing

@testable import CanopyGateway
@testable import CanopySession

/// The end of requests and event streams with their connection.
@Suite(.timeLimit(.minutes(20))) struct LostRequestTests {
  /// A request that waits for a turn of long work.
  struct LongRequest: Sendable, CustomTestStringConvertible {
    var testDescription: String
    var method = "GET"
    var target = "/open/large.json"
    var fields: [String: String] = [:]
    var body: String?
    /// Whether it waits for the hash of a short value.
    var hashesShortValue = false

    static let all = [
      Self(testDescription: "a read"),
      Self(testDescription: "a shallow read", target: "/open/large.json?shallow=true"),
      Self(testDescription: "a read with a timeout", target: "/open/large.json?timeout=10min"),
      Self(testDescription: "an ETag", fields: ["X-Firebase-ETag": "true"]),
      Self(testDescription: "an event stream", fields: ["Accept": "text/event-stream"]),
      Self(
        testDescription: "a write with a bound on its size", method: "PUT",
        target: "/open/a.json?writeSizeLimit=tiny", body: "1"),
      Self(
        testDescription: "a conditional write", method: "PUT", fields: ["If-Match": "x"],
        body: "1"),
      Self(
        testDescription: "a conditional update", method: "PATCH", fields: ["If-Match": "x"],
        body: #"{"k1":1}"#),
      Self(
        testDescription: "an update of many locations", method: "PATCH", target: "/open/a.json",
        body: LostRequestTests.object(members: Operations.locationsMadeAtOnceMax + 1)),
      Self(
        testDescription: "the ETag of a value that was written", method: "PUT",
        target: "/open/a.json", fields: ["X-Firebase-ETag": "true"],
        body: "\"\(String(repeating: "x", count: 8_000))\"", hashesShortValue: true),
    ]
  }

  /// Returns an object in JSON.
  static func object(members count: Int) -> String {
    "{" + (0..<count).map { "\"k\($0)\":1" }.joined(separator: ",") + "}"
  }

  @Test(arguments: LongRequest.all)
  func `a request that waits for its turn ends with its connection`(
    _ request: LongRequest
  ) async throws {
    try await withGateway { server in
      let operations = server.parts.operations
      try await server.connect { client in
        let large = Self.object(members: 25_000)
        let response = try await client.request(
          "PUT", "/open/large.json?print=silent", [:], large)
        #expect(response.status == 204, "\(response)")
      }
      try await eventually { operations.memory.used == 0 }
      let gate = Gate()
      let work = request.hashesShortValue ? operations.shortHashWork : operations.longWork
      async let held: Void = work.withTurn(of: nil) { await gate.pass() }
      await gate.reached()
      try await server.connect { client in
        try await client.begin(request.method, request.target, request.fields, request.body)
        try await eventually { work.waiting == 1 }
        server.gate.closeAll()
        _ = try? await client.end()
      }
      // Other work has the turn all this time.
      try await eventually {
        work.waiting == 0 && operations.memory.used == 0
          && server.parts.engine.listenerCounts.listeners == 0
      }
      gate.open()
      try await held
    }
  }

  @Test func `no event stream begins on a connection that is lost`() async throws {
    let parts = try await LineParts()
    let loop = NIOAsyncTestingEventLoop()
    let channel = NIOAsyncTestingChannel(loop: loop)
    let connection = try await loop.executeInContext { [operations = parts.operations] in
      let connection = GatewayConnection(
        channel, operations,
        .makeBoxSendingValue(GatewayLoop(operations, loop: loop), eventLoop: loop))
      connection.lose()
      return connection
    }
    await #expect(throws: WireError.cancelled) {
      _ = try await EventStream.Handle.begin(
        .root, .all, as: .administrator, on: connection, in: parts.operations, nil,
        keepAliveMilliseconds: 600_000)
    }
    #expect(parts.engine.listenerCounts.listeners == 0 && parts.operations.memory.used == 0)
  }

  private static func signUp(_ name: String, _ operations: Operations) async -> Bool {
    let completion = await operations.account(
      .signUp(email: "\(name)@example.org", password: "engine of 1843", username: name),
      as: .anonymous, from: "local")
    return completion.identity != nil
  }

  @Test func `a change of an account is made though its connection is lost`() async throws {
    let accounts = "/identitytoolkit.googleapis.com/v1/accounts"
    let login = #"{"email":"ada@example.org","password":"engine of 1843"}"#
    try await withGateway { server in
      let (hash, operations) = (server.parts.hash, server.parts.operations)
      hash.hold()
      // Two passwords are hashed at a time, so that of the client waits.
      async let bob = Self.signUp("bob", operations)
      async let eve = Self.signUp("eve", operations)
      try await eventually { hash.running == 2 }
      try await server.connect { client in
        try await client.begin("POST", "\(accounts):signUp?key=any", [:], login)
        try await eventually { server.parts.hashesWaiting == 1 }
        server.gate.closeAll()
        _ = try? await client.end()
      }
      try await eventually { server.gate.count == 0 }
      #expect(operations.memory.used > 0)
      hash.release()
      let haveSignedUp = await (bob, eve)
      #expect(haveSignedUp == (true, true))
      try await eventually { operations.memory.used == 0 }
      try await server.connect { client in
        let response = try await client.request(
          "POST", "\(accounts):signInWithPassword?key=any", [:], login)
        #expect(response.status == 200, "\(response)")
      }
    }
  }

  @Test func `a request about an account that waits to be decoded ends with its connection`()
    async throws
  {
    try await withGateway { server in
      let operations = server.parts.operations
      let (turns, bytes) = (operations.textWork, Operations.longTextBytes)
      let gate = Gate()
      async let held: Void = turns.withTurn(of: nil) { await gate.pass() }
      await gate.reached()
      try await server.connect { client in
        try await client.begin(
          "POST", "/identitytoolkit.googleapis.com/v1/accounts:signUp?key=any", [:],
          "{\"a\":\"\(String(repeating: "x", count: bytes))\"}")
        try await eventually { turns.waiting == 1 }
        #expect(operations.memory.used > bytes)
        server.gate.closeAll()
        _ = try? await client.end()
      }
      // Other work has the turn all this time.
      try await eventually { turns.waiting == 0 && operations.memory.used == 0 }
      gate.open()
      try await held
      #expect(await server.parts.accountStore.all.isEmpty)
      #expect(!server.parts.log.lines.contains { $0.hasPrefix("error") })
    }
  }
}
