import CanopyEngine
import CanopySession
import CanopyTesting
import CanopyTree
import Foundation
import Testing

@testable import CanopyEvents
@testable import CanopyLineServer

/// Subscribers that read more slowly than events come.
@Suite(.timeLimit(.minutes(20))) struct SlowViewerTests {
  private static let bound = 2 * 1024 * 1024

  /// Makes a client slow after a few values: the server holds few bytes of events, and the sockets few more.
  private static func useSmallBuffers(_ settings: inout TestSettings) {
    settings.limits.queuedBytesMax = bound
    settings.receiveBytes = 16_384
  }

  /// A replica of the list of recent posts.
  private static func recent() throws -> ListenReplica {
    let options = "\"orderBy\":\"$key\",\"limitToLast\":20"
    let query = try Query(options: JSONValue(json: "{\(options)}"))
    return ListenReplica(Listening(try Path("posts"), query), options: options)
  }

  @Test(arguments: Depth.allCases)
  func
    `a viewer that reads more slowly than a large post changes gets fewer events and its last state`(
      _ depth: Depth
    ) async throws
  {
    try await withServer(depth, Self.useSmallBuffers) { server in
      let author = try await server.connect(as: "mallory")
      let body = String(repeating: "\u{1F600}", count: 65_536)
      let id = try await author.text("id", "POST large \"\(body)\"")
      let fast = try await server.connect(as: "quick")
      _ = try await fast.begin("WATCH RECENT {\"limit\":20}")
      let slow = try await server.connect(as: "patient")
      var replica = try Self.recent()
      try replica.begin(try await slow.request(replica.request))
      try replica.take(try await slow.event())
      let memory = server.parts.operations.memory
      let before = memory.used
      var peak = 0
      var received = 0
      let rounds = 10
      for round in 0..<rounds {
        try await slow.pauseReading()
        for _ in 0..<1_000 / rounds {
          try await author.value("STAR \(id)")
          // The fast viewer gets each change. Its text is not parsed: it is long.
          #expect(try await fast.readLine().hasPrefix(">"))
          peak = max(peak, memory.used - before)
        }
        try await slow.resumeReading()
        // The slow one reads everything in some rounds, and a part in others.
        if round % 2 == 0 {
          for event in try await slow.events(until: "PING").events {
            try replica.take(event)
            received += 1
          }
          #expect(try replica.problem(server.root) == nil)
        } else {
          try replica.take(try await slow.event())
          received += 1
        }
      }
      for event in try await slow.events(until: "PING").events {
        try replica.take(event)
        received += 1
      }
      #expect(try replica.problem(server.root) == nil)
      #expect(server.parts.engine.listenerCounts.listeners == 2)
      #expect(received < 1_000)
      #expect(peak < Self.bound)
      if let slow = slow as? ChannelClient {
        #expect(received < 50)
        #expect(try await slow.peaks().held < Self.bound / 2)
      }
      try await server.eventually { memory.used - before < 64 * 1024 }
    }
  }

  /// The number of runs of each test; `CANOPY_RUNS` sets it.
  private static let runs =
    ProcessInfo.processInfo.environment["CANOPY_RUNS"].flatMap { Int($0) } ?? 8

  @Test(arguments: Depth.allCases)
  func `copies of clients with random reading speeds equal the results of their queries`(
    _ depth: Depth
  ) async throws {
    var random = SeededGenerator(printingSeedFor: "SlowViewerTests.copies")
    for _ in 0..<Self.runs { try await run(depth, &random) }
  }

  private func run(_ depth: Depth, _ random: inout SeededGenerator) async throws {
    // The copy of the root shows whether a reply follows the events before it, and no others.
    var start = [ListenReplica(Listening(.root, form: .sync), options: "\"events\":\"sync\"")]
    // In some runs the connection has a hub of its own.
    let count = random.oneIn(4) ? EventHubs.connectionMax + 4 : 8
    while start.count < count { start.append(try RandomListenTests.replica(&random)) }
    let replicas = start
    var generator = SeededGenerator(seed: random.next())
    let piecesMin: Int? = random.oneIn(2) ? random.pick([1, 500, 2_000]) : nil
    try await withServer(depth) {
      // With a small bound large values make the connection move to another hub.
      if let piecesMin { $0.limits.wholeReplyBytesMax = piecesMin }
      $0.limits.queuedBytesMax = 16 * 80_000 * (count > 8 ? 8 : 1)
      $0.receiveBytes = 16_384
    } _: { server in
      var replicas = replicas
      let client = try await server.connectAsAdministrator()
      for i in replicas.indices {
        let (events, reply) = try await client.events(until: replicas[i].request)
        for event in events { try take(&replicas, event) }
        try replicas[i].begin(reply)
      }
      let keys = RandomWrites.keys.prefix(5)
      var writes = RandomWrites()
      writes.keysMax = 5
      writes.depthMax = 3
      writes.bigOnceIn = 1_000
      var versions: [Node] = [server.root]
      func write() async throws {
        defer { versions.append(server.root) }
        var write = writes.next(&generator)
        if generator.oneIn(3) {
          let text = String(repeating: "x", count: Int.random(in: 0...3_000, using: &generator))
          let path = Path.root.child(generator.pick(keys)).child(generator.pick(keys))
          write = try Write([Write.Item(path, Node(text))])
        }
        _ = try? await server.parts.engine.transact { [write] _ in Decision(write, ()) }
      }
      for round in 0..<20 {
        try await client.pauseReading()
        for _ in 0..<Int.random(in: 1...15, using: &generator) { try await write() }
        // The server may not read it before the client does.
        let requested = versions.count - 1
        async let isSent: Void = client.send("GET \"\" {\"export\":true}\n")
        for _ in 0..<Int.random(in: 0...15, using: &generator) { try await write() }
        try await client.resumeReading()
        if generator.oneIn(2) { for _ in 0..<3 { try await write() } }
        try await isSent
        while true {
          let line = try await client.readLine()
          guard line.first == ">" else {
            let reply = try WriteValue(json: String(line.dropFirst()), limits: .none).node
            // The version of the copy, or of a long read, during which commits may come, an earlier one that is not older
            // than the request.
            let isCurrent = reply == replicas[0].root
            #expect(isCurrent || piecesMin != nil, "round \(round)")
            let copied = try #require(versions.lastIndex(of: replicas[0].root))
            #expect(isCurrent || versions[requested...copied].contains(reply), "round \(round)")
            break
          }
          try take(&replicas, try Event(line))
        }
        if generator.oneIn(3) { continue }
        for event in try await client.events(until: "PING").events { try take(&replicas, event) }
        for replica in replicas {
          let problem = try replica.problem(server.root)
          #expect(problem == nil, "round \(round)")
          if problem != nil { return }
        }
      }
      #expect(server.parts.engine.listenerCounts.listeners == replicas.count)
    }
  }

  private func take(_ replicas: inout [ListenReplica], _ event: Event) throws {
    let index = try #require(replicas.firstIndex { $0.sub == event.sub })
    try replicas[index].take(event)
  }

  @Test(
    arguments: [
      "SET /own 1", "GET /large", "GET /own {\"orderBy\":\"$value\"}", "PING", "AUTH secret",
      "LISTEN /own", "UNLISTEN 1", "nonsense",
    ])
  func `a request of a slow viewer is answered although commits go on without end`(
    _ request: String
  ) async throws {
    try await withServer(.inProcess, Self.useSmallBuffers) { server in
      let writer = try await server.connectAsAdministrator()
      let client = try await server.connectAsAdministrator()
      _ = try await client.begin("LISTEN /large {\"events\":\"value\"}")
      let text = String(repeating: "x", count: 400_000)
      try await client.pauseReading()
      for number in 0..<3 { try await writer.value("SET /large \"\(number)-\(text)\"") }
      let writing = Task {
        var number = 3
        while !Task.isCancelled {
          try await writer.value("SET /large \"\(number)-\(text)\"")
          number += 1
        }
      }
      // The server may not read it before the client does.
      async let isSent: Void = client.send(request + "\n")
      try await client.resumeReading()
      try await isSent
      var last = 0
      for round in 0... {
        let line = try await client.readLine()
        guard line.first == ">" else {
          // A large read takes its version when it begins: later events may come before its reply.
          if request == "GET /large" {
            let value = line.dropFirst(2).prefix { $0 != "-" }
            let number = try #require(Int(value), "\(line.prefix(100))")
            #expect(number >= 2 && number <= last, "\(last) in round \(round)")
          }
          break
        }
        if round > 10 {
          Issue.record("\(request) is not answered")
          break
        }
        if let value = try Event(line).data?.string?.prefix(while: { $0 != "-" }) {
          last = Int(value) ?? 0
        }
      }
      writing.cancel()
      _ = await writing.result
    }
  }

  @Test func `a viewer that may no longer read gets no withheld events`() async throws {
    try await withServer(.inProcess, Self.useSmallBuffers) { server in
      try await server.set(
        rules: #"{"rules":{"open":{".read":"root.child('isOpen').val() === true"},".write":true}}"#)
      let writer = try await server.connectAsAdministrator()
      try await writer.value("SET /isOpen true")
      let client = try await server.connect(as: "reader")
      _ = try await client.begin("LISTEN /open {\"events\":\"value\"}")
      try await client.pauseReading()
      let text = String(repeating: "x", count: 150_000)
      for number in 0..<3 { try await writer.value("SET /open \"\(number)\(text)\"") }
      try await writer.value("SET /isOpen false")
      try await writer.value("SET /open \"secret\"")
      try await client.resumeReading()
      let events = try await client.events(until: "PING").events
      #expect(events.map(\.name) == ["value", "cancel"])
      #expect(server.parts.engine.listenerCounts.listeners == 0)
      await client.disconnect()
      try await server.eventually { server.parts.operations.memory.used < 64 * 1024 }
    }
  }

  @Test func `a subscription that ends while it is behind releases the withheld commits`()
    async throws
  {
    try await withServer(.inProcess, Self.useSmallBuffers) { server in
      let writer = try await server.connectAsAdministrator()
      let client = try await server.connectAsAdministrator()
      for path in ["/a", "/b"] {
        _ = try await client.begin("LISTEN \(path) {\"events\":\"value\"}")
      }
      try await client.pauseReading()
      let text = String(repeating: "x", count: 150_000)
      for number in 0..<3 {
        for path in ["/a", "/b"] { try await writer.value("SET \(path) \"\(number)\(text)\"") }
      }
      #expect(server.parts.operations.memory.used > 150_000)
      await client.disconnect()
      try await server.eventually { server.parts.engine.listenerCounts.listeners == 0 }
      try await server.eventually { server.parts.operations.memory.used < 64 * 1024 }
      try await writer.expect("PING", "+\"PONG\"")
    }
  }
}
