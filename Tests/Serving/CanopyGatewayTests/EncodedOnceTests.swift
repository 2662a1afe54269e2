import CanopyEvents
import CanopyMetrics
import CanopyRealtime
import CanopyTesting
import CanopyTree
import HTTPTypes
import NIOCore
import Testing

@testable import CanopyGateway

/// Values that several requests get.
@Suite(.timeLimit(.minutes(20))) struct EncodedOnceTests {
  /// A value that is not stored as text, because it has arrays.
  private let data = #"{"indexed":{"x":{"n":1,"tags":[1,2]},"y":{"n":2,"tags":[3,4]}}}"#

  @Test func `GET of a value that was sent does not encode it again`() async throws {
    try await withGateway { server in
      try await server.connect { client in
        let put = try await client.request("PUT", "/open.json?print=silent", [:], data)
        #expect(put.status == 204, "\(put)")
      }
      let operations = server.parts.operations
      let wire = try Wire(operations, upgrader: nil)
      let responder = Responder(
        operations, Gateway.Configuration(), RealtimeConnections(operations),
        HTTPMetrics(in: MetricsRegistry()), wire.connection)
      func get(_ target: String, _ fields: HTTPFields = [:]) -> String? {
        let request = HTTPRequest(
          method: .get, scheme: "http", authority: "localhost", path: target, headerFields: fields)
        let result = responder.beginShort(request, ByteBuffer()) { _ in }
        guard case .answered(let answer) = result, case .bytes(let body) = answer.body else {
          return nil
        }
        return String(buffer: body)
      }
      let encoded = wire.connection.loop.value.encoded
      for _ in 0..<3 { #expect(get("/open.json") == data) }
      #expect((encoded.counts.made, encoded.counts.found) == (1, 2))
      for _ in 0..<2 {
        #expect(get("/open/indexed/x.json") == #"{"n":1,"tags":[1,2]}"#)
        #expect(
          get("/open/indexed.json?orderBy=%22n%22&limitToFirst=1")
            == #"{"x":{"n":1,"tags":[1,2]}}"#)
      }
      #expect((encoded.counts.made, encoded.counts.found) == (2, 5))
    }
  }

  @Test func `a body that is to be compressed is left to the task, and encoded there`()
    async throws
  {
    try await withGateway { server in
      let text = String(repeating: "x", count: 2 * Gzip.bodyBytesMin)
      try await server.connect { client in
        let put = try await client.request(
          "PUT", "/open.json?print=silent", [:], "{\"a\":[1,\"\(text)\"]}")
        #expect(put.status == 204, "\(put)")
      }
      let operations = server.parts.operations
      let wire = try Wire(operations, upgrader: nil)
      let responder = Responder(
        operations, Gateway.Configuration(), RealtimeConnections(operations),
        HTTPMetrics(in: MetricsRegistry()), wire.connection)
      let request = HTTPRequest(
        method: .get, scheme: "http", authority: "localhost", path: "/open.json",
        headerFields: [.acceptEncoding: "gzip"])
      guard case .needsTask = responder.beginShort(request, ByteBuffer(), completion: { _ in })
      else {
        Issue.record("the request was answered on the loop")
        return
      }
      #expect(wire.connection.loop.value.encoded.counts.made == 0)
    }
  }
}
