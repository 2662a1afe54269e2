import CanopyEngine
import CanopyTesting
import CanopyTree
import CanopyWire
import Foundation
import Synchronization
import Testing

@testable import CanopyGateway
@testable import CanopySession

/// Requests that compute in the task of their connection.
@Suite(.timeLimit(.minutes(20))) struct ComputingTurnsTests {
  /// The turns that a request has taken.
  private struct Turns: Equatable {
    var short = 0
    var long = 0

    /// The turns that have begun since an earlier time.
    func since(_ earlier: Turns) -> Turns {
      Turns(short: short - earlier.short, long: long - earlier.long)
    }
  }

  private static func turns(_ operations: Operations) -> Turns {
    Turns(
      short: operations.shortWork.turns,
      long: operations.longWork.turns + operations.textWork.turns)
  }

  @Test func `the parsing, the metrics and the compression of a request each take a turn`()
    async throws
  {
    try await withGateway { server in
      try await server.connect { client in
        func check(
          _ target: String, _ turns: Turns, _ fields: [String: String] = [:], status: Int = 200
        ) async throws {
          let before = Self.turns(server.parts.operations)
          try await client.expect("GET", target, fields, status: status)
          #expect(Self.turns(server.parts.operations).since(before) == turns)
        }
        try await check("/health", Turns(short: 1))
        let deep = String(repeating: "/a", count: 7_000) + ".json"
        try await check(deep, Turns(short: 1), status: 400)
        try await check("/metrics", Turns(short: 2))
        try await check("/metrics", Turns(short: 3), ["Accept-Encoding": "gzip"])
        // The target, the options, the read and the body.
        try await check("/open.json?timeout=10s", Turns(short: 4))
      }
    }
  }

  @Test func `the size of a write is computed on another thread, a few locations in each turn`()
    async throws
  {
    try await withGateway { server in
      let operations = server.parts.operations
      for (count, turns) in [(0, 1), (1, 1), (16, 1), (17, 2), (33, 3)] {
        let places = try (0..<count).map { Location(try Path("open/p\($0)")) }
        let before = operations.longWork.turns
        let exceeds = try await operations.exceeds(
          1000, writing: [true], at: places, as: .anonymous, turns: nil)
        #expect(!exceeds)
        #expect(operations.longWork.turns - before == turns, "\(count)")
      }
    }
  }

  @Test func `a body about accounts is decoded in a turn, and a long one beside`() async throws {
    try await withGateway { server in
      try await server.connect { client in
        func check(_ path: String, _ body: String, _ turns: Turns) async throws {
          let before = Self.turns(server.parts.operations)
          try await client.expect("POST", path, [:], body, status: 400)
          #expect(Self.turns(server.parts.operations).since(before) == turns)
        }
        let lookup = "/identitytoolkit.googleapis.com/v1/accounts:lookup"
        let token = "/securetoken.googleapis.com/v1/token"
        let padding = String(repeating: "1,", count: 2_048)
        try await check(lookup, "{}", Turns(short: 2))
        try await check(lookup, "{\"a\":[\(padding)1]}", Turns(short: 1, long: 1))
        try await check(token, "{}", Turns(short: 2))
        try await check(token, "a=b", Turns(short: 2))
        try await check(token, "a=\(padding)", Turns(short: 1, long: 1))
      }
    }
  }

  @Test func `the signature of a token is verified in a turn, over each protocol`() async throws {
    try await withGateway { server in
      try await server.connect { client in
        let signUp = try await client.request(
          "POST", "/identitytoolkit.googleapis.com/v1/accounts:signUp", [:],
          #"{"returnSecureToken":true}"#)
        let valid = try #require(signUp.json?["idToken"]?.string)
        let operations = server.parts.operations
        let forged = String(valid.dropLast(4)) + "AAAA"
        var before = Self.turns(operations)
        let read = try await client.request(
          "GET", "/open.json", ["Authorization": "Bearer \(forged)"])
        #expect(read.status == 401, "\(read)")
        #expect(Self.turns(operations).since(before) == Turns(short: 2))
        before = Self.turns(operations)
        let lookup = try await client.request(
          "POST", "/identitytoolkit.googleapis.com/v1/accounts:lookup", [:],
          "{\"idToken\":\"\(forged)\"}")
        #expect(lookup.status == 400, "\(lookup)")
        #expect(Self.turns(operations).since(before) == Turns(short: 3))
        before = Self.turns(operations)
        _ = await operations.account(
          .authenticate(token: forged), as: .anonymous, from: "192.0.2.1")
        #expect(Self.turns(operations).since(before) == Turns(short: 1))
        before = Self.turns(operations)
        _ = await operations.account(
          .logInCustom(token: forged), as: .anonymous, from: "192.0.2.1")
        #expect(Self.turns(operations).since(before) == Turns(short: 1))
      }
    }
  }

  @Test func `the pieces of a long text each take a turn, compressed or with line breaks`()
    async throws
  {
    let text = (0..<60_000).map { "\($0) words " }.joined()
    let pieces = text.utf8.count / (64 * 1024)
    try await withGateway { server in
      try await server.connect { client in
        try await client.expect(
          "PUT", "/open/a.json?print=silent", [:], "{\"b\":\"\(text)\"}", status: 204)
        for (target, fields) in [
          ("/open/a/b.json", [:]), ("/open/a/b.json", ["Accept-Encoding": "gzip"]),
          ("/open/a.json?print=pretty", [:]),
          ("/open/a.json?print=pretty", ["Accept-Encoding": "gzip"]),
        ] {
          let before = Self.turns(server.parts.operations)
          let response = try await client.request("GET", target, fields)
          let turns = Self.turns(server.parts.operations).since(before)
          // The address, the options and the read take a turn each before the pieces do.
          #expect(turns.short >= 3 + pieces, "\(target) \(fields) \(turns)")
          let bytes = fields.isEmpty ? response.body : try decompressed(response.body)
          let body = String(decoding: bytes, as: UTF8.self)
          let isWhole =
            target.contains("pretty")
            ? body == "{\n  \"b\" : \"\(text)\"\n}" : body == "\"\(text)\""
          #expect(isWhole, "\(target) \(fields)")
        }
      }
    }
  }

  @Test func `line breaks and indentation make a piece of a response no longer`() async throws {
    // Each number gets a line of its own with an indentation of 60 bytes.
    let numbers = (10_000..<22_000).map { "\"\($0)x\":1" }.joined(separator: ",")
    let depth = 28
    let value =
      String(repeating: "{\"a\":", count: depth) + "{\(numbers)}"
      + String(repeating: "}", count: depth)
    try await withGateway { server in
      try await server.connect { client in
        try await client.expect(
          "PUT", "/open/a.json?print=silent", [:], value, status: 204)
        let before = Self.turns(server.parts.operations)
        let response = try await client.request("GET", "/open/a.json?print=pretty")
        let turns = Self.turns(server.parts.operations).since(before)
        #expect(response.json == (try? JSONValue(json: value)))
        #expect(turns.short >= 3 + response.body.count / (80 * 1024), "\(turns)")
      }
    }
  }

  @Test func `a long body is decoded in as many turns as its values need`() async throws {
    let time = Mutex(Duration.zero)
    var engine = Engine.Configuration.forTests
    // Each look at the clock takes a millisecond.
    engine.elapsed = {
      time.withLock { time in
        time += .milliseconds(1)
        return time
      }
    }
    try await withGateway(engine: engine) { server in
      try await server.connect { client in
        let count = Operations.hugeTextBytes / 2
        let list = "[" + String(repeating: "1,", count: count) + "1]"
        for (method, body) in [("PUT", list), ("POST", list), ("PATCH", "{\"a\":\(list)}")] {
          let before = Self.turns(server.parts.operations)
          // The rules deny the write, so it is not made.
          try await client.expect(method, "/closed.json", [:], body, status: 401)
          let turns = Self.turns(server.parts.operations).since(before)
          // A turn has ten looks at the clock, each after 64 values.
          #expect(turns.long >= count / 1_000, "\(method) \(turns)")
        }
      }
    }
  }
}
