import CanopyEngine
import CanopySocial
import CanopyTesting
import CanopyTree
import CanopyWire
import Testing

@testable import CanopySession

/// Marks of unfinished work that are none: data of clients under other rules, and values of another shape.
@Suite(.timeLimit(.minutes(20))) struct UnfinishedMarkTests {
  private static let open = #"{"rules":{".read":true,".write":true}}"#

  private func with(_ body: (LineParts) async throws -> Void) async throws {
    let parts = try await LineParts()
    let running = Task { await parts.run() }
    let result: Result<Void, any Error>
    do { result = .success(try await body(parts)) } catch { result = .failure(error) }
    parts.engine.stop()
    await running.value
    try result.get()
  }

  /// Makes a write of the administrator, and returns when all steps that follow from it are made.
  private func set(
    _ parts: LineParts, _ path: String, _ json: String
  ) async throws {
    let write = TreeWrite.set(Location(try Path(path)), try WriteValue(json: json))
    let reply = await withCheckedContinuation { continuation in
      parts.operations.write(.tree(write), as: .administrator, from: "local") {
        continuation.resume(returning: $0)
      }
    }
    if case .failure(let error) = reply { throw error }
  }

  private func replaceRules(_ parts: LineParts, _ text: String?) async throws {
    let completion = await parts.operations.administration(.setRules(text), as: .administrator)
    if case .failure(let error) = completion.reply { throw error }
  }

  @Test func `under other rules the places of the marks are ordinary data`() async throws {
    try await with { parts in
      try await replaceRules(parts, Self.open)
      try await set(parts, "/post-comments/p/c", #"{"uid":"u","text":"x"}"#)
      try await set(parts, "/deletions/p", "true")
      try await set(parts, "/renames/u", "true")
      for number in 0..<20 { try await set(parts, "/n", "\(number)") }
      let before = parts.engine.snapshot.sequence
      #expect(before == 23 && !parts.engine.root.child("post-comments").isAbsent)
      // The work begins when the built-in rules are in force.
      try await replaceRules(parts, nil)
      try await eventually { !UnfinishedWork.exists(in: parts.engine.root) }
      #expect(parts.engine.root.child("post-comments").isAbsent)
    }
  }

  @Test func `under other rules a removal that one commit cannot finish is refused whole`()
    async throws
  {
    try await withServer(.inProcess) { server in
      try await server.set(rules: Self.open)
      let ada = try await server.connect(as: "ada")
      let id = try await ada.text("id", "POST title body")
      let count = UnfinishedWork.entriesMax
      let comments = (0...count).map { "\"c\($0)\":{\"uid\":\"u\",\"text\":\"x\"}" }
      try await server.set("/post-comments/\(id)", "{\(comments.joined(separator: ","))}")
      try await ada.expect("DELETE \(id)", failsWith: "BAD_REQUEST")
      #expect(server.root.at(try Path("post-comments/\(id)")).childCount == count + 1)
      #expect(!server.root.at(try Path("posts/\(id)")).isAbsent)
      try await server.set("/post-comments/\(id)/c0", "null")
      try await ada.expect("DELETE \(id)", "+null")
      #expect(server.root.child("post-comments").isAbsent)
    }
  }

  @Test func `under other rules a removal and a renaming leave the data of clients in place`()
    async throws
  {
    try await withServer(.inProcess) { server in
      try await server.set(rules: Self.open)
      let ada = try await server.connect(as: "ada")
      let id = try await ada.text("id", "POST title body")
      let other = try await ada.text("id", "POST title body")
      let uid = try await ada.text("uid", "WHOAMI")
      let places = ["removed-posts/x", "renames/\(uid)"]
      let reservation = "removed-posts/\(id)"
      for place in places { try await server.set("/\(place)", "\"mine\"") }
      try await server.set("/\(reservation)", "\"mine\"")
      try await ada.expect("DELETE \(id)", "+null")
      #expect(server.root.at(try Path(reservation)) == "mine")
      try await server.set("/\(reservation)", "null")
      try await ada.expect("RENAME Countess", "+null")
      for place in places { #expect(server.root.at(try Path(place)) == "mine", "\(place)") }
      // Under the built-in rules they are marks, and obsolete.
      try await replaceRules(server.parts, nil)
      try await ada.expect("DELETE \(other)", "+null")
      try await ada.expect("RENAME Ada2", "+null")
      for place in places {
        try await server.eventually { server.root.at((try? Path(place)) ?? .root).isAbsent }
      }
    }
  }

  private static let places = ["removed-posts", "renames", "deletions", "erasures"]

  @Test(arguments: places)
  func `under other rules a client cannot write a place of the server`(_ place: String) async throws
  {
    try await withServer(.inProcess) { server in
      try await server.set(rules: Self.open)
      let ada = try await server.connect(as: "ada")
      let refusal =
        "-PERMISSION_DENIED /\(place) belongs to the server: only the administrator may write it, "
        + "also as a part of /"
      let mark = #"{"stage":"account"}"#
      let large = (0..<100).map { "\"k\($0)\":\(mark)" }.joined(separator: ",")
      let lines = [
        "SET /\(place)/u \(mark)", "SET /\(place) {\"u\":\(mark)}", "SET /\(place)/.priority 1",
        "SET / {\"a\":1,\"\(place)\":{\"u\":\(mark)}}", "UPDATE / {\"a\":1,\"\(place)/u/stage\":1}",
        "UPDATE /\(place) {\(large)}", "PUSH /\(place) \(mark)", "REMOVE /\(place)/u",
        "CAS /\(place)/u null_etag \(mark)", "ONCE 0123456789abcdef 1 0 SET /\(place)/u \(mark)",
        "ONDISCONNECT SET /\(place)/u \(mark)", "ONDISCONNECT UPDATE / {\"\(place)/u\":\(mark)}",
      ]
      for line in lines { try await ada.expect(line, refusal) }
      #expect(server.root.child(try Key(place)).isAbsent)
      try await ada.value("SET /\(place)2/u \(mark)")
      try await ada.value("SET / {\"a\":1}")
      // Data of the administrator stays, also if the whole tree is written.
      try await server.set("/\(place)/u", mark)
      for line in ["SET / {\"a\":2}", "REMOVE /"] { try await ada.expect(line, refusal) }
      try await ada.value("SET /a 3")
      let kept = server.root.child(try Key(place))
      #expect(server.root.child("a") == 3 && !kept.isAbsent)
    }
  }

  @Test func `a mark that comes after an on-disconnect write of the whole tree was armed stays`()
    async throws
  {
    try await withServer(.inProcess) { server in
      try await server.set(rules: Self.open)
      let ada = try await server.connect(as: "ada")
      try await ada.value("SET /a 1")
      try await ada.value("ONDISCONNECT SET / {\"b\":1}")
      try await server.set("/erasures/u", #"{"stage":"posts"}"#)
      await ada.disconnect()
      try await server.eventually {
        server.parts.log.lines.contains { $0.contains("on-disconnect writes were refused") }
      }
      #expect(!server.root.child("erasures").isAbsent && server.root.child("a") == 1)
    }
  }

  @Test func `under other rules a removal shows no id of the removed post`() async throws {
    try await withServer(.inProcess) { server in
      try await server.set(rules: Self.open)
      let ada = try await server.connect(as: "ada")
      let id = try await ada.text("id", "POST title body")
      try await ada.value("COMMENT \(id) first")
      try await ada.expect("DELETE \(id)", "+null")
      #expect(
        server.root.children(after: nil, limit: 10).map(\.key) == ["usernames", "users"])
      try await ada.expect("DELETE \(id)", failsWith: "NOT_FOUND")
      // A value in place of the reservations is no obstacle.
      try await server.set("/removed-posts", "5")
      let other = try await ada.text("id", "POST title body")
      try await ada.expect("DELETE \(other)", "+null")
      #expect(server.root.child("removed-posts") == 5)
    }
  }

  @Test(arguments: ["5", #""x""#, #"{".value":5,".priority":1}"#])
  func `a value in the place of the marks is no work`(_ json: String) async throws {
    try await with { parts in
      for place in ["/deletions", "/renames"] {
        try await set(parts, place, json)
        #expect(!UnfinishedWork.exists(in: parts.engine.root))
        let step = try await parts.engine.transact { proposal in
          let decision = try UnfinishedWork.step(in: &proposal)
          return Decision(nil, decision.write == nil)
        }
        #expect(step.result, "a step writes nothing")
      }
      try await set(parts, "/n", "1")
      #expect(parts.engine.snapshot.sequence == 3)
    }
  }

  @Test func `a mark of another shape is removed, and nothing else`() async throws {
    try await with { parts in
      try await set(parts, "/post-comments/p/c", #"{"uid":"u","text":"x"}"#)
      for (place, json) in [
        ("/deletions/p", "5"), ("/deletions", #"{"p":{"x":1},"q":"y"}"#), ("/renames/u", "7"),
      ] {
        try await set(parts, place, json)
        try await eventually { !UnfinishedWork.exists(in: parts.engine.root) }
      }
      #expect(parts.engine.root.childCount == 1)
      #expect(parts.engine.root.at(try Path("/post-comments/p/c/text")) == "x")
    }
  }

  @Test func `a generated key that the rules cannot allow is an error of the clock`() async throws {
    try await with { parts in
      let (post, place) = (try WriteValue(json: #"{"text":"x"}"#), try Path("/posts"))
      func push(as identity: Identity) async throws {
        let reply = await withCheckedContinuation { continuation in
          parts.operations.write(
            .push(place, post), as: identity, from: "local"
          ) { continuation.resume(returning: $0) }
        }
        if case .failure(let error) = reply { throw error }
      }
      try await push(as: .administrator)
      parts.clock.advance(-60_000)
      await #expect { try await push(as: .anonymous) } throws: {
        ($0 as? WireError)?.code == .permissionDenied
      }
      parts.clock.advance(-1_000)
      for _ in 0..<3 {
        await #expect { try await push(as: .anonymous) } throws: {
          ($0 as? WireError)?.code == .unavailable
        }
      }
      try await push(as: .administrator)
      let lines = parts.log.lines.filter { $0.contains("the clock was set back") }
      #expect(lines.count == 1)
      // Under other rules, the time of a key has no meaning.
      try await replaceRules(parts, Self.open)
      try await push(as: .anonymous)
    }
  }
}
