import CanopyEngine
import CanopyTesting
import CanopyTree
import CanopyWire
import Testing

@testable import CanopyRealtime
@testable import CanopySession

/// Copies of the data that clients keep.
@Suite(.timeLimit(.minutes(20))) struct ConsistencyTests {
  @Test(arguments: Depth.allCases)
  func `a listener that takes long to begin sends nothing that is older than the events of others`(
    _ depth: Depth
  ) async throws {
    try await withRealtime(depth) { server in
      let big = String(repeating: "x", count: 200_000)
      try await server.write("a", #"{"b":1,"big":"\#(big)"}"#)
      for isKnown in [false, true] {
        let hash = isKnown ? server.parts.engine.root.at(try Path("a")).hash : "x"
        let client = try await server.connect()
        try await client.send(1, "q", #"{"p":"/a/b","h":"x"}"#)
        _ = try await client.next()
        try await client.expect(answer: 1, "ok", "{}")
        // Measuring waits for its turn.
        let gate = Gate()
        let operations = server.parts.operations
        async let held: Void = operations.longWork.withTurn(of: nil) { await gate.pass() }
        await gate.reached()
        try await client.send(2, "q", #"{"p":"/a","h":"\#(hash)"}"#)
        try await eventually { operations.longWork.waiting > 0 }
        let value = Int.random(in: 10...1_000_000)
        try await server.write("a/b", "\(value)")
        try await client.expect(push: "a/b", "\(value)")
        gate.open()
        try await held
        let push = try JSONValue(json: try await client.next())["d"]?["b"]
        #expect(push?["p"]?.string == "a")
        #expect(push?["d"]?["b"]?.integer == Int64(value))
        #expect(push?["d"]?["big"]?.string == big)
        try await client.expect(answer: 2, "ok", "{}")
        await client.disconnect()
      }
    }
  }
}
