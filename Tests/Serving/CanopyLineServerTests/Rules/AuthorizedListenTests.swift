import CanopyEngine
import CanopyTesting
import CanopyTree
import NIOCore
import NIOEmbedded
import Testing

@testable import CanopyLineServer

/// LISTEN of callers to whom the rules apply: its authorization at the beginning, and its end.
@Suite(.timeLimit(.minutes(20))) struct AuthorizedListenTests {
  private static let rules = """
    { "rules": {
        "gate": { ".write": true, ".read": true },
        "secret": { ".read": "root.child('gate').val() === true", ".write": true },
        "members": { ".write": true, ".read": true },
        "rooms": { "$room": {
          ".read": "root.child('members').child($room).hasChild(auth.uid)", ".write": true } },
        "mine": { "$uid": { ".read": "auth.uid === $uid", ".write": true } },
        "soon": { ".read": "now < 1700000060000 || auth != null", ".write": true },
        "public": { ".read": true, ".write": true }
    } }
    """

  @Test(arguments: Depth.allCases, ["child", "value", "sync"])
  func `a listener that loses its permission by a commit is cancelled before later events`(
    _ depth: Depth, _ form: String
  ) async throws {
    try await withServer(depth) { server in
      try await server.set(rules: Self.rules)
      let (reader, writer) = (try await server.connect(), try await server.connect())
      try await reader.expect("LISTEN /secret", failsWith: "PERMISSION_DENIED")
      try await writer.value("SET /gate true")
      let sub = try await reader.begin("LISTEN /secret {\"events\":\"\(form)\"}").sub
      let open = try await reader.begin("LISTEN /public {\"events\":\"\(form)\"}").sub
      try await writer.value("SET /secret {\"a\":1}")
      #expect(try await reader.event().sub == sub)
      // One commit closes the gate and changes the hidden value; then another change, and open again.
      try await writer.value("UPDATE / {\"gate\":false,\"secret/a\":2,\"public\":{\"x\":1}}")
      try await writer.value("SET /secret {\"a\":3}")
      try await writer.value("SET /gate true")
      try await writer.value("SET /secret {\"a\":4}")
      let events = try await reader.events(until: "PING").events
      #expect(events.map(\.sub) == [sub, open])
      #expect(events.first?.brief == "cancel PERMISSION_DENIED")
      try await reader.expect("UNLISTEN \(sub)", failsWith: "NOT_FOUND")
      #expect(server.parts.engine.listenerCounts.listeners == 1)
    }
  }

  @Test(arguments: Depth.allCases)
  func `listeners are authorized for each commit, also for commits that are stored together`(
    _ depth: Depth
  ) async throws {
    try await withServer(depth) { server in
      try await server.set(rules: Self.rules)
      let (reader, writer) = (try await server.connect(), try await server.connect())
      try await writer.value("SET /gate true")
      _ = try await reader.begin("LISTEN /secret {\"events\":\"value\"}")
      server.parts.journal.gate.hold(1)
      try await writer.send("SET /public 1\n")
      await server.parts.journal.gate.reached()
      try await writer.send(
        "SET /secret 1\nSET /gate false\nSET /secret 2\nSET /secret 3\nSET /gate true\n")
      try await server.eventually { server.parts.engine.hasCommitsUnderWay }
      server.parts.journal.gate.open()
      _ = try await writer.readLines(6)
      let events = try await reader.events(until: "PING").events
      #expect(events.map(\.brief) == ["value", "cancel PERMISSION_DENIED"])
      #expect(events.first?.data?.integer == 1)
    }
  }

  @Test(arguments: Depth.allCases)
  func `only the listeners that lost their permission are cancelled`(
    _ depth: Depth
  ) async throws {
    try await withServer(depth) { server in
      try await server.set(rules: Self.rules)
      let writer = try await server.connect()
      var people: [(client: any LineClient, uid: String)] = []
      for name in ["ada", "bob", "eve"] {
        let client = try await server.connect(as: name)
        people.append((client, try await client.text("uid", "WHOAMI")))
      }
      for person in people { try await writer.value("SET /members/hall/\(person.uid) true") }
      for person in people {
        _ = try await person.client.begin("LISTEN /rooms/hall {\"events\":\"value\"}")
      }
      try await writer.value("REMOVE /members/hall/\(people[1].uid)")
      try await writer.value("SET /rooms/hall \"hello\"")
      #expect(try await people[1].client.arrived() == ["cancel PERMISSION_DENIED"])
      for person in [people[0], people[2]] {
        #expect(try await person.client.arrived() == ["value"])
      }
      try await writer.value("REMOVE /members")
      for person in [people[0], people[2]] {
        #expect(try await person.client.arrived() == ["cancel PERMISSION_DENIED"])
      }
      #expect(server.parts.engine.listenerCounts == (0, 0))
      #expect(server.parts.engine.authorizationCounts == (0, 0))
    }
  }

  @Test(arguments: Depth.allCases)
  func `a listener is authorized again when another user logs in on its connection`(
    _ depth: Depth
  ) async throws {
    try await withServer(depth) { server in
      try await server.set(rules: Self.rules)
      let ada = try await server.connect(as: "ada")
      let uid = try await ada.text("uid", "WHOAMI")
      let writer = try await server.connect()
      let mine = try await ada.begin("LISTEN /mine/\(uid)").sub
      let open = try await ada.begin("LISTEN /public").sub
      let info = try await ada.begin("LISTEN /.info/connected {\"events\":\"value\"}").sub
      // Another login of the same user keeps it.
      let again = try await ada.events(until: "LOGIN ada@example.org \"secret words of ada\"")
      #expect(again.events.isEmpty)
      try await writer.value("SET /mine/\(uid)/x 1")
      #expect(try await ada.event().sub == mine)
      // The administrator keeps all subscriptions, and may add more.
      let promoted = try await ada.events(until: "AUTH \(server.administratorToken)")
      #expect(promoted.events.isEmpty)
      let all = try await ada.begin("LISTEN / {\"limitToLast\":1,\"events\":\"value\"}").sub
      // The cancellations are sent before the reply.
      let (events, reply) = try await ada.events(until: "LOGOUT")
      #expect(reply == "+null")
      #expect(events.map(\.brief) == Array(repeating: "cancel PERMISSION_DENIED", count: 2))
      #expect(Set(events.map(\.sub)) == [mine, all])
      try await writer.value("UPDATE / {\"mine/\(uid)/y\":1,\"public/z\":1}")
      #expect(try await ada.event().sub == open)
      #expect(try await ada.arrived().isEmpty)
      try await ada.expect("UNLISTEN \(info)", "+null")
      #expect(server.parts.engine.authorizationCounts == (1, 0))
    }
  }

  @Test(arguments: Depth.allCases)
  func `a listener ends when its session is revoked on another connection`(
    _ depth: Depth
  ) async throws {
    try await withServer(depth) { server in
      try await server.set(rules: Self.rules)
      let ada = try await server.connect(as: "ada")
      let uid = try await ada.text("uid", "WHOAMI")
      let other = try await server.connect()
      try await other.value("LOGIN ada@example.org \"secret words of ada\"")
      for client in [ada, other] { _ = try await client.begin("LISTEN /mine/\(uid)") }
      let kept = try await ada.begin("LISTEN /public").sub
      let change = try await other.events(
        until: "PASSWORD \"secret words of ada\" \"other words of ada\"")
      #expect(change.reply.first == "+" && change.events.isEmpty)
      #expect(try await ada.event().brief == "cancel PERMISSION_DENIED")
      // The connection that changed the password goes on.
      let write = try await other.events(until: "UPDATE / {\"mine/\(uid)/x\":1,\"public/x\":1}")
      #expect(write.events.map(\.brief) == ["added x"])
      #expect(try await ada.event().sub == kept)
      #expect(try await ada.arrived().isEmpty)
    }
  }

  @Test func `a listener ends when its session expires`() async throws {
    try await withServer(.inProcess) { server in
      try await server.set(rules: Self.rules)
      let ada = try await server.connect(as: "ada")
      let uid = try await ada.text("uid", "WHOAMI")
      _ = try await ada.begin("LISTEN /mine/\(uid)")
      let session = try await ada.value("LOGIN ada@example.org \"secret words of ada\"")
      let left = try #require(session["expires"]?.integer) - server.parts.clock.now
      server.parts.clock.advance(left)
      // The clock of the loop is not that of the server, so the server checks once a day.
      let channel = try #require((ada as? ChannelClient)?.channel)
      await channel.testingEventLoop.advanceTime(by: .hours(24))
      #expect(try await ada.event().brief == "cancel PERMISSION_DENIED")
    }
  }

  @Test(arguments: Depth.allCases)
  func `a permission that ends at a time ends with the first commit after it`(
    _ depth: Depth
  ) async throws {
    try await withServer(depth) { server in
      try await server.set(
        rules: Self.rules.replacing(
          "1700000060000", with: "\(server.parts.clock.now + 60_000)"))
      let (reader, writer) = (try await server.connect(), try await server.connect())
      _ = try await reader.begin("LISTEN /soon")
      try await writer.value("SET /soon/a 1")
      #expect(try await reader.event().brief == "added a")
      server.parts.clock.advance(60_000)
      try await writer.value("SET /soon/b 1")
      #expect(try await reader.event().brief == "cancel PERMISSION_DENIED")
      #expect(try await reader.arrived().isEmpty)
    }
  }

  @Test(arguments: Depth.allCases)
  func `a resumption is authorized like a new subscription, and does not show hidden changes`(
    _ depth: Depth
  ) async throws {
    try await withServer(depth) { server in
      try await server.set(rules: Self.rules)
      let writer = try await server.connect()
      let start = try await server.connect().begin("LISTEN /public").sequence
      try await writer.value("UPDATE / {\"gate\":true,\"public/a\":1,\"secret/x\":1}")
      // Where the rules do not depend on data, the changes are sent.
      let resumed = try await server.connect().begin("LISTEN /public {\"since\":\(start)}")
      #expect(resumed.events.map(\.brief) == ["added a"])
      // Hidden, changed, and shown again: the hidden value is not sent.
      let seen = try await server.connect().begin("LISTEN /secret").sequence
      try await writer.value("SET /gate false")
      try await server.connect().expect(
        "LISTEN /secret {\"since\":\(seen)}", failsWith: "PERMISSION_DENIED")
      try await writer.value("SET /secret/hidden \"data\"")
      let hidden = server.parts.engine.snapshot.sequence
      try await writer.value("REMOVE /secret/hidden")
      try await writer.value("SET /gate true")
      let again = try await server.connect().begin("LISTEN /secret {\"since\":\(hidden)}")
      #expect(again.events.map(\.brief) == ["put /"])
      let administrator = try await server.connectAsAdministrator()
      let all = try await administrator.begin("LISTEN /secret {\"since\":\(hidden)}")
      #expect(all.events.map(\.brief) == ["removed hidden"])
      // The same after a change of the rules.
      try await server.set(rules: Self.rules)
      let fresh = try await server.connect().begin("LISTEN /public {\"since\":\(start)}")
      #expect(fresh.events.map(\.brief) == ["put /"])
    }
  }

  @Test(arguments: Depth.allCases)
  func `a permission that ends while the journal is read refuses the resumption`(
    _ depth: Depth
  ) async throws {
    try await withServer(depth) { server in
      try await server.set(rules: Self.rules)
      let (reader, writer) = (try await server.connect(), try await server.connect())
      try await writer.value("SET /gate true")
      for round in 0..<50 {
        try await writer.value("SET /gate true")
        let since = server.parts.engine.snapshot.sequence
        try await reader.send("LISTEN /secret {\"since\":\(since)}\n")
        try await writer.send("SET /gate false\nSET /secret \(round)\n")
        _ = try await writer.readLines(2)
        // Either refused, or begun and then cancelled without an event.
        var lines: [String] = [try await reader.readLine()]
        let rest = try await reader.events(until: "PING")
        lines += rest.events.map(\.brief)
        let isRefused = lines == ["-PERMISSION_DENIED the rules do not allow this"]
        let isCancelled =
          lines.first?.first == "+" && lines.last == "cancel PERMISSION_DENIED"
          && rest.events.allSatisfy { $0.data?.integer != Int64(round) }
        #expect(isRefused || isCancelled, "\(lines)")
      }
      try await server.eventually { server.parts.engine.listenerCounts == (0, 0) }
    }
  }
}
