import CanopyTesting
import CanopyTree
import Dispatch
import Testing

@testable import CanopyLineServer
@testable import CanopySession

/// Clients that make the server hold memory. Each test observes the budget and an honest client.
@Suite(.timeLimit(.minutes(20))) struct MemoryFloodTests {
  private static let bound = 8 * 1024 * 1024
  /// One reply, and one request, may exceed the bounds.
  private static let slack = 3 * 1024 * 1024
  private static let large = String(repeating: "x", count: 1_000_000)

  /// Runs a flood beside an honest client, which must get its replies all the time.
  private func flood(
    _ depth: Depth, _ body: @escaping (TestServer) async throws -> Void
  ) async throws {
    try await withServer(depth) {
      $0.limits.memoryMax = Self.bound
      $0.receiveBytes = 16_384
    } _: { server in
      let honest = try await server.connect(as: "ada")
      let id = try await honest.text("id", "POST title body")
      let administrator = try await server.connectAsAdministrator()
      for index in 0..<4 { try await administrator.value("SET /posts/x\(index) \"\(Self.large)\"") }
      // The bytes of a request are released a moment after its reply.
      try await server.eventually { server.parts.operations.memory.used < 100_000 }
      try await body(server)
      for _ in 1...20 {
        try await honest.expectSuccess(of: "STAR \(id)")
        #expect(server.parts.operations.memory.used <= Self.bound + Self.slack)
      }
    }
  }

  @Test(arguments: Depth.allCases)
  func `a client that repeats a CAS of a large value and reads nothing holds bounded memory`(
    _ depth: Depth
  ) async throws {
    try await flood(depth) { server in
      let client = try await server.connect()
      try await client.pauseReading()
      let text = String(repeating: "CAS /posts x 1\n", count: 1_024)
      let sent = Task { try? await client.send(text) }
      let memory = server.parts.operations.memory
      try await server.eventually { memory.used > 1_000_000 }
      await client.disconnect()
      await sent.value
      try await server.eventually { memory.used < 100_000 }
    }
  }

  @Test(arguments: Depth.allCases)
  func `a line whose data does not fit in memory is refused before it is decoded`(
    _ depth: Depth
  ) async throws {
    try await withServer(depth) {
      $0.limits.memoryMax = 1024 * 1024
    } _: { server in
      let client = try await server.connectAsAdministrator()
      // The decoded text would take many times its bytes. It ends too early to be JSON, so decoding it would give
      // another error.
      let lists = String(repeating: "[[[1]]],", count: 10_000)
      for line in ["SET /a [\(lists)", "UPDATE / {\"a\":[\(lists)", "PUSH /a [\(lists)"] {
        try await client.expect(line, failsWith: "OVERLOADED")
        // The connection goes on, and a smaller line is decoded.
        try await client.expect(String(line.prefix(8_000)), failsWith: "INVALID_DATA")
      }
      try await client.expect("PING", "+\"PONG\"")
      #expect(server.parts.operations.memory.used < 64 * 1024)
    }
  }

  @Test(arguments: Depth.allCases)
  func `a line that waits to be decoded is dropped when its connection ends`(
    _ depth: Depth
  ) async throws {
    try await withServer(depth) {
      $0.limits.memoryMax = 3 * 1024 * 1024
    } _: { server in
      let operations = server.parts.operations
      // Another text has its turn.
      let (begins, begin) = AsyncStream.makeStream(of: Void.self)
      let gate = DispatchSemaphore(value: 0)
      let work = Task {
        try await operations.decodeBeside(bytes: 0, nil) { _ in
          begin.yield()
          gate.wait()
        }
      }
      _ = await begins.first { true }
      func line(_ count: Int) -> String { "SET /a [\(String(repeating: "1,", count: count))1]\n" }
      let large = try await server.connectAsAdministrator()
      try await large.send(line(20_000))
      try await server.eventually { operations.memory.used > 20_000 * 96 }
      let small = try await server.connectAsAdministrator()
      try await small.send(line(15_000))
      try await large.expectNext(to: line(20_000), failsWith: "OVERLOADED")
      try await server.eventually { operations.memory.used < 20_000 * 96 }
      #expect(operations.memory.used > 15_000 * 96)
      gate.signal()
      try await work.value
      try await small.expectNext(to: line(15_000), hasPrefix: "+{\"seq\":")
    }
  }

  @Test func `idle connections are charged, and new ones wait when these fill half of the bound`()
    async throws
  {
    let bound = 1024 * 1024
    try await withServer(.inProcess) {
      $0.limits.memoryMax = bound
    } _: { server in
      let memory = server.parts.operations.memory
      let count = bound / 2 / LineHandler.connectionBytes
      var clients: [any LineClient] = []
      for number in 1...count {
        clients.append(try await server.connect())
        #expect(memory.used == number * LineHandler.connectionBytes)
        #expect(memory.isExhausted == (number == count))
      }
      // Requests change nothing, and no idle connection ends.
      for client in clients { try await client.expect("PING", "+\"PONG\"") }
      #expect(memory.used == count * LineHandler.connectionBytes)
      await clients.removeLast().disconnect()
      #expect(!memory.isExhausted)
      for client in clients { await client.disconnect() }
      #expect(memory.used == 0)
    }
  }

  @Test func `writes of connections that are gone stay charged until they are made`() async throws {
    // Without a socket, the server has noticed the end of a connection when `disconnect` returns.
    try await withServer(.inProcess) { server in
      let memory = server.parts.operations.memory
      var clients: [any LineClient] = []
      for name in ["b", "c"] {
        let client = try await server.connectAsAdministrator()
        try await client.value("ONDISCONNECT SET /d/\(name) \"\(Self.large)\"")
        clients.append(client)
      }
      server.parts.journal.gate.hold()
      for client in clients {
        let before = memory.used
        // Short enough to be decoded at once, and not on another thread: a line that is still being decoded when the
        // connection ends is dropped.
        try await client.send("SET /e \"\(Self.large.prefix(4_000))\"\n")
        try await server.eventually { memory.used > before + 4_500 }
      }
      for client in clients { await client.disconnect() }
      #expect(memory.used >= 2_009_000, "two writes, and two that are made at the end")
      server.parts.journal.gate.open()
      try await server.eventually { memory.used < 100_000 }
    }
  }

  @Test
  func
    `clients that ask for large values and read nothing are cut off when they hold too much together`()
    async throws
  {
    // Over a socket only: the replacement for the kernel does not report the bytes that it holds.
    let bound = 40 * 1024 * 1024
    try await withServer(.socket) {
      $0.limits.memoryMax = bound
      $0.receiveBytes = 16_384
    } _: { server in
      let administrator = try await server.connectAsAdministrator()
      for index in 0..<14 {
        try await administrator.value("SET /posts/x\(index) \"\(Self.large)\"")
      }
      let memory = server.parts.operations.memory
      var clients: [any LineClient] = []
      for _ in 0..<12 {
        let client = try await server.connect()
        try await client.pauseReading()
        try await client.send("GET /posts\n")
        clients.append(client)
        try await administrator.expect("PING", "+\"PONG\"")
        // The current client, and one that is about to be cut off.
        #expect(memory.used <= bound + 2 * 15_000_000)
      }
      try await server.eventually { memory.used <= bound }
      // The other clients get all their replies.
      var served = 0
      for client in clients {
        try await client.resumeReading()
        let line = try? await client.readLine()
        served += line?.utf8.count ?? 0 > 14_000_000 ? 1 : 0
        await client.disconnect()
      }
      #expect(served > 0 && served < 12, "\(served) of 12 were served")
      try await server.eventually { memory.used < 100_000 }
    }
  }

  @Test(arguments: Depth.allCases)
  func `unfinished lines are charged, and the connections that hold the most of them end`(
    _ depth: Depth
  ) async throws {
    try await flood(depth) { server in
      let memory = server.parts.operations.memory
      let half = "SET /a \"" + String(repeating: "x", count: 900_000)
      var clients: [any LineClient] = []
      for _ in 0..<14 {
        let client = try await server.connect()
        clients.append(client)
        _ = try? await client.send(half)
        #expect(memory.used <= Self.bound + Self.slack)
      }
      try await server.eventually { memory.used <= Self.bound }
      for client in clients { await client.disconnect() }
      try await server.eventually { memory.used < 100_000 }
    }
  }

  @Test(arguments: Depth.allCases)
  func `subscriptions are charged until they end, and the connections with the most of them end`(
    _ depth: Depth
  ) async throws {
    try await flood(depth) { server in
      let memory = server.parts.operations.memory
      let string = String(repeating: "s", count: Limits.boundBytesMax)
      let client = try await server.connect()
      try await client.expect("PING", "+\"PONG\"")
      let before = memory.used
      for index in 0..<300 {
        try await client.value(
          "LISTEN /posts/p\(index) {\"startAt\":\"\(string)\",\"limitToFirst\":1}")
      }
      #expect(memory.used - before > 300 * 4_608)
      for number in 1...300 { try await client.value("UNLISTEN \(number)") }
      #expect(memory.used - before < 3 * MemoryBudget.reportBytes)
      let longer = "LISTEN /posts/p {\"startAt\":\"\(string)s\"}"
      try await client.expect(longer, failsWith: "INVALID_QUERY")
      // Subscribes to long paths until connections are cut off.
      let key = String(repeating: "k", count: Limits.keyBytesMax)
      let path = Array(repeating: key, count: 30).joined(separator: "/")
      var clients: [any LineClient] = []
      for _ in 0..<4 {
        let client = try await server.connect()
        clients.append(client)
        for index in 0..<120 {
          guard (try? await client.request("LISTEN /posts/p\(index)/\(path)")) != nil else { break }
        }
        #expect(memory.used <= Self.bound + Self.slack)
      }
      try await server.eventually { memory.used <= Self.bound }
      for client in clients { await client.disconnect() }
      await client.disconnect()
      try await server.eventually { memory.used < before + 100_000 }
    }
  }

  @Test(arguments: Depth.allCases)
  func `requests that wait for a slow disk are charged until they are answered`(
    _ depth: Depth
  ) async throws {
    try await withServer(depth) {
      $0.limits.memoryMax = 4 * Self.bound
      $0.limits.requestBytesMax = 2_000_000
    } _: { server in
      let memory = server.parts.operations.memory
      let client = try await server.connectAsAdministrator()
      server.parts.journal.gate.hold()
      let write = "SET /a \"\(Self.large.prefix(500_000))\"\n"
      let writes = String(repeating: write, count: 12)
      let sent = Task { try await client.send(writes) }
      try await server.eventually { memory.used >= 2_000_000 }
      // At most the bound, one more request, and the input that arrived with it.
      for _ in 0..<20 { #expect(memory.used <= 3_700_000) }
      server.parts.journal.gate.open()
      for _ in 0..<12 { try await client.expectNext(to: write, hasPrefix: "+{\"seq\":") }
      try await sent.value
      // The connection itself stays charged.
      let least = LineHandler.connectionBytes
      try await server.eventually {
        (least..<least + MemoryBudget.reportBytes).contains(memory.used)
      }
    }
  }
}
