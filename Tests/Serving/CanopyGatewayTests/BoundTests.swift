import CanopyAccounts
import CanopyEngine
import CanopyEvents
import CanopySession
import CanopyTesting
import CanopyTree
import CanopyWire
import HTTPTypes
import NIOCore
import NIOEmbedded
import NIOHTTPTypes
import Testing

@testable import CanopyGateway

/// Bounds on the bytes and the time that a client may take.
@Suite(.timeLimit(.minutes(20))) struct BoundTests {
  private static func limits(_ writeBytesMax: Int) -> Limits {
    var limits = Limits()
    limits.writeBytesMax = writeBytesMax
    return limits
  }

  @Test func `a client that leaves before its first request holds no connection`() async throws {
    try await withGateway { configuration in
      configuration.patience.idleSeconds = 10_000
    } _: { server in
      try await server.connect { _ in
        try await eventually { server.gate.count == 1 }
      }
      try await eventually { server.gate.count == 0 }
    }
  }

  @Test func `a body at the bound is taken, and a longer one is refused and ends the connection`()
    async throws
  {
    try await withGateway(limits: Self.limits(1_000)) { server in
      let longest = "\"" + String(repeating: "a", count: 998) + "\""
      try await server.connect { client in
        try await client.expect("PUT", "/open/a.json", [:], longest, status: 200)
        let response = try await client.request("PUT", "/open/a.json", [:], longest + " ")
        #expect(response.status == 413 && response.fields["connection"] == "close", "\(response)")
        #expect(try await client.end() == [])
      }
      // The same without a length.
      try await server.connect { client in
        try await client.send(
          "PUT /open/a.json HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        for _ in 0..<11 {
          try await client.send("64\r\n" + String(repeating: " ", count: 100) + "\r\n")
        }
        #expect(try await client.response().status == 413)
        #expect(try await client.end() == [])
      }
    }
  }

  @Test(arguments: ["PUT", "POST", "PATCH"])
  func `a body whose data does not fit in memory is refused before it is decoded`(
    method: String
  ) async throws {
    var limits = Limits()
    limits.memoryMax = 1024 * 1024
    try await withGateway(limits: limits) { server in
      try await server.connect { client in
        // The decoded text would take many times its bytes. It ends too early to be JSON, so decoding it would give
        // another error.
        let body = "{\"a\":[" + String(repeating: "[1],", count: 20_000)
        let refused = try await client.request(method, "/open/a.json", [:], body)
        #expect(refused.status == 503 && refused.text.contains("short of memory"), "\(refused)")
        // The connection goes on, and a smaller body is decoded.
        let smaller = try await client.request(
          method, "/open/a.json", [:], String(body.prefix(8_000)))
        #expect(smaller.status == 400, "\(smaller)")
        try await client.expect(method, "/open/a.json", [:], "{\"a\":1}", status: 200)
        try await eventually { server.parts.operations.memory.used < 64 * 1024 }
      }
    }
  }

  @Test(arguments: ["9223372036854775807", "9223372036854775808", "18446744073709551615"])
  func `a length at the bounds of integers is refused at once`(length: String) async throws {
    try await withGateway { server in
      try await server.connect { client in
        try await client.send(
          "PUT /open/a.json HTTP/1.1\r\nHost: x\r\nContent-Length: \(length)\r\n\r\n1")
        #expect(try await client.response().status == 413)
        #expect(try await client.end() == [])
      }
    }
  }

  @Test(arguments: ["", "?print=silent"])
  func `a write that is answered is no longer charged`(options: String) async throws {
    try await withGateway { server in
      try await server.connect { client in
        let body = "[" + Array(repeating: "1", count: 100_000).joined(separator: ",") + "]"
        let put = try await client.request("PUT", "/open/a.json\(options)", [:], body)
        #expect(put.status == (options.isEmpty ? 200 : 204), "\(put)")
        // The bytes of the connection itself remain.
        try await eventually { server.parts.operations.memory.used < 64 * 1024 }
      }
    }
  }

  @Test
  func `a client that asks before it sends a body receives 100, or 413 if the body is too long`()
    async throws
  {
    try await withGateway(limits: Self.limits(1_000)) { server in
      try await server.connect { client in
        let head =
          "PUT /open/a.json HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: "
        try await client.send(head + "1\r\n\r\n")
        #expect(try await client.head().status == 100)
        try await client.send("7")
        #expect(try await client.response().text == "7")
        try await client.send(head + "1001\r\n\r\n")
        #expect(try await client.response().status == 413)
      }
    }
  }

  @Test func `requests may be pipelined, and are answered in their order`() async throws {
    try await withGateway { server in
      try await server.connect { client in
        for number in 0..<50 {
          try await client.begin("PUT", "/open/a.json", [:], "\(number)")
          try await client.begin("GET", "/open/a.json")
        }
        for number in 0..<50 {
          #expect(try await client.response().text == "\(number)")
          #expect(try await client.response().text == "\(number)")
        }
      }
    }
  }

  @Test func `requests that wait when their connection closes are not carried out`() async throws {
    try await withGateway { server in
      let gate = server.parts.journal.holdNextAppend()
      try await server.connect { client in
        for name in ["a", "b", "c"] {
          try await client.begin("PUT", "/open/\(name).json", [:], "1")
        }
        await gate.reached()
        server.gate.closeAll()
        _ = try? await client.end()
      }
      try await eventually { server.gate.count == 0 }
      gate.open()
      // The work for the connection ends with its charge.
      try await eventually { server.parts.operations.memory.used == 0 }
      let written = server.parts.engine.root.at(Path.root.child("open"))
      var output = JSONOutput()
      output.append(written)
      #expect(output.text == #"{"a":1}"#)
    }
  }

  @Test func `rules and accounts that wait when their connection closes stay as they are`()
    async throws
  {
    try await withGateway { server in
      let gate = server.parts.journal.holdNextAppend()
      try await server.connect { client in
        try await client.begin("PUT", "/open/a.json", [:], "1")
        try await client.begin(
          "PUT", "/.settings/rules.json", server.administrator, #"{"rules":{".read":true}}"#)
        try await client.begin(
          "POST", "/identitytoolkit.googleapis.com/v1/accounts:signUp?key=k", [:],
          #"{"email":"eve@example.org","password":"engine of 1843","returnSecureToken":true}"#)
        await gate.reached()
        server.gate.closeAll()
        _ = try? await client.end()
      }
      try await eventually { server.gate.count == 0 }
      gate.open()
      try await eventually { server.parts.operations.memory.used == 0 }
      try await server.connect { client in
        try await client.expect("GET", "/closed.json", status: 401)
        let login = try await client.request(
          "POST", "/identitytoolkit.googleapis.com/v1/accounts:signInWithPassword?key=k", [:],
          #"{"email":"eve@example.org","password":"engine of 1843"}"#)
        #expect(login.status == 400, "\(login)")
      }
    }
  }

  @Test func `requests that wait when the client sends no more are answered`() async throws {
    try await withGateway { server in
      let gate = server.parts.journal.holdNextAppend()
      try await server.connect { client in
        for name in ["a", "b", "c"] {
          try await client.begin("PUT", "/open/\(name).json", [:], "1")
        }
        await gate.reached()
        client.finish()
        gate.open()
        for _ in 0..<3 { #expect(try await client.response().text == "1") }
        #expect(try await client.end() == [])
      }
    }
  }

  @Test(arguments: [
    "GARBAGE\r\n\r\n", "GET /open.json HTTP/1.1\r\nbad header\r\n\r\n",
    "GET /open.json HTTP/9.9\r\n\r\n",
    "POST /open.json HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
    "PUT /open.json HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
    "PUT /open.json HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n1\r\n7\r\n0\r\n\r\n",
    "\0\u{1}\u{2}",
  ])
  func `bytes that are not a request end their connection and no other`(text: String) async throws {
    try await withGateway { server in
      try await server.connect { other in
        try await other.expect("GET", "/open.json", status: 200)
        try await server.connect { client in
          try await client.send(text)
          let end = String(decoding: try await client.end(), as: UTF8.self)
          #expect(end.isEmpty || end.hasPrefix("HTTP/1.1 400 "), "\(end)")
        }
        try await other.expect("GET", "/open.json", status: 200)
      }
    }
  }

  @Test func `a request of the method CONNECT is answered, and ends its connection`() async throws {
    try await withGateway { server in
      for target in ["localhost:1", "/open.json"] {
        try await server.connect { client in
          try await client.send(
            "GET /open.json HTTP/1.1\r\nHost: x\r\n\r\n"
              + "CONNECT \(target) HTTP/1.1\r\nHost: x\r\n\r\nGET /open.json HTTP/1.1\r\nHost: x\r\n\r\n"
          )
          #expect(try await client.response().status == 200)
          let response = try await client.response()
          #expect(response.status == 405 && response.fields["connection"] == "close", "\(response)")
          #expect(response.fields["allow"] == "GET, PUT, POST, PATCH, DELETE", "\(response)")
          #expect(try await client.end() == [])
        }
      }
      // A method that HTTP does not know.
      try await server.connect { client in
        try await client.send("BREW /open.json HTTP/1.1\r\nHost: x\r\n\r\n")
        #expect(try await client.response().status == 400)
        #expect(try await client.end() == [])
      }
    }
  }

  @Test func `a hundred connections of random bytes end no server`() async throws {
    try await withGateway { server in
      var random = SeededGenerator(seed: 7)
      let pieces = [
        "GET ", "PUT ", "/open", "/", ".json", "?orderBy=", "%22n%22", "%", "&", "=", " HTTP/1.1",
        "\r\n", "\r\n\r\n", "Content-Length: 3", "Host: x", "{", "\"a\":", "1", "}", "\u{0}", "é",
        "Accept: text/event-stream", "Transfer-Encoding: chunked", "5", "Expect: 100-continue",
      ]
      for _ in 0..<100 {
        try await server.connect { client in
          var text = ""
          for _ in 0..<Int.random(in: 1..<60, using: &random) {
            text += pieces.randomElement(using: &random) ?? ""
          }
          try? await client.send(text)
        }
      }
      try await server.connect { client in
        let response = try await client.request("GET", "/health")
        #expect(response.status == 200, "\(response)")
      }
    }
  }

  @Test func `connections beyond the bound are refused with 503`() async throws {
    var limits = Limits()
    limits.connectionsMax = 2
    try await withGateway(limits: limits) { server in
      try await server.connect { first in
        try await first.expect("GET", "/health", status: 200)
        try await server.connect { second in
          try await second.expect("GET", "/health", status: 200)
          try await server.connect { third in
            let end = String(decoding: try await third.end(), as: UTF8.self)
            #expect(end.hasPrefix("HTTP/1.1 503 "))
          }
          try await first.expect("GET", "/health", status: 200)
        }
      }
    }
  }

  @Test func `bodies that clients do not complete are charged to the memory of the server`()
    async throws
  {
    var limits = Limits()
    // A buffer grows by doubling, so each body takes a MiB, and one of them has room.
    limits.memoryMax = 2 * 1024 * 1024
    try await withGateway(limits: limits) { server in
      try await server.connect { first in
        let head = "PUT /open/a.json HTTP/1.1\r\nHost: x\r\nContent-Length: 900000\r\n\r\n"
        try await first.send(head + String(repeating: " ", count: 700_000))
        try await eventually { server.parts.operations.memory.used > 1024 * 1024 }
        try await server.connect { second in
          try? await second.send(head + String(repeating: " ", count: 600_000))
          // One of them is cut off. The server goes on.
          try await eventually { server.gate.count == 1 }
          try await eventually { server.parts.operations.memory.used <= 2 * 1024 * 1024 }
        }
      }
      try await eventually { server.parts.operations.memory.used == 0 }
      try await server.connect { client in
        let response = try await client.request("PUT", "/open/a.json", [:], "1")
        #expect(response.status == 200, "\(response)")
      }
    }
  }

  @Test func `a response that a client does not read is charged while it is sent`() async throws {
    let text = String(repeating: "0123456789", count: 100_000)
    let members = (0..<8).map { #""k\#($0)":"\#(text)""# }.joined(separator: ",")
    try await withGateway { server in
      try await server.connect { client in
        let put = try await client.request(
          "PUT", "/open/large.json?print=silent", [:], "{\(members)}")
        #expect(put.status == 204, "\(put)")
      }
      try await eventually { server.parts.operations.memory.used == 0 }
      try await HTTPClient.connect(server.port, receiveBytes: 4096) { client in
        try await client.begin("GET", "/open/large.json")
        _ = try await client.head()
        try await eventually { server.parts.operations.memory.used > 1_000_000 }
      }
      try await eventually { server.parts.operations.memory.used == 0 }
    }
  }

  @Test func `a body that comes too slowly ends its connection`() throws {
    var patience = ConnectionGuard.Patience()
    patience.bodySeconds = 30
    let channel = EmbeddedChannel(handler: ConnectionGuard(patience) { _ in })
    try channel.connect(to: SocketAddress(ipAddress: "127.0.0.1", port: 1)).wait()
    let head = HTTPRequest(method: .put, scheme: "http", authority: "x", path: "/a.json")
    try channel.writeInbound(HTTPRequestPart.head(head))
    channel.embeddedEventLoop.advanceTime(by: .seconds(29))
    // 16 KiB buy a second each.
    try channel.writeInbound(HTTPRequestPart.body(ByteBuffer(repeating: 0, count: 32 * 1024)))
    channel.embeddedEventLoop.advanceTime(by: .seconds(2))
    #expect(channel.isActive)
    channel.embeddedEventLoop.advanceTime(by: .seconds(1))
    #expect(!channel.isActive)
  }

  @Test func `a whole body may take as long as its answer takes`() throws {
    let channel = EmbeddedChannel(handler: ConnectionGuard(.init()) { _ in })
    try channel.connect(to: SocketAddress(ipAddress: "127.0.0.1", port: 1)).wait()
    let head = HTTPRequest(method: .get, scheme: "http", authority: "x", path: "/a.json")
    try channel.writeInbound(HTTPRequestPart.head(head))
    try channel.writeInbound(HTTPRequestPart.end(nil))
    channel.embeddedEventLoop.advanceTime(by: .hours(1))
    #expect(channel.isActive)
  }

  @Test func `a client that reads nothing for too long is cut off`() throws {
    var patience = ConnectionGuard.Patience()
    patience.unreadSeconds = 60
    let channel = EmbeddedChannel(handler: ConnectionGuard(patience) { _ in })
    try channel.connect(to: SocketAddress(ipAddress: "127.0.0.1", port: 1)).wait()
    channel.isWritable = false
    channel.pipeline.fireChannelWritabilityChanged()
    channel.embeddedEventLoop.advanceTime(by: .seconds(59))
    channel.isWritable = true
    channel.pipeline.fireChannelWritabilityChanged()
    channel.embeddedEventLoop.advanceTime(by: .seconds(61))
    #expect(channel.isActive)
    channel.isWritable = false
    channel.pipeline.fireChannelWritabilityChanged()
    channel.embeddedEventLoop.advanceTime(by: .seconds(60))
    #expect(!channel.isActive)
  }
}
