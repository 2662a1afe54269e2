import CanopySession
import CanopyTesting
import CanopyTree
import Testing

@testable import CanopyRealtime

/// The bounds on writes, as clients of the realtime protocol see them.
@Suite(.timeLimit(.minutes(20))) struct QuotaTests {
  @Test(arguments: Depth.allCases)
  func `a user with too many writes gets the status unavailable and the time to wait`(
    _ depth: Depth
  ) async throws {
    var limits = Limits()
    limits.writesPerSecond = 1
    limits.writeBurstSeconds = 4
    try await withRealtime(
      depth, limits: limits, quotas: WriteQuotas(limits, exemptsThisMachine: false)
    ) { server in
      let (token, _) = try await server.signUp("ada")
      let client = try await server.connect()
      try await client.send(1, "auth", #"{"cred":"\#(token)"}"#)
      _ = try await client.next()
      try await client.request(2, "p", #"{"p":"/a","d":1}"#)
      try await client.request(3, "m", #"{"p":"/","d":{"a":2}}"#)
      try await client.send(4, "p", #"{"p":"/a","d":3,"h":"wrong"}"#)
      // The present value comes first.
      _ = try await client.next()
      try await client.expect(answer: 4, status: "datastale")
      try await client.request(5, "o", #"{"p":"/d","d":1}"#)
      for (number, action) in [(6, "p"), (7, "o"), (8, "m")] {
        let data = action == "m" ? #"{"a":1}"# : "1"
        try await client.send(number, action, #"{"p":"/a","d":\#(data)}"#)
        let answer = try JSONValue(json: try await client.next())["d"]?["b"]
        #expect(answer?["s"]?.string == "unavailable")
        #expect(answer?["d"]?.string?.hasPrefix("[1000 ms] you write more") == true)
      }
      server.parts.clock.advance(1_000)
      try await client.request(9, "p", #"{"p":"/a","d":4}"#)
    }
  }
}
