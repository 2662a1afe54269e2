import CanopyAccounts
import CanopyEvents
import CanopySession
import CanopyTesting
import CanopyTree
import Testing

@testable import CanopyGateway

/// The administrator's view of the connections of the HTTP port.
@Suite(.timeLimit(.minutes(20))) struct ClientsTests {
  private func clients(_ line: HTTPClient) async throws -> [JSONValue] {
    try await line.send(message: "CLIENTS")
    let reply = try await line.message()
    return try JSONValue(json: String(reply.dropFirst()))["clients"]?.elements ?? []
  }

  @Test func `connections of all protocols are shown, and can be ended`() async throws {
    try await withGateway { server in
      let ada = try await server.signUp("ada")
      try await server.connect { line in
        #expect(try await line.upgrade("/line") == 101)
        try await line.expect(
          line: "AUTH \(server.parts.administratorToken.text)", #"+{"administrator":true}"#)
        try await server.connect { socket in
          #expect(try await socket.upgrade("/.ws?v=5&ns=default") == 101)
          _ = try await socket.message()
          try await server.connect { http in
            let path = "/users/\(ada.uid).json?auth=\(ada.token)"
            try await http.expect("GET", path, status: 200)
            try await server.connect { stream in
              try await stream.begin("GET", "/open/a.json", ["Accept": "text/event-stream"])
              #expect(try await stream.head().status == 200)
              _ = try await stream.event()
              let all = try await clients(line)
              #expect(
                all.map { $0["protocol"]?.string } == [
                  "line-websocket", "realtime", "http", "stream",
                ])
              #expect(
                all.map { $0["self"] } == [.leaf(true)] + Array(repeating: .leaf(false), count: 3))
              #expect(all.map { $0["user"]?["username"]?.string } == [nil, nil, "ada", nil])
              #expect(all.last?["subscriptions"] == .leaf(1))
              for client in all {
                #expect(client["address"]?.string == "127.0.0.1")
                guard case .leaf(let bytes)? = client["bytes"] else {
                  Issue.record("a connection without bytes")
                  continue
                }
                #expect(bytes.integerValue ?? -1 >= 0)
              }
              try await line.send(message: "CLIENT \(number(all.last))")
              #expect(
                try await line.message().contains(
                  #""listens":[{"sub":1,"path":"/open/a","query":{},"events":"sync"}]"#))
              for client in all.dropFirst() {
                try await line.expect(line: "ENDCLIENT \(number(client))", "+null")
              }
              for ended in [socket, http, stream] { _ = try? await ended.end() }
              try await eventually { try await clients(line).count == 1 }
            }
          }
        }
      }
      try await eventually { server.gate.count == 0 }
    }
  }

  private func number(_ client: JSONValue?) -> Int64 {
    guard case .leaf(let node)? = client?["id"] else { return 0 }
    return node.integerValue ?? 0
  }
}
