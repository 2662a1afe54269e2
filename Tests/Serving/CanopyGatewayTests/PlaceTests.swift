import CanopyEngine
import CanopyEvents
import CanopySession
import CanopyTesting
import CanopyTree
import Testing

@testable import CanopyGateway

/// Newcomers take the places of idle connections of the HTTP port.
@Suite(.timeLimit(.minutes(20))) struct PlaceTests {
  /// Whether a newcomer is served.
  private func isServed(_ server: GatewayServer, from address: String) async throws -> Bool {
    try await HTTPClient.connect(server.port, from: address) { client in
      (try? await client.request("GET", "/health").status) == 200
    }
  }

  @Test func `idle connections end, those with an event stream or a WebSocket last`() async throws {
    var limits = Limits()
    limits.connectionsMax = 4
    try await withGateway(limits: limits) { server in
      func connect<R: Sendable>(_ body: (HTTPClient) async throws -> R) async throws -> R {
        try await HTTPClient.connect(server.port, from: "127.0.7.1", body)
      }
      try await connect { stream in
        try await stream.send(
          "GET /open.json HTTP/1.1\r\nHost: x\r\nAccept: text/event-stream\r\n\r\n")
        try await eventually { server.parts.operations.engine.listenerCounts.0 == 1 }
        try await connect { socket in
          #expect(try await socket.upgrade("/.ws?v=5") == 101)
          _ = try await socket.message()
          try await socket.send(
            message: #"{"t":"d","d":{"r":1,"a":"q","b":{"p":"/open","h":""}}}"#)
          while try await !socket.message().contains(#""s":"ok""#) {}
          try await connect { idle in
            try await idle.expect("GET", "/health", status: 200)
            try await connect { silent in
              try await eventually { server.gate.count == 4 }
              #expect(try await isServed(server, from: "127.0.7.1") == false)
              try await HTTPClient.connect(server.port, from: "127.0.8.1") { first in
                try await first.expect("GET", "/health", status: 200)
                #expect(try await silent.end() == [])
                try await HTTPClient.connect(server.port, from: "127.0.8.2") { second in
                  try await second.expect("GET", "/health", status: 200)
                  #expect(try await idle.end() == [])
                  // One of two networks' only connections, and the stream and the socket, are left.
                  #expect(try await isServed(server, from: "127.0.8.3"))
                  let end = String(decoding: try await stream.end(), as: UTF8.self)
                  #expect(end.hasPrefix("HTTP/1.1 200 "))
                  #expect(server.gate.endedCount == 3)
                }
              }
            }
          }
        }
      }
    }
  }

  @Test func `a connection whose request is under way does not end, although it is the oldest one`()
    async throws
  {
    var limits = Limits()
    limits.connectionsMax = 2
    try await withGateway(limits: limits) { server in
      try await HTTPClient.connect(server.port, from: "127.0.7.1") { busy in
        let gate = server.parts.journal.holdNextAppend()
        try await busy.send(
          "PUT /open/a.json HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\n1")
        await gate.reached()
        try await HTTPClient.connect(server.port, from: "127.0.7.1") { idle in
          let response = try await idle.request("GET", "/health")
          #expect(response.status == 200, "\(response)")
          #expect(try await isServed(server, from: "127.0.8.1"))
          #expect(try await idle.end() == [])
        }
        gate.open()
        #expect(try await busy.response().status == 200)
        #expect(server.gate.endedCount == 1)
      }
    }
  }
}
