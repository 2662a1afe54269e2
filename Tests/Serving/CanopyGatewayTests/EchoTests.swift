import CanopySession
import CanopyTesting
import CanopyTree
import CanopyWire
import Testing

@testable import CanopyGateway

/// The memory of long responses that the client does not read.
@Suite(.timeLimit(.minutes(20))) struct EchoTests {
  @Test(arguments: ["PUT", "PATCH"])
  func `a long echo is sent in pieces, whatever it looks like`(method: String) async throws {
    let members = (0..<100_000).map { #""k\#($0)":1"# }.joined(separator: ",")
    let json = #"{"a":{\#(members)},"b":2}"#
    try await withGateway { server in
      try await server.connect { client in
        for target in ["/open/x.json", "/open/x.json?print=pretty"] {
          let response = try await client.request(method, target, [:], json)
          #expect(
            response.status == 200 && response.fields["transfer-encoding"] == "chunked",
            "\(response)")
          #expect(
            response.json?["a"]?["k99999"]?.integer == 1 && response.json?["b"]?.integer == 2,
            "\(response)")
        }
        let short = try await client.request(method, "/open/y.json", [:], #"{"a":1}"#)
        #expect(short.text == #"{"a":1}"# && short.fields["content-length"] == "7", "\(short)")
      }
    }
  }

  @Test func `a list of children that is not read is charged with its copy`() async throws {
    let count = 300_000
    let members = (0..<count).map { #""k\#($0)":1"# }.joined(separator: ",")
    try await withGateway { server in
      try await server.connect { client in
        let response = try await client.request(
          "PUT", "/open/x.json?print=silent", [:], "{\(members)}")
        #expect(response.status == 204, "\(response)")
      }
      let memory = server.parts.operations.memory
      try await eventually { memory.used == 0 }
      try await HTTPClient.connect(server.port, receiveBytes: 4096) { client in
        try await client.begin("GET", "/open/x.json?shallow=true")
        _ = try await client.head()
        // The text has about five megabytes, of which the socket takes some.
        let bytes = count * MemoryLayout<(key: Key, node: Node)>.stride
        try await eventually { memory.used > bytes }
      }
      try await eventually { memory.used == 0 }
    }
  }
}
