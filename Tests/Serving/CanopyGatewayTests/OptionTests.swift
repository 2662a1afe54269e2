import CanopyEngine
import CanopyEvents
import CanopySession
import CanopyTesting
import CanopyTree
import CanopyWire
import Dispatch
import Testing

@testable import CanopyGateway

/// The time of a read, and the size of a write.
@Suite(.timeLimit(.minutes(20))) struct OptionTests {
  @Test func `a read that takes longer than its timeout is interrupted and answered`() async throws
  {
    var limits = Limits()
    limits.wholeReplyBytesMax = 100
    try await withGateway(limits: limits) { server in
      try await server.connect { client in
        let text = String(repeating: "a", count: 1_000)
        let put = try await client.request("PUT", "/open/a.json", [:], "\"\(text)\"")
        #expect(put.status == 200, "\(put)")
        // Another long work has its turn.
        let (begins, begin) = AsyncStream.makeStream(of: Void.self)
        let end = DispatchSemaphore(value: 0)
        let operations = server.parts.operations
        let work = Task {
          try await operations.beside {
            begin.yield()
            end.wait()
          }
        }
        _ = await begins.first { true }
        let late = try await client.request("GET", "/open/a.json?timeout=20ms")
        #expect(
          late.status == 400 && late.json?["error"]?.string?.contains("timeout") == true, "\(late)")
        end.signal()
        try await work.value
        let read = try await client.request("GET", "/open/a.json?timeout=15min")
        #expect(read.status == 200 && read.text == "\"\(text)\"", "\(read)")
      }
    }
  }

  @Test func `writeSizeLimit bounds the data that a write writes and replaces`() async throws {
    try await withGateway { server in
      try await server.connect { client in
        let text = "\"" + String(repeating: "a", count: 700_000) + "\""
        let path = "/open/large"
        func status(
          _ method: String, _ target: String, _ body: String? = nil
        ) async throws -> Int {
          try await client.request(method, "\(target)&print=silent", [:], body).status
        }
        #expect(try await status("PUT", "\(path)/a.json?writeSizeLimit=tiny", text) == 204)
        // The present value and the new one together are larger.
        #expect(try await status("PUT", "\(path)/a.json?writeSizeLimit=tiny", text) == 400)
        #expect(try await status("PUT", "\(path)/b.json?writeSizeLimit=tiny", text) == 204)
        #expect(try await status("POST", "\(path).json?writeSizeLimit=tiny", text) == 204)
        let both = #"{"a":1,"b":2}"#
        #expect(try await status("PATCH", "\(path).json?writeSizeLimit=tiny", both) == 400)
        let response = try await client.request("DELETE", "\(path).json?writeSizeLimit=tiny")
        #expect(response.status == 400, "\(response)")
        #expect(
          response.text
            == #"{"error":"Data to write exceeds the maximum size that can be modified with a single request."}"#,
          "\(response)")
        #expect(try await status("PATCH", "\(path).json?writeSizeLimit=small", both) == 204)
        #expect(try await status("DELETE", "\(path).json?writeSizeLimit=unlimited") == 204)
      }
    }
  }

  @Test func `the size of data that a caller may not read does not count`() async throws {
    let rules = #"{"rules": {"drop": {".write": true}}}"#
    try await withGateway(rules: rules) { server in
      try await server.connect { client in
        let text = "\"" + String(repeating: "a", count: 1_100_000) + "\""
        let path = "/drop/a.json?print=silent"
        try await client.expect("PUT", path, [:], text, status: 204)
        let over = try await client.request("PUT", "\(path)&writeSizeLimit=tiny", [:], "1")
        #expect(over.status == 204, "\(over)")
        let large = try await client.request("PUT", "\(path)&writeSizeLimit=tiny", [:], text)
        #expect(large.status == 400, "\(large)")
      }
    }
  }
}
