import CanopyRealtimeWire
import CanopySession
import CanopyTesting
import CanopyTree
import Testing

@testable import CanopyRealtime

/// Bad input, large messages and clients that do not read.
@Suite(.timeLimit(.minutes(20))) struct BoundTests {
  @Test(arguments: Depth.allCases)
  func `a long message goes in frames, either way`(_ depth: Depth) async throws {
    try await withRealtime(depth) { server in
      let client = try await server.connect()
      for (number, count) in [100, 16_000, 40_000, 300_000].enumerated() {
        let text = String(repeating: "é🌳", count: count / 6)
        try await client.request(number, "p", #"{"p":"/a","d":"\#(text)"}"#)
        try await client.send(9, "g", #"{"p":"/a","q":{}}"#)
        // A message that is encoded in pieces may end with spaces.
        let answer = try await client.next()
        #expect(try JSONValue(json: answer)["d"]?["b"]?["d"]?.string == text)
        try await client.send(9, "q", #"{"p":"/a","h":"x"}"#)
        let push = try await client.next()
        #expect(try JSONValue(json: push)["d"]?["b"]?["d"]?.string == text)
        try await client.expect(answer: 9, "ok", "{}")
        try await client.request(9, "n", #"{"p":"/a"}"#)
      }
      #expect(client.reader.frames.bytesMax <= MessageFrames.charactersMax)
    }
  }

  @Test(arguments: Depth.allCases)
  func `a large change goes in frames to every listener`(_ depth: Depth) async throws {
    try await withRealtime(depth) { server in
      let (client, other) = (try await server.connect(), try await server.connect())
      try await client.request(1, "q", #"{"p":"/a","h":""}"#)
      try await other.request(1, "q", #"{"p":"/a","q":{"l":3,"vf":"l","i":".key"},"t":4,"h":""}"#)
      for count in [20_000, 900_000] {
        let text = String(repeating: "x", count: count)
        try await server.write("a", #"{"b":"\#(text)","c":1}"#)
        for (reader, tag) in [(client, nil), (other, Int64(4))] {
          let body = try JSONValue(json: try await reader.next())["d"]?["b"]
          #expect(body?["t"]?.integer == tag)
          let data = body?["d"]
          #expect((data?["b"] ?? data)?.string == text)
        }
        try await server.write("a", "null")
        _ = try await client.next()
        _ = try await other.next()
      }
    }
  }

  @Test(arguments: Depth.allCases)
  func `a message whose data does not fit in memory is refused before it is decoded`(
    _ depth: Depth
  ) async throws {
    var limits = Limits()
    limits.memoryMax = 1024 * 1024
    try await withRealtime(depth, limits: limits) { server in
      let client = try await server.connect()
      let list = "[" + String(repeating: "[[[1]]],", count: 10_000) + "1]"
      try await client.request(1, "p", #"{"p":"/a","d":\#(list)}"#, status: "unavailable")
      try await client.request(2, "m", #"{"p":"/","d":{"a":\#(list)}}"#, status: "unavailable")
      // The connection goes on.
      try await client.request(3, "p", #"{"p":"/a","d":1}"#)
    }
  }

  @Test(arguments: Depth.allCases)
  func `a message has a bound, and a larger one is answered`(_ depth: Depth) async throws {
    var limits = Limits()
    limits.lineBytesMax = 50_000
    try await withRealtime(depth, limits: limits) { server in
      let client = try await server.connect()
      func message(_ count: Int) -> String {
        let beginning = #"{"t":"d","d":{"r":3,"a":"p","b":{"p":"/a","d":"#
        let end = "}}}"
        let space = count - beginning.utf8.count - end.utf8.count - 2
        return beginning + "\"\(String(repeating: "x", count: space))\"" + end
      }
      try await client.send(message(50_000))
      try await client.expect(answer: 3)
      try await client.send(message(50_001))
      try await client.expect(answer: 3, status: "too_big")
      // The connection goes on.
      try await client.request(4, "s", "{}")
      // An impossible number of frames ends it.
      try await client.send("999999")
      try await client.expect(
        #"{"t":"c","d":{"t":"e","d":"a message may have at most 64 frames"}}"#)
      try await client.expect("(close 1000)")
      try await client.expectClosed()
    }
  }

  @Test(arguments: Depth.allCases)
  func `a message that is not of the protocol ends its connection alone`(
    _ depth: Depth
  ) async throws {
    try await withRealtime(depth) { server in
      let witness = try await server.connect()
      try await witness.request(1, "q", #"{"p":"/a","h":""}"#)
      for bad in ["hello", "{}", #"{"t":"d","d":{"a":"s"}}"#, "[", ""] {
        let client = try await server.connect()
        // The request before it is still answered.
        try await client.send(1, "p", #"{"p":"/a","d":"\#(bad.utf8.count)"}"#)
        try await client.send(bytes: ClientFrame.bytes(0x81, Array(bad.utf8)))
        try await client.expect(answer: 1)
        let error = try await client.next()
        #expect(error.hasPrefix(#"{"t":"c","d":{"t":"e","d":""#))
        try await client.expect("(close 1000)")
        try await client.expectClosed()
        _ = try await witness.next()
      }
      let binary = try await server.connect()
      try await binary.send(bytes: ClientFrame.bytes(0x82, [1]))
      #expect(try await binary.next().contains("a message must be text"))
      try await binary.expect("(close 1002)")
      try await witness.request(2, "s", "{}")
    }
  }

  @Test(arguments: [0x40, 0x20, 0x10] as [UInt8])
  func `a frame with a bit of an extension ends its connection`(bit: UInt8) async throws {
    try await withRealtime(.socket) { server in
      let frame = ClientFrame.bytes(ClientFrame.textKind | bit, Array("PING".utf8))
      let client = try await server.connect()
      try await client.send(bytes: frame)
      #expect(try await client.next().contains("a frame has a bit of an extension"))
      try await client.expect("(close 1002)")
      let lines = try await server.connectForLines()
      try await lines.send(bytes: frame)
      try await lines.expect("(close 1002)")
    }
  }

  @Test(arguments: [[0x81, 0x01, 0x30], [0x89, 0x00], [0x88, 0x00]] as [[UInt8]])
  func `a frame without a mask ends its connection as an error of the protocol`(
    frame: [UInt8]
  ) async throws {
    try await withRealtime(.socket) { server in
      let client = try await server.connect()
      try await client.send(bytes: frame)
      #expect(try await client.next().contains("a client must mask its frames"))
      try await client.expect("(close 1002)")
      try await client.expectClosed()
      let lines = try await server.connectForLines()
      try await lines.send(bytes: frame)
      try await lines.expect("(close 1002)")
      try await lines.expectClosed()
    }
  }

  @Test(arguments: Depth.allCases)
  func `fragments of a frame are one frame`(_ depth: Depth) async throws {
    try await withRealtime(depth) { server in
      let client = try await server.connect()
      let message = Array(#"{"t":"d","d":{"r":1,"a":"s","b":{}}}"#.utf8)
      try await client.send(bytes: ClientFrame.bytes(0x01, Array(message.prefix(7))))
      try await client.send(bytes: ClientFrame.bytes(0x89, []))
      try await client.send(bytes: ClientFrame.bytes(0x00, Array(message[7..<9])))
      try await client.send(bytes: ClientFrame.bytes(0x80, Array(message[9...])))
      try await client.expect("(pong )")
      try await client.expect(answer: 1)
      try await client.send(bytes: ClientFrame.bytes(0x80, []))
      #expect(try await client.next().contains("a fragment belongs to no message"))
    }
  }

  @Test(arguments: Depth.allCases)
  func `the end of a client is answered`(_ depth: Depth) async throws {
    try await withRealtime(depth) { server in
      let client = try await server.connect()
      try await client.send(1, "p", #"{"p":"/a","d":1}"#)
      try await client.send(bytes: ClientFrame.bytes(0x88, [0x03, 0xE8]))
      try await client.expect(answer: 1)
      try await client.expect("(close 1000)")
      try await client.expectClosed()
    }
  }

  @Test(arguments: Depth.allCases)
  func `the limits of a connection are those of the line protocol`(_ depth: Depth) async throws {
    var limits = Limits()
    limits.listenersMax = 2
    limits.updateLocationsMax = 2
    limits.disconnectWritesMax = 1
    try await withRealtime(depth, limits: limits) { server in
      let client = try await server.connect()
      for number in 1...2 { try await client.request(number, "q", #"{"p":"/\#(number)","h":""}"#) }
      try await client.request(3, "q", #"{"p":"/3","h":""}"#, status: "too_big")
      try await client.request(4, "n", #"{"p":"/1"}"#)
      try await client.request(5, "q", #"{"p":"/3","h":""}"#)
      try await client.request(6, "m", #"{"p":"/x","d":{"a":1,"b":2}}"#)
      try await client.request(7, "m", #"{"p":"/x","d":{"a":1,"b":2,"c":3}}"#, status: "too_big")
      try await client.request(8, "o", #"{"p":"/y","d":1}"#)
      try await client.request(9, "o", #"{"p":"/z","d":1}"#, status: "too_big")
    }
  }

  @Test func `a client that leaves too many events unread is cut off, and others are not`()
    async throws
  {
    var limits = Limits()
    limits.queuedBytesMax = 300_000
    try await withRealtime(.inProcess, limits: limits) { server in
      let (slow, quick) = (try await server.connect(), try await server.connect())
      for client in [slow, quick] { try await client.request(1, "q", #"{"p":"/a","h":""}"#) }
      try await slow.pauseReading()
      let text = String(repeating: "x", count: 60_000)
      for number in 0..<10 {
        server.parts.clock.advance(Session.idleMillisecondsMax / 2)
        try await server.write("a/\(number)", "\"\(text)\"")
        _ = try await quick.next()
      }
      try await slow.resumeReading()
      var last = ""
      while let line = try await slow.reader.mailbox.next() { last = line }
      #expect(last == "(close 1000)")
      try await quick.request(2, "s", "{}")
    }
  }

  @Test(arguments: Depth.allCases)
  func `a client that reads slowly gets fewer events, and its answers after them`(
    _ depth: Depth
  ) async throws {
    try await withRealtime(depth) { server in
      let (slow, quick) = (try await server.connect(), try await server.connect())
      for client in [slow, quick] { try await client.request(1, "q", #"{"p":"/a","h":""}"#) }
      try await slow.request(2, "q", #"{"p":"/a","q":{"i":".key","l":1,"vf":"r"},"t":1,"h":""}"#)
      let text = String(repeating: "x", count: 100_000)
      var number = 2
      var received = 0
      for round in 0..<5 {
        try await slow.pauseReading()
        for write in 0..<40 {
          try await server.write("a/b", "\"\(round)-\(write)-\(text)\"")
          _ = try await quick.next()
        }
        try await slow.resumeReading()
        number += 1
        try await slow.send(number, "s", "{}")
        // The events of both listeners come before the answer.
        var last: [String] = []
        while true {
          let message = try await slow.next()
          if message.contains("\"r\":\(number)") { break }
          last.append(message)
          received += 1
        }
        #expect(last.suffix(2).allSatisfy { $0.contains("\"\(round)-39-x") })
        #expect(last.contains { $0.contains("\"t\":1") })
      }
      // A socket takes some megabytes before the server must keep anything.
      if depth == .inProcess { #expect(received < 300) }
      let memory = server.parts.operations.memory
      try await eventually { memory.used < 128 * 1024 }
    }
  }

  @Test(arguments: Depth.allCases)
  func `many requests at once are answered in order`(_ depth: Depth) async throws {
    try await withRealtime(depth) { server in
      let client = try await server.connect()
      var bytes: [UInt8] = []
      for number in 0..<500 {
        let request =
          number % 3 == 0
          ? #"{"t":"d","d":{"r":\#(number),"a":"g","b":{"p":"/n","q":{}}}}"#
          : #"{"t":"d","d":{"r":\#(number),"a":"p","b":{"p":"/n","d":\#(number)}}}"#
        bytes += ClientFrame.message(request)
      }
      try await client.send(bytes: bytes)
      for number in 0..<500 {
        guard number % 3 == 0 else {
          try await client.expect(answer: number)
          continue
        }
        // A read sees the writes before it.
        try await client.expect(answer: number, "ok", number == 0 ? "null" : "\(number - 1)")
      }
    }
  }

  @Test(arguments: Depth.allCases)
  func `random frames end their connection at most`(_ depth: Depth) async throws {
    var random = SeededGenerator(printingSeedFor: "random frames of clients")
    try await withRealtime(depth) { server in
      let witness = try await server.connect()
      for _ in 0..<60 {
        let client = try await server.connect()
        for _ in 0..<Int.random(in: 1...8, using: &random) {
          let payload: [UInt8] =
            random.oneIn(2)
            ? random.bytes(Int.random(in: 0...40, using: &random))
            : Array(
              random.pick([
                "0", "3", "{", #"{"t":"d","d":{"r":1,"a":"q","b":{"p":"/"}}}"#,
                #"{"t":"d","d":{"r":2,"a":"p","b":{"p":"/a","d":{"b":1}}}}"#,
              ]).utf8)
          let kind = random.oneIn(3) ? UInt8.random(in: .min ... .max, using: &random) : 0x81
          // The server may have ended the connection.
          try? await client.send(bytes: ClientFrame.bytes(kind, payload))
        }
        await client.disconnect()
      }
      try await witness.request(1, "s", "{}")
    }
  }

  @Test func `long polling is refused with a hint`() async throws {
    try await withRealtime(.socket) { server in
      let port = try #require(server.port)
      let client = try await RealtimeClient(
        port: port, path: "/.lp?start=t", joinsFrames: true, on: server.group)
      try await client.expect("(HTTP/1.1 400 Bad Request)")
    }
    #expect(RealtimeConnections.longPollingRefusal.body.contains("/.ws"))
  }

  @Test func `a text that cannot be a host is not sent to the client`() async throws {
    try await withRealtime(.inProcess) { server in
      for host in [nil, "", "a b", "a\"", String(repeating: "a", count: 256)] {
        let client = try await RealtimeClient(
          inProcess: server.connections, joinsFrames: true
        ) { try $0.addRealtime(to: $1, host: host) }
        let first = try JSONValue(json: try await client.next())
        #expect(first["d"]?["d"]?["h"]?.string == "192.0.2.2:9000")
      }
    }
  }
}
