import CanopyEngine
import CanopyTesting
import CanopyTree
import Testing

@testable import CanopyLineServer

/// LISTEN and UNLISTEN.
@Suite(.timeLimit(.minutes(20))) struct ListenTests {
  @Test(arguments: Depth.allCases)
  func `each form reports the same change, before the reply to the write`(
    _ depth: Depth
  ) async throws {
    try await withServer(depth) { server in
      let client = try await server.connectAsAdministrator()
      try await client.value("SET /a {\"b\":1,\"c\":{\"d\":2}}")
      let child = try await client.begin("LISTEN /a")
      #expect(child.events.map(\.brief) == ["added b", "added c after b"])
      #expect(child.events.map(\.isMore) == [true, false])
      let value = try await client.begin("LISTEN /a {\"events\":\"value\"}")
      #expect(value.events.map(\.brief) == ["value"])
      #expect(value.events.first?.data == (try JSONValue(json: "{\"b\":1,\"c\":{\"d\":2}}")))
      let sync = try await client.begin("LISTEN /a {\"events\":\"sync\"}")
      #expect(sync.events.map(\.brief) == ["put /"])

      let (events, reply) = try await client.events(
        until: "UPDATE /a {\"b\":null,\"c/d\":3,\"e\":true}")
      #expect(reply == "+{\"seq\":2}")
      #expect(
        events.filter { $0.sub == child.sub }.map(\.brief)
          == ["removed b", "added e after c", "changed c"])
      #expect(events.filter { $0.sub == child.sub }.map(\.isMore) == [true, true, false])
      #expect(events.filter { $0.sub == value.sub }.map(\.brief) == ["value"])
      let patch = events.filter { $0.sub == sync.sub }
      #expect(patch.map(\.brief) == ["patch /"])
      #expect(patch.first?.data == (try JSONValue(json: "{\"b\":null,\"c/d\":3,\"e\":true}")))
      #expect(events.allSatisfy { $0.sequence == 2 })
    }
  }

  @Test(arguments: Depth.allCases)
  func `a put to a child subscription has the order of the events before it, as an object`(
    _ depth: Depth
  ) async throws {
    try await withServer(depth) { server in
      let client = try await server.connectAsAdministrator()
      let child = { (value: Int, priority: Int) in
        "{\".value\":\(value),\".priority\":\(priority)}"
      }
      try await client.value(
        "SET /a {\"0\":\(child(1, 3)),\"1\":\(child(2, 2)),\"2\":\(child(3, 1))}")
      try await client.value("SET /b {\"0\":1,\"1\":2,\"2\":3}")
      try await client.value("SET /c 5")
      for (request, data) in [
        ("LISTEN /a", "{\"2\":3,\"1\":2,\"0\":1}"), ("LISTEN /b", "{\"0\":1,\"1\":2,\"2\":3}"),
        ("LISTEN /b {\"orderBy\":\"$key\"", "{\"0\":1,\"1\":2,\"2\":3}"),
        ("LISTEN /a {\"limitToLast\":2", "{\"1\":2,\"0\":1}"),
        ("LISTEN /b {\"startAt\":9", "null"), ("LISTEN /c", "5"), ("LISTEN /d", "null"),
      ] {
        let told = try await client.begin(request.contains("{") ? request + "}" : request)
        var keys: [String] = []
        if case .object(let members) = try JSONValue(json: data) { keys = members.map(\.name) }
        #expect(told.events.map(\.key) == keys)
        server.parts.journal.forget(through: 3)
        let since = request.contains("{") ? ",\"since\":1}" : " {\"since\":1}"
        try await client.expectSuccess(of: request + since)
        let line = try await client.readLine()
        #expect(line.contains("\"data\":\(data)"), "\(line)")
      }
    }
  }

  @Test(arguments: Depth.allCases)
  func `the put of a resumed subscription has priorities only in the form sync`(_ depth: Depth)
    async throws
  {
    try await withServer(depth) { server in
      let client = try await server.connectAsAdministrator()
      try await client.value("SET /a {\"x\":{\".value\":1,\".priority\":2}}")
      for (form, data) in [("child", "\"data\":{\"x\":1}"), ("sync", "\".priority\":2")] {
        // The journal has no commit with this number.
        try await client.expectSuccess(of: "LISTEN /a {\"events\":\"\(form)\",\"since\":9}")
        let line = try await client.readLine()
        #expect(line.contains("\"put\"") && line.contains(data), "\(line)")
      }
    }
  }

  @Test(arguments: Depth.allCases)
  func `several listeners get the events of a commit in the order of their requests`(
    _ depth: Depth
  ) async throws {
    try await withServer(depth) { server in
      let client = try await server.connectAsAdministrator()
      for i in 0..<20 {
        let form = ["child", "value", "sync"][i % 3]
        _ = try await client.begin("LISTEN /a\(i % 7 == 0 ? "" : "/b") {\"events\":\"\(form)\"}")
      }
      let (events, _) = try await client.events(until: "SET /a {\"b\":{\"c\":1}}")
      let order = events.map(\.sub)
      // Listeners to the same location get their events together.
      let first = Dictionary(grouping: 1...20) { i in
        "\((i - 1) % 7 == 0) \((i - 1) % 3)"
      }.values.map { $0.map(Int64.init) }.sorted { $0[0] < $1[0] }
      #expect(order == first.flatMap(\.self))
    }
  }

  @Test(arguments: Depth.allCases)
  func `a limited listener keeps its size`(_ depth: Depth) async throws {
    try await withServer(depth) { server in
      let client = try await server.connectAsAdministrator()
      try await client.value("SET /n {\"a\":1,\"b\":2,\"c\":3}")
      let start = try await client.begin("LISTEN /n {\"orderBy\":\"$value\",\"limitToLast\":2}")
      #expect(start.events.map(\.brief) == ["added b", "added c after b"])
      let (more, _) = try await client.events(until: "SET /n/a 9")
      #expect(more.map(\.brief) == ["removed b", "added a after c"])
      let (less, _) = try await client.events(until: "REMOVE /n/c")
      #expect(less.map(\.brief) == ["removed c", "added b"])
      let (moved, _) = try await client.events(until: "SET /n/b 10")
      #expect(moved.map(\.brief) == ["moved b after a", "changed b after a"])
    }
  }

  @Test(arguments: Depth.allCases)
  func `values have the order of their query`(_ depth: Depth) async throws {
    try await withServer(depth) { server in
      let client = try await server.connectAsAdministrator()
      try await client.value("SET /n {\"1\":30,\"2\":10,\"3\":20}")
      try await client.send("LISTEN /n {\"orderBy\":\"$value\",\"events\":\"value\"}\n")
      _ = try await client.readLine()
      #expect(try await client.readLine().contains("\"data\":{\"2\":10,\"3\":20,\"1\":30}"))
    }
  }

  @Test(arguments: Depth.allCases)
  func `at an empty location a value event is sent at once, and child events later`(
    _ depth: Depth
  ) async throws {
    try await withServer(depth) { server in
      let client = try await server.connectAsAdministrator()
      #expect(try await client.begin("LISTEN /not/yet").events.isEmpty)
      let value = try await client.begin("LISTEN /not/yet {\"events\":\"value\"}")
      #expect(value.events.map(\.data) == [.null])
      let (events, _) = try await client.events(until: "SET /not/yet/there 1")
      #expect(Set(events.map(\.brief)) == ["added there", "value"])
    }
  }

  @Test(arguments: Depth.allCases)
  func `two LISTENs to the same location are two subscriptions, which end separately`(
    _ depth: Depth
  ) async throws {
    try await withServer(depth) { server in
      let client = try await server.connectAsAdministrator()
      let first = try await client.begin("LISTEN /a {\"events\":\"value\"}")
      let second = try await client.begin("LISTEN /a {\"events\":\"value\"}")
      #expect(first.sub != second.sub)
      #expect(try await client.events(until: "SET /a 1").events.map(\.sub).count == 2)
      #expect(server.parts.engine.listenerCounts == (2, 1))
      try await client.expect("UNLISTEN \(first.sub)", "+null")
      #expect(try await client.events(until: "SET /a 2").events.map(\.sub) == [second.sub])
      try await client.expect("UNLISTEN \(first.sub)", failsWith: "NOT_FOUND")
      try await client.expect("UNLISTEN \(second.sub)", "+null")
      #expect(try await client.events(until: "SET /a 3").events.isEmpty)
      #expect(server.parts.engine.listenerCounts == (0, 0))
    }
  }

  @Test(arguments: Depth.allCases)
  func `an invalid LISTEN is refused and leaves no subscription`(_ depth: Depth) async throws {
    try await withServer(depth) { server in
      let client = try await server.connectAsAdministrator()
      let refusals = [
        ("LISTEN", "BAD_REQUEST"), ("LISTEN /a {\"events\":\"all\"}", "BAD_REQUEST"),
        ("LISTEN /a {\"since\":-1}", "BAD_REQUEST"), ("LISTEN /a {\"since\":\"1\"}", "BAD_REQUEST"),
        ("LISTEN /a {\"until\":1}", "BAD_REQUEST"), ("LISTEN a//b#", "INVALID_PATH"),
        ("LISTEN /a {\"limitToFirst\":0}", "INVALID_QUERY"),
        ("LISTEN /a {\"limitToFirst\":1,\"limitToLast\":1}", "INVALID_QUERY"),
        ("UNLISTEN", "BAD_REQUEST"), ("UNLISTEN x", "BAD_REQUEST"), ("UNLISTEN 0", "BAD_REQUEST"),
        ("UNLISTEN 99999999999999999999", "BAD_REQUEST"), ("UNLISTEN 1", "NOT_FOUND"),
        ("LISTEN /.info/nothing", "NOT_FOUND"), ("GET /.info/serverTimeOffset", "NOT_FOUND"),
        ("GET /.info/connected {\"shallow\":true}", "BAD_REQUEST"),
        ("LISTEN /.info {\"limitToFirst\":1}", "BAD_REQUEST"),
        ("LISTEN /.info {\"since\":0}", "BAD_REQUEST"),
        ("SET /.info 1", "INVALID_PATH"),
      ]
      for (line, code) in refusals { try await client.expect(line, failsWith: code) }
      #expect(server.parts.engine.listenerCounts == (0, 0))
      let nobody = try await server.connect()
      try await nobody.expect("LISTEN /a", failsWith: "PERMISSION_DENIED")
    }
  }

  @Test(arguments: Depth.allCases)
  func `the subscriptions of a connection are bounded`(_ depth: Depth) async throws {
    try await withServer(depth) {
      $0.limits.listenersMax = 100
    } _: { server in
      let client = try await server.connectAsAdministrator()
      // A client may send many requests at once, and gets an error for each that is refused.
      let asked = 2_000
      for start in stride(from: 0, to: asked, by: 100) {
        try await client.send(
          (start..<start + 100).map { "LISTEN /l/\($0)\n" }.joined())
        for i in start..<start + 100 {
          let request = "LISTEN /l/\(i)"
          if i < 100 {
            let reply = "+{\"sub\":\(i + 1),\"seq\":0,\"initial\":0}"
            try await client.expectNext(to: request, reply)
          } else {
            let reply = "-TOO_LARGE a connection may have at most 100 subscriptions"
            try await client.expectNext(to: request, hasPrefix: reply)
          }
        }
      }
      #expect(server.parts.engine.listenerCounts == (100, 100))
      try await client.expect("UNLISTEN 7", "+null")
      #expect(try await client.begin("LISTEN /again").events.isEmpty)
      try await client.expect("LISTEN /again", failsWith: "TOO_LARGE")
      await client.disconnect()
      try await server.eventually { server.parts.engine.listenerCounts == (0, 0) }
    }
  }

  @Test(arguments: Depth.allCases)
  func `a value too large for an event is refused, or ends the subscription`(
    _ depth: Depth
  ) async throws {
    try await withServer(depth) {
      $0.limits.replyBytesMax = 1_000
    } _: { server in
      let client = try await server.connectAsAdministrator()
      try await client.value("SET /small 1")
      let value = try await client.begin("LISTEN /small {\"events\":\"value\"}")
      let sync = try await client.begin("LISTEN /small {\"events\":\"sync\"}")
      let (events, _) = try await client.events(
        until: "SET /small/x \(String(reflecting: String(repeating: "x", count: 2_000)))")
      #expect(Set(events.map(\.sub)) == [value.sub, sync.sub])
      #expect(events.allSatisfy { $0.brief == "cancel TOO_LARGE" })
      try await client.expect("LISTEN /small", failsWith: "TOO_LARGE")
      try await client.expect("LISTEN /small {\"events\":\"value\"}", failsWith: "TOO_LARGE")
      try await client.expect("UNLISTEN \(value.sub)", failsWith: "NOT_FOUND")
      #expect(try await client.events(until: "SET /small/x 1").events.isEmpty)
      #expect(server.parts.engine.listenerCounts == (0, 0))
    }
  }

  @Test(arguments: Depth.allCases)
  func `a former administrator gets no events of the tree, but still those of the blog`(
    _ depth: Depth
  ) async throws {
    try await withServer(depth) { server in
      let ada = try await server.connect(as: "ada")
      let client = try await server.connectAsAdministrator()
      let tree = try await client.begin("LISTEN /users")
      let blog = try await client.begin("WATCH RECENT")
      let (events, reply) = try await client.events(until: "LOGOUT")
      #expect(events.map(\.brief) == ["cancel PERMISSION_DENIED"])
      #expect(events.map(\.sub) == [tree.sub])
      #expect(reply == "+null")
      try await ada.value("POST title body")
      #expect(try await client.event().sub == blog.sub)
      #expect(try await client.arrived().isEmpty)
    }
  }

  @Test(arguments: Depth.allCases)
  func `the state of the connection can be read and listened to`(
    _ depth: Depth
  ) async throws {
    try await withServer(depth) { server in
      let client = try await server.connect()
      let now = server.parts.clock.now
      try await client.expect("GET /.info/connected", "+true")
      try await client.expect("GET .info/serverTime", "+\(now)")
      let all = try await client.begin("LISTEN /.info")
      #expect(all.events.map(\.brief) == ["added connected", "added serverTime after connected"])
      let value = try await client.begin("LISTEN /.info/connected {\"events\":\"value\"}")
      #expect(value.events.map(\.data) == [.leaf(true)])
      try await client.expect("UNLISTEN \(value.sub)", "+null")
    }
  }

  @Test(arguments: Depth.allCases)
  func `a subscriber that disconnects between events leaves nothing, and others go on`(
    _ depth: Depth
  ) async throws {
    try await withServer(depth) { server in
      let writer = try await server.connectAsAdministrator()
      let stays = try await server.connectAsAdministrator()
      _ = try await stays.begin("LISTEN /n {\"events\":\"value\"}")
      for round in 0..<20 {
        let goes = try await server.connectAsAdministrator()
        _ = try await goes.begin("LISTEN /n")
        // Some subscriptions end before they have begun.
        try await goes.send("LISTEN /n/x {\"since\":0}\nLISTEN /m\n")
        try await writer.send(
          (0..<20).map { "SET /n/\($0) \(round)\n" }.joined())
        if round % 2 == 0 { _ = try await goes.readLine() }
        await goes.disconnect()
        _ = try await writer.readLines(20)
      }
      try await server.eventually { server.parts.engine.listenerCounts == (1, 1) }
      #expect(try await stays.events(until: "PING").events.count == 400)
      #expect(!server.parts.log.lines.contains { $0.hasPrefix("error") })
    }
  }
}
