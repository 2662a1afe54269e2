import CanopyAccounts
import CanopyEngine
import CanopyEvents
import CanopySession
import CanopyTesting
import CanopyTree
import CanopyWire
import Testing

@testable import CanopyGateway

/// Event streams.
@Suite(.timeLimit(.minutes(20))) struct StreamTests {
  private static let accept = ["Accept": "text/event-stream"]

  /// Runs a test with an event stream, and another connection for requests.
  private func withStream(
    _ target: String, _ fields: [String: String] = accept, keepAlive: Int64 = 600_000,
    limits: Limits = Limits(), prepare: (GatewayServer) async throws -> Void = { _ in },
    _ body: (GatewayServer, HTTPClient, HTTPClient) async throws -> Void
  ) async throws {
    try await withGateway(limits: limits) {
      $0.keepAliveMilliseconds = keepAlive
    } _: { server in
      try await prepare(server)
      try await server.connect { stream in
        try await stream.begin("GET", target, fields)
        let (status, fields) = try await stream.head()
        #expect(status == 200 && fields["content-type"] == "text/event-stream; charset=utf-8")
        try await server.connect { try await body(server, stream, $0) }
      }
    }
  }

  @Test func `a stream begins with the present value, and has each change with a relative path`()
    async throws
  {
    try await withStream("/open/a.json") { _, stream, client in
      #expect(try await stream.event() == #"put {"path":"/","data":null}"#)
      _ = try await client.request("PUT", "/open/a/b/c.json", [:], "1")
      #expect(try await stream.event() == #"put {"path":"/b/c","data":1}"#)
      _ = try await client.request("PATCH", "/open/a/b.json", [:], #"{"c":2,"d":{"e":3}}"#)
      #expect(try await stream.event() == #"patch {"path":"/b","data":{"c":2,"d":{"e":3}}}"#)
      _ = try await client.request("PATCH", "/open.json", [:], #"{"other":1,"a/b/c":null}"#)
      #expect(try await stream.event() == #"put {"path":"/b/c","data":null}"#)
      _ = try await client.request("PUT", "/open/a/b/.priority.json", [:], "5")
      _ = try await client.request("PUT", "/open/a.json", [:], #"{"x":[1,2]}"#)
      #expect(try await stream.event() == #"put {"path":"/","data":{"x":[1,2]}}"#)
      _ = try await client.request("DELETE", "/open.json")
      #expect(try await stream.event() == #"put {"path":"/","data":null}"#)
    }
  }

  @Test func `a stream of a query has the children that enter and leave it`() async throws {
    try await withStream("/open/indexed.json?orderBy=%22n%22&limitToLast=1") { _, stream, client in
      #expect(try await stream.event() == #"put {"path":"/","data":null}"#)
      _ = try await client.request("PUT", "/open/indexed/x.json", [:], #"{"n":1}"#)
      #expect(try await stream.event() == #"put {"path":"/x","data":{"n":1}}"#)
      _ = try await client.request("PUT", "/open/indexed/y.json", [:], #"{"n":2}"#)
      #expect(try await stream.event() == #"patch {"path":"/","data":{"x":null,"y":{"n":2}}}"#)
    }
  }

  @Test func `a large value begins a stream in pieces, and later events follow it`() async throws {
    let text = String(repeating: "0123456789", count: 40_000)
    try await withStream("/open/l.json") { server in
      try await server.connect {
        _ = try await $0.request("PUT", "/open/l.json?print=silent", [:], #"{"a":"\#(text)"}"#)
      }
    } _: { _, stream, client in
      #expect(try await stream.event() == #"put {"path":"/","data":{"a":"\#(text)"}}"#)
      _ = try await client.request("PUT", "/open/l/b.json", [:], "\"\(text)\"")
      #expect(try await stream.event() == #"put {"path":"/b","data":"\#(text)"}"#)
      _ = try await client.request("PUT", "/open/l/c.json", [:], "1")
      #expect(try await stream.event() == #"put {"path":"/c","data":1}"#)
    }
  }

  @Test func `a stream without changes has keep-alive events`() async throws {
    try await withStream("/open/a.json", keepAlive: 5) { _, stream, _ in
      let first = try await stream.event()
      #expect(first == #"put {"path":"/","data":null}"#)
      for _ in 0..<3 { #expect(try await stream.event() == "keep-alive null") }
    }
  }

  @Test func `a stream that may not begin is an error`() async throws {
    try await withGateway { server in
      try await server.connect { client in
        func status(_ target: String) async throws -> Int {
          try await client.request("GET", target, Self.accept).status
        }
        #expect(try await status("/closed.json") == 401)
        #expect(try await status("/open/a.json?auth=wrong") == 401)
        #expect(try await status("/open/a.json?orderBy=%22score%22") == 400)
        #expect(try await status("/open/a.json?shallow=true") == 400)
        #expect(try await status("/open/a.json?format=export") == 400)
        #expect(try await status("/open/a/.priority.json") == 400)
        let response = try await client.request("GET", "/open/a.json")
        #expect(response.status == 200, "\(response)")
      }
    }
  }

  @Test func `a stream ends with cancel when the right to read ends`() async throws {
    try await withStream("/open/a.json") { server, stream, _ in
      _ = try await stream.event()
      try await server.set(rules: #"{"rules":{".read":false}}"#)
      #expect(try await stream.event() == "cancel null")
      await #expect(throws: LineClientError.closed) { try await stream.event() }
      // The connection goes on.
      try await stream.expect("GET", "/health", status: 200)
    }
  }

  @Test func `a stream ends with auth_revoked when the user logs out everywhere`() async throws {
    try await withGateway { server in
      let (token, uid) = try await server.signUp("ada")
      try await server.connect { stream in
        try await stream.begin("GET", "/users/\(uid).json?auth=\(token)", Self.accept)
        #expect(try await stream.head().status == 200)
        #expect(try await stream.event().hasPrefix("put "))
        let login = await server.parts.operations.account(
          .authenticate(token: token), as: .anonymous, from: "local")
        let identity = try #require(login.identity)
        _ = await server.parts.operations.account(.logOut, as: identity, from: "local")
        #expect(try await stream.event() == "auth_revoked credential is no longer valid")
        await #expect(throws: LineClientError.closed) { try await stream.event() }
      }
    }
  }

  @Test func `the memory and the listener of a stream are released with its connection`()
    async throws
  {
    try await withGateway { server in
      for _ in 0..<3 {
        try await server.connect { stream in
          try await stream.begin("GET", "/open/a.json", Self.accept)
          _ = try await stream.head()
          _ = try await stream.event()
          #expect(server.parts.engine.listenerCounts.listeners == 1)
        }
        try await eventually { server.parts.engine.listenerCounts.listeners == 0 }
      }
      try await eventually {
        server.parts.operations.memory.used == 0 && server.gate.count == 0
      }
    }
  }

  @Test(arguments: [false, true])
  func `bytes behind the request of a stream are charged, and a few are read at most`(
    _ areBody: Bool
  ) async throws {
    var fields = Self.accept
    if areBody { fields["Transfer-Encoding"] = "chunked" }
    try await withStream("/open/a.json", fields) { server, stream, client in
      #expect(try await stream.event() == #"put {"path":"/","data":null}"#)
      _ = try await client.request("GET", "/open/a.json")
      let memory = server.parts.operations.memory
      let before = memory.used
      let text = String(repeating: "x", count: 0xFFFF)
      try await stream.send(areBody ? "ffff\r\n\(text)\r\nffff\r\n\(text)" : text + text)
      try await eventually { memory.used >= before + 16 * 1024 }
      #expect(memory.used <= before + 512 * 1024)
      _ = try await client.request("PUT", "/open/a.json", [:], "1")
      #expect(try await stream.event() == #"put {"path":"/","data":1}"#)
    }
  }

  @Test func `a client that reads slowly gets fewer events, and the last state`() async throws {
    let text = String(repeating: "0123456789", count: 20_000)
    try await withGateway { server in
      try await HTTPClient.connect(server.port, receiveBytes: 4096) { stream in
        try await stream.begin("GET", "/open/a.json", Self.accept)
        _ = try await stream.head()
        _ = try await stream.event()
        let operations = server.parts.operations
        let start = operations.memory.used
        let count = 40
        for number in 0..<count {
          let write = try Write.set(
            Location(Path("open/a")), WriteValue(json: "\"\(number)-\(text)\""))
          _ = try await server.parts.engine.transact { _ in Decision(write, ()) }
          #expect(operations.memory.used - start < Limits().queuedBytesMax)
        }
        var received = 0
        var event = ""
        repeat {
          event = try await stream.event()
          received += 1
        } while !event.contains("\"\(count - 1)-0")
        #expect(received < count && event.hasPrefix("put "))
        try await eventually { operations.memory.used - start < 64 * 1024 }
        // It goes on with each event.
        try await server.connect { client in
          _ = try await client.request("PUT", "/open/a.json", [:], "1")
        }
        #expect(try await stream.event() == #"put {"path":"/","data":1}"#)
      }
    }
  }

  @Test func `a client that does not read its events is cut off`() async throws {
    var limits = Limits()
    limits.queuedBytesMax = 1024 * 1024
    let text = String(repeating: "0123456789", count: 10_000)
    try await withGateway(limits: limits) { server in
      try await HTTPClient.connect(server.port, receiveBytes: 4096) { stream in
        try await stream.begin("GET", "/open/a.json", Self.accept)
        try await server.connect { client in
          var count = 0
          while server.gate.count == 2, count < 400 {
            server.parts.clock.advance(Session.idleMillisecondsMax / 10)
            let response = try await client.request(
              "PUT", "/open/a.json?print=silent", [:], "\"\(text)\(count)\"")
            #expect(response.status == 204, "\(response)")
            count += 1
          }
          try await eventually { server.gate.count == 1 }
        }
      }
    }
  }

  @Test func `a shutdown ends streams and idle connections, and answers requests that have begun`()
    async throws
  {
    try await withGateway { server in
      try await server.connect { stream in
        try await stream.begin("GET", "/open/a.json", Self.accept)
        _ = try await stream.head()
        _ = try await stream.event()
        try await server.connect { client in
          let gate = server.parts.journal.holdNextAppend()
          try await client.begin("PUT", "/open/a.json", [:], "1")
          await gate.reached()
          await server.shutDown()
          // The stream ends as a body does, and the connection closes.
          #expect(try await stream.end() == Array("0\r\n\r\n".utf8))
          gate.open()
          #expect(try await client.response().status == 200)
          #expect(try await client.end() == [])
        }
      }
      await #expect(throws: (any Error).self) {
        try await server.connect { _ = try await $0.request("GET", "/health") }
      }
    }
  }
}
