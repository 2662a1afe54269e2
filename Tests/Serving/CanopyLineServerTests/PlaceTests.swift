import CanopyAccounts
import CanopySession
import CanopyTesting
import CanopyTree
import Testing

@testable import CanopyLineServer

/// Newcomers take the places of idle connections, as clients see it.
@Suite(.timeLimit(.minutes(20))) struct PlaceTests {
  private static let ended =
    "-OVERLOADED the server needs the place of this idle connection for another client, as your network has the most; "
    + "connect again if you need it"

  private func connect(_ port: Int, from address: String) async throws -> LineSocketClient {
    try await LineSocketClient(port: port, from: address)
  }

  @Test func `idle connections of a few addresses do not lock newcomers out`() async throws {
    var limits = Limits()
    limits.connectionsMax = 6
    try await withLineServer(limits: limits) { _, port in
      var clients: [LineSocketClient] = []
      for number in 0..<6 {
        let client = try await connect(port, from: "127.0.7.\(1 + number % 2)")
        try await client.expect("PING", "+\"PONG\"")
        clients.append(client)
      }
      // Three of each address. Four newcomers take their places down to one.
      for number in 1...4 {
        let newcomer = try await connect(port, from: "127.0.8.\(number)")
        try await newcomer.expect("PING", "+\"PONG\"")
      }
      let last = try await connect(port, from: "127.0.8.5")
      try await last.expectNext(
        to: "a connection", hasPrefix: "-OVERLOADED the server has as many")
      for client in clients.prefix(4) {
        try await client.expectNext(to: "a connection of a newcomer", Self.ended)
        try await client.expectClosed()
      }
      for client in clients.suffix(2) { try await client.expect("PING", "+\"PONG\"") }
      // The address with the most gets nothing.
      let greedy = try await connect(port, from: "127.0.7.1")
      try await greedy.expectNext(to: "a connection", failsWith: "OVERLOADED")
    }
  }

  @Test
  func `a silent connection ends first, then an idle one, then one with a subscription or a login`()
    async throws
  {
    var limits = Limits()
    limits.connectionsMax = 6
    try await withLineServer(limits: limits) { parts, port in
      func client() async throws -> LineSocketClient {
        try await connect(port, from: "127.0.7.1")
      }
      let administrator = try await client()
      try await administrator.value("AUTH \(parts.administratorToken.text)")
      let listener = try await client()
      try await listener.value("LISTEN /posts {\"events\":\"value\"}")
      #expect(try await listener.readLine().hasPrefix(">"))
      let idle = try await client()
      try await idle.expect("PING", "+\"PONG\"")
      let silent = try await client()
      let refused = try await client()
      try await refused.expect("SET /x 1", failsWith: "PERMISSION_DENIED")
      let busy = try await client()
      try await busy.value(TestServer.signUp("ada"))
      let gate = parts.journal.holdNextAppend()
      try await busy.send("POST title body\n")
      await gate.reached()

      var newcomers: [LineSocketClient] = []
      for (number, ending) in [silent, refused, idle, listener].enumerated() {
        let newcomer = try await connect(port, from: "127.0.8.\(1 + number)")
        try await newcomer.expect("PING", "+\"PONG\"")
        newcomers.append(newcomer)
        try await ending.expectNext(to: "a connection of a newcomer", Self.ended)
        try await ending.expectClosed()
      }
      // The two that are left are busy, and the administrator's.
      let last = try await connect(port, from: "127.0.8.9")
      try await last.expectNext(
        to: "a connection", hasPrefix: "-OVERLOADED the server has as many")
      gate.open()
      try await busy.expectNext(to: "POST title body", hasPrefix: "+{\"id\"")
      try await eventually {
        let newcomer = try await connect(port, from: "127.0.8.9")
        return (try? await newcomer.request("PING")) == "+\"PONG\""
      }
      try await busy.expectNext(to: "a connection of a newcomer", Self.ended)
      try await administrator.expect("PING", "+\"PONG\"")
    }
  }

  @Test func `idle connections that fill half of the memory make room for newcomers`() async throws
  {
    var limits = Limits()
    limits.memoryMax = 1024 * 1024
    try await withLineServer(limits: limits) { parts, port in
      let memory = parts.operations.memory
      var idle: [LineSocketClient] = []
      while !memory.isExhausted {
        let client = try await connect(port, from: "127.0.7.1")
        try await client.expect("PING", "+\"PONG\"")
        idle.append(client)
      }
      let greedy = try await connect(port, from: "127.0.7.1")
      try await greedy.expectNext(
        to: "a connection", "-OVERLOADED the server is short of memory; try again later")
      for number in 1...3 {
        let newcomer = try await connect(port, from: "127.0.8.\(number)")
        try await newcomer.expect("PING", "+\"PONG\"")
        try await idle[number - 1].expectNext(to: "a connection of a newcomer", Self.ended)
      }
    }
  }
}
