import CanopyEngine
import CanopySession
import CanopyTesting
import CanopyTree
import Testing

@testable import CanopyGateway

/// The bounds on writes, as clients of HTTP see them.
@Suite(.timeLimit(.minutes(20))) struct QuotaTests {
  @Test func `a user with too many writes gets 429 and the seconds to wait`() async throws {
    var limits = Limits()
    limits.writesPerSecond = 1
    limits.writeBurstSeconds = 4
    try await withGateway(
      limits: limits, quotas: WriteQuotas(limits, exemptsThisMachine: false)
    ) { server in
      let (token, uid) = try await server.signUp("ada")
      try await server.connect { client in
        let path = "/users/\(uid)/x.json?auth=\(token)"
        try await client.expect("PUT", path, [:], "1", status: 200)
        try await client.expect("POST", path, [:], "2", status: 200)
        try await client.expect("PATCH", path, [:], #"{"a":1}"#, status: 200)
        // A condition takes another way.
        let present = try await client.request("GET", path, ["X-Firebase-ETag": "true"])
        let etag = try #require(present.fields["etag"])
        try await client.expect("PATCH", path, ["if-match": etag], #"{"b":1}"#, status: 200)
        let requests: [(method: String, body: String?)] = [
          ("PUT", "1"), ("POST", "1"), ("PATCH", "{}"), ("DELETE", nil),
        ]
        for (method, body) in requests {
          let refused = try await client.request(method, path, [:], body)
          #expect(refused.status == 429, "\(method)")
          #expect(refused.fields["retry-after"] == "1", "\(refused)")
          #expect(
            refused.json?["error"]?.string?.contains("more than this server takes") == true,
            "\(refused)")
        }
        try await client.expect("GET", path, status: 200)
        server.parts.clock.advance(1_000)
        try await client.expect("PUT", path, [:], "1", status: 200)
      }
    }
  }

  @Test func `a page of a foreign site on this machine has the quotas of an address`() async throws
  {
    var limits = Limits()
    limits.writesPerSecondPerAddress = 1
    limits.writeBurstSeconds = 2
    try await withGateway(limits: limits, quotas: WriteQuotas(limits)) { server in
      let foreign = ["Origin": "https://evil.example"]
      try await server.connect { client in
        for _ in 0..<2 {
          try await client.expect("PUT", "/open/a.json", foreign, "1", status: 200)
        }
        try await client.expect("PUT", "/open/a.json", foreign, "1", status: 429)
      }
      // All connections of foreign pages share the quota, also those that become a WebSocket.
      try await server.connect { client in
        #expect(try await client.upgrade("/.ws?v=5", foreign) == 101)
        _ = try await client.message()
        try await client.send(
          message: #"{"t":"d","d":{"r":1,"a":"p","b":{"p":"/open/a","d":2}}}"#)
        let answer = try await client.message()
        #expect(answer.contains("than this server takes from an address"), "\(answer)")
      }
      // Programs and pages of this machine are exempt.
      for fields in [[:], ["Origin": "http://localhost:5173"]] {
        try await server.connect { client in
          for number in 0..<5 {
            try await client.expect("PUT", "/open/b.json", fields, "\(number)", status: 200)
          }
        }
      }
    }
  }

  @Test func `without space writes get 503 and the seconds to wait, and reads go on`() async throws
  {
    let space = FreeSpace(bytesMin: 800)
    try await withGateway(freeSpace: space) { server in
      try await server.connect { client in
        try await client.expect("PUT", "/open/a.json", [:], "1", status: 200)
        space.note(0)
        let refused = try await client.request("PUT", "/open/a.json", [:], "2")
        #expect(refused.status == 503 && refused.fields["retry-after"] == "5", "\(refused)")
        #expect(refused.json?["error"]?.string?.contains("almost full") == true, "\(refused)")
        try await client.expect("GET", "/open/a.json", text: "1")
        let removed = try await client.request("DELETE", "/open/a.json", server.administrator)
        #expect(removed.status == 200, "\(removed)")
        space.note(1_000)
        try await client.expect("PUT", "/open/a.json", [:], "2", status: 200)
      }
    }
  }

  @Test func `a user with too many stored bytes gets 507`() async throws {
    try await withGateway(rules: nil, storageBytesMax: 100) { server in
      let (token, uid) = try await server.signUp("ada")
      try await server.connect { client in
        let post = #"{"uid":"\#(uid)","author":"ada","title":"t","body":"b"}"#
        let refused = try await client.request(
          "POST", "/posts.json?auth=\(token)", [:], post)
        #expect(refused.status == 507, "\(refused.text)")
        #expect(refused.fields["retry-after"] == nil, "\(refused)")
        #expect(server.parts.engine.root.child("posts").isAbsent)
      }
    }
  }

  @Test func `a long body is not decoded while the quotas have no room`() async throws {
    var limits = Limits()
    limits.writesPerSecond = 1
    limits.writeBurstSeconds = 1
    try await withGateway(
      limits: limits, quotas: WriteQuotas(limits, exemptsThisMachine: false)
    ) { server in
      let (token, uid) = try await server.signUp("ada")
      try await server.connect { client in
        let path = "/users/\(uid)/x.json?auth=\(token)"
        // It ends too early to be JSON, so decoding it would give another error.
        let body = "[" + String(repeating: "1,", count: Operations.longTextBytes)
        try await client.expect("PUT", path, [:], body, status: 400)
        try await client.expect("PUT", path, [:], "1", status: 200)
        for method in ["PUT", "POST", "PATCH"] {
          let refused = try await client.request(method, path, [:], body)
          #expect(refused.status == 429 && refused.fields["retry-after"] == "1", "\(refused)")
        }
        // The administrator is exempt.
        try await client.expect("PUT", "/x.json", server.administrator, body, status: 400)
        server.parts.clock.advance(1_000)
        try await client.expect("PUT", path, [:], body, status: 400)
      }
    }
  }
}
