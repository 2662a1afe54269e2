import CanopyEngine
import CanopyTesting
import CanopyTree
import NIOCore
import NIOPosix
import Synchronization
import Testing

@testable import CanopyRealtime

/// A client that connects again, and names its earlier connection.
@Suite(.timeLimit(.minutes(20))) struct EarlierConnectionTests {
  /// Opens a connection, and returns it with its ID.
  private static func connect(
    _ server: RealtimeServer
  ) async throws -> (client: RealtimeClient, id: String) {
    let client = try await server.connectWithoutReading()
    let first = try JSONValue(json: try await client.next())
    return (client, try #require(first["d"]?["d"]?["s"]?.string))
  }

  private static func value(_ server: RealtimeServer, _ path: String) throws -> String {
    var output = JSONOutput()
    output.append(server.parts.engine.snapshot.root.at(try Path(path)))
    return output.text
  }

  @Test(arguments: Depth.allCases)
  func `the earlier connection ends, and its on-disconnect writes precede the new requests`(
    _ depth: Depth
  ) async throws {
    try await withRealtime(depth) { server in
      let (client, id) = try await Self.connect(server)
      try await client.request(1, "o", #"{"p":"/state","d":"gone"}"#)
      try await server.connections.endEarlier(session: id, on: server.group.next()).get()
      #expect(try Self.value(server, "/state") == "\"gone\"")
      try await client.expectClosed()
      #expect(server.connections.sessions.count == 0)
      // The client may name it again.
      try await server.connections.endEarlier(session: id, on: server.group.next()).get()
    }
  }

  @Test(arguments: Depth.allCases)
  func `requests that are under way are awaited, and those that have not begun are dropped`(
    _ depth: Depth
  ) async throws {
    try await withRealtime(depth) { server in
      let (client, id) = try await Self.connect(server)
      let gate = server.parts.journal.gate
      gate.hold()
      try await client.send(1, "p", #"{"p":"/begun","d":1}"#)
      await gate.reached()
      // A read begins when the write before it is answered, and the next write after the read.
      try await client.send(2, "g", #"{"p":"/begun","q":{}}"#)
      try await client.send(3, "p", #"{"p":"/waiting","d":1}"#)
      let isOpen = Atomic(false)
      let end = server.connections.endEarlier(session: id, on: server.group.next())
      end.whenComplete { _ in
        let wasOpen = isOpen.load(ordering: .sequentiallyConsistent)
        #expect(wasOpen)
      }
      try await client.expectClosed()
      isOpen.store(true, ordering: .sequentiallyConsistent)
      gate.open()
      try await end.get()
      #expect(try Self.value(server, "/begun") == "1")
      #expect(try Self.value(server, "/waiting") == "null")
    }
  }

  @Test func `an ID that is malformed or of no connection ends nothing`() async throws {
    try await withRealtime(.inProcess) { server in
      let (client, id) = try await Self.connect(server)
      let loop = server.group.next()
      let other = RealtimeSessionID { Array(repeating: 7, count: $0) }.text
      for text in [nil, "", other, String(id.dropLast()), id + "0", id.uppercased() + " "] {
        try await server.connections.endEarlier(session: text, on: loop).get()
      }
      try await client.request(1, "p", #"{"p":"/a","d":1}"#)
    }
  }

  @Test func `an ID is read from its text`() throws {
    var random = SplitMix64(seed: 2)
    for _ in 0..<100 {
      let id = RealtimeSessionID { count in
        (0..<count).map { _ in UInt8(truncatingIfNeeded: random.next()) }
      }
      #expect(id.text.utf8.count == 32)
      #expect(RealtimeSessionID(id.text) == id)
    }
    for text in ["", "0", String(repeating: "0", count: 33), String(repeating: "g", count: 32)] {
      #expect(RealtimeSessionID(text) == nil)
    }
    let zeros = String(repeating: "0", count: 32)
    #expect(RealtimeSessionID(zeros)?.text == zeros)
  }
}
