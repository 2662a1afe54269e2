import CanopySession
import CanopyTesting
import CanopyTree
import Testing

/// The order of the writes with ONCE of a client after a refusal for a reason that passes, as clients see it.
@Suite(.timeLimit(.minutes(20))) struct WriteOrderTests {
  private static let rules = #"{"rules":{".read":true,".write":true}}"#
  private static let once = "ONCE 0123456789abcdef"

  @Test(arguments: Depth.allCases)
  func `a write does not overtake one that was refused`(_ depth: Depth) async throws {
    try await withServer(depth) {
      $0.limits.writesPerSecond = 1
      $0.limits.writeBurstSeconds = 1
      $0.quotas = WriteQuotas($0.limits, exemptsThisMachine: false)
    } _: { server in
      try await server.set(rules: Self.rules)
      let ada = try await server.connect(as: "ada")
      try await ada.send((1...3).map { "\(Self.once) \($0) 0 SET /n \($0)\n" }.joined())
      let codes = try await ada.readLines(3).map { $0.prefix { $0 != " " && $0 != ":" } }
      #expect(codes[0].first == "+" && codes[1...] == ["-RATE_LIMITED", "-RATE_LIMITED"])
      server.parts.clock.advance(1_000)
      try await ada.expect("\(Self.once) 3 0 SET /n 3", contains: "earlier write")
      try await ada.value("\(Self.once) 2 0 SET /n 2")
      server.parts.clock.advance(1_000)
      try await ada.value("\(Self.once) 3 0 SET /n 3")
      try await ada.expect("GET /n", "+3")
    }
  }

  @Test(arguments: Depth.allCases)
  func `a write does not overtake one that has no place in the tree`(
    _ depth: Depth
  ) async throws {
    try await withServer(depth) {
      $0.limits.treeMax = 150_000
    } _: { server in
      try await server.set(rules: Self.rules)
      try await server.set("/fill", "\"\(String(repeating: "x", count: 110_000))\"")
      let ada = try await server.connect(as: "ada")
      TreeCount.finish()
      let writes = [
        "\(Self.once) 1 0 SET /t \"\(String(repeating: "y", count: 50_000))\"",
        "\(Self.once) 2 0 SET /t 2",
      ]
      // Both may be decided in one batch.
      for _ in 0..<5 {
        try await ada.send(writes.map { $0 + "\n" }.joined())
        for reply in try await ada.readLines(2) {
          expectReply(reply, to: "a write", hasPrefix: "-UNAVAILABLE")
        }
      }
      try await server.set("/fill", "null")
      TreeCount.finish()
      for write in writes { try await ada.value(write) }
      try await ada.expect("GET /t", "+2")
    }
  }

  @Test(arguments: Depth.allCases)
  func `a write does not overtake one that there was no memory to decode`(
    _ depth: Depth
  ) async throws {
    try await withServer(depth) {
      $0.limits.memoryMax = 600_000
    } _: { server in
      try await server.set(rules: Self.rules)
      let ada = try await server.connect(as: "ada")
      let long = "\(Self.once) 1 0 SET /t \"\(String(repeating: "y", count: 300_000))\"\n"
      try await ada.send(long + "\(Self.once) 2 0 SET /t 2\n\(Self.once) 3 0 SET /t 3\n")
      let replies = try await ada.readLines(3)
      expectReply(replies[0], to: "write 1", hasPrefix: "-OVERLOADED")
      for reply in replies.dropFirst() {
        #expect(reply.contains("an earlier write of this client"), "\(reply)")
      }
      try await ada.expect("GET /t", "+null")
      for number in 1...3 { try await ada.value("\(Self.once) \(number) 0 SET /t \(number)") }
      try await ada.expect("GET /t", "+3")
    }
  }
}
