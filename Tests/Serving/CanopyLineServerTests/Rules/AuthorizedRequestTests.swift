import CanopyEngine
import CanopyTesting
import CanopyTree
import Testing

@testable import CanopySession

/// Requests to the tree of callers to whom the rules apply.
@Suite(.timeLimit(.minutes(20))) struct AuthorizedRequestTests {
  private static let rules = """
    { "rules": {
        "open": { ".read": true, ".write": true, ".indexOn": ["n", ".value"] },
        "notes": { "$uid": {
          ".read": "auth.uid === $uid", ".write": "auth.uid === $uid",
          ".validate": "newData.isString() || newData.hasChildren(['text'])" } },
        "box": { ".write": "auth != null" },
        "log": { ".read": "query.limitToLast <= 3 && query.orderByKey", "$id": {
          ".write": "auth != null && !data.exists()",
          ".validate": "newData.child('by').val() === auth.uid && newData.child('at').val() === now" } },
        "mail": { ".read": "auth.token.email === 'ada@example.org' && auth.provider === 'password'" },
        "pair": { ".write": "newData.child('a').val() === newData.child('b').val()" }
    } }
    """

  @Test(arguments: Depth.allCases)
  func `without a rules file the built-in rules are in force, which do not open the root`(
    _ depth: Depth
  ) async throws {
    try await withServer(depth) { server in
      let lines = [
        "GET /", "GET / {\"orderBy\":\"x\"}", "COUNT /", "COUNT / {\"orderBy\":\"x\"}", "SET /a 1",
        "UPDATE / {\"a\":1}", "REMOVE /users", "REMOVE /posts", "PUSH /a 1", "PUSH /posts 1",
        "CAS /a null_etag 1", "CAS /a wrong 1", "LISTEN /", "LISTEN /users {\"events\":\"value\"}",
        "ONDISCONNECT SET /a 1", "ONDISCONNECT REMOVE /", "SET /posts/.priority 1",
        "GET /.priority",
        "SET / null", "RULES", "RULES built-in", "EXPLAIN null READ /",
      ]
      let ada = try await server.connect(as: "ada")
      let before = server.root
      for client in [try await server.connect(), ada] {
        for line in lines { try await client.expect(line, failsWith: "PERMISSION_DENIED") }
      }
      #expect(server.root == before)
      #expect(try await server.parts.journal.disconnectWrites().isEmpty)
    }
  }

  @Test(arguments: Depth.allCases, [0, 1])
  func `requests behind an UPDATE of many locations wait for its early check`(
    _ depth: Depth, _ extra: Int
  ) async throws {
    try await withServer(depth) { server in
      try await server.set(rules: Self.rules)
      let client = try await server.connect()
      let count = Operations.locationsMadeAtOnceMax + extra
      func update(_ path: String, _ value: Int) -> String {
        let members = (0..<count).map { "\"a\($0)\":\(value)" }
        return "UPDATE \(path) {\(members.joined(separator: ","))}\n"
      }
      for turn in 0..<20 {
        try await client.send(
          update("/open", turn) + "SET /open/a0 \"later\"\nGET /open/a0\nGET /open/a1\n"
            + update("/notes/ada", turn) + "GET /open/a1\n")
        try await client.expectNext(to: update("/open", turn), hasPrefix: "+{\"seq\":")
        try await client.expectNext(to: "SET /open/a0 \"later\"", hasPrefix: "+{\"seq\":")
        try await client.expectNext(to: "GET /open/a0", "+\"later\"")
        try await client.expectNext(to: "GET /open/a1", "+\(turn)")
        try await client.expectNext(to: update("/notes/ada", turn), failsWith: "PERMISSION_DENIED")
        try await client.expectNext(to: "GET /open/a1", "+\(turn)")
      }
      #expect(server.root.at(try Path("notes")).isAbsent)
    }
  }

  @Test(arguments: Depth.allCases)
  func `each kind of request is authorized for its caller`(_ depth: Depth) async throws {
    try await withServer(depth) { server in
      try await server.set(rules: Self.rules)
      let (ada, nobody) = (try await server.connect(as: "ada"), try await server.connect())
      let eve = try await server.connect(as: "eve")
      let uid = try await ada.text("uid", "WHOAMI")
      let mine = "/notes/\(uid)"
      let allowed = [
        "SET \(mine) \"text\"", "GET \(mine)", "COUNT \(mine)", "UPDATE \(mine) {\"text\":1}",
        "SET \(mine)/.priority 3", "PUSH \(mine) 1", "GET \(mine) {\"shallow\":true}",
        "REMOVE \(mine)", "CAS \(mine) null_etag \"x\"", "UPDATE /notes {\"\(uid)\":null}",
        "UPDATE / {\"open/x\":1,\"notes/\(uid)/text\":2}", "GET /mail",
      ]
      for line in allowed { try await ada.expectSuccess(of: line) }
      for line in allowed {
        for client in [eve, nobody] {
          try await client.expect(line, failsWith: "PERMISSION_DENIED")
        }
      }
      // An UPDATE is refused if one of its locations belongs to another user.
      let before = server.root
      for line in [
        "SET /open 1", "PUSH /open 2", "REMOVE /open", "GET /open", "COUNT /open",
        "UPDATE / {\"open/y\":1}",
      ] { try await nobody.expectSuccess(of: line) }
      #expect(server.root.at(try Path("notes")) == before.at(try Path("notes")))
      // Rules about the written value, and not only about the caller.
      try await ada.expect("SET \(mine) 5", failsWith: "PERMISSION_DENIED")
      try await ada.expect("SET \(mine) {\"other\":5}", failsWith: "PERMISSION_DENIED")
    }
  }

  @Test(arguments: Depth.allCases)
  func `an update is authorized as a whole, with the results of its server values`(
    _ depth: Depth
  ) async throws {
    try await withServer(depth) { server in
      try await server.set(rules: Self.rules)
      let ada = try await server.connect(as: "ada")
      let uid = try await ada.text("uid", "WHOAMI")
      try await ada.expect("SET /pair/a 1", failsWith: "PERMISSION_DENIED")
      try await ada.value("UPDATE /pair {\"a\":1,\"b\":1}")
      try await ada.expect("UPDATE /pair {\"a\":2,\"b\":1}", failsWith: "PERMISSION_DENIED")
      let increment = "{\".sv\":{\"increment\":1}}"
      try await ada.value("UPDATE /pair {\"a\":\(increment),\"b\":2}")
      try await ada.expect(
        "UPDATE /pair {\"a\":\(increment),\"b\":2}", failsWith: "PERMISSION_DENIED")
      #expect(server.root.at(try Path("pair")) == (try WriteValue(json: "{\"a\":2,\"b\":2}").node))
      let entry = "{\"by\":\"\(uid)\",\"at\":{\".sv\":\"timestamp\"}}"
      server.parts.clock.advance(5)
      try await ada.value("PUSH /log \(entry)")
      try await ada.value("SET /log/x \(entry)")
      try await ada.expect("SET /log/x \(entry)", failsWith: "PERMISSION_DENIED")
      try await ada.expect("PUSH /log {\"by\":\"\(uid)\",\"at\":5}", failsWith: "PERMISSION_DENIED")
      try await ada.expect("REMOVE /log/x", failsWith: "PERMISSION_DENIED")
    }
  }

  @Test(arguments: Depth.allCases)
  func `rules see the query of a read`(_ depth: Depth) async throws {
    try await withServer(depth) { server in
      try await server.set(rules: Self.rules)
      let client = try await server.connect()
      for verb in ["GET", "COUNT", "LISTEN"] {
        let allowed = "\(verb) /log {\"orderBy\":\"$key\",\"limitToLast\":3}"
        try await client.expectSuccess(of: allowed)
        for query in ["", "{\"orderBy\":\"$key\",\"limitToLast\":4}", "{\"limitToLast\":3}"] {
          try await client.expect("\(verb) /log \(query)", failsWith: "PERMISSION_DENIED")
        }
      }
    }
  }

  @Test(arguments: Depth.allCases)
  func `a caller that may not read learns nothing from a compare-and-set`(_ depth: Depth)
    async throws
  {
    try await withServer(depth) { server in
      try await server.set(rules: Self.rules)
      let (ada, nobody) = (try await server.connect(as: "ada"), try await server.connect())
      try await server.set("/box", "{\"x\":1}")
      try await server.set("/closed", "1")
      let administrator = try await server.connectAsAdministrator()
      let etag = try await administrator.text("etag", "GET /closed {\"etag\":true}")
      // Without any permission a right tag, a wrong one and an absent value give the same error.
      let denial = try await nobody.request("CAS /closed wrong 2")
      expectReply(denial, to: "CAS /closed wrong 2", failsWith: "PERMISSION_DENIED")
      for line in ["CAS /closed \(etag) 2", "CAS /nothing null_etag 1", "CAS /nothing x 1"] {
        try await nobody.expect(line, denial)
      }
      // The caller may write, but not read. The value itself, and null where there is none, would be free guesses.
      let box = try await administrator.text("etag", "GET /box {\"etag\":true}")
      for line in [
        "CAS /box wrong 2", "CAS /box null_etag 2", "CAS /box \(box) {\"x\":1}",
        "CAS /box \(box) 2", "CAS /box/none null_etag null", "CAS /box/none x 1",
      ] {
        try await ada.expect(line, failsWith: "PERMISSION_DENIED")
      }
      try await ada.expect("CAS /box/none null_etag 1", contains: "\"committed\":true")
      // A priority alone leaves no value.
      let stamp = "\".priority\":{\".sv\":\"timestamp\"}"
      let increment = "\".priority\":{\".sv\":{\"increment\":1}}"
      var number = 0
      for value in [
        "{\(stamp)}", "{\(increment)}", "{\"a\":{\(stamp)}}", "{\"a\":null,\(stamp)}",
      ] {
        for place in ["/box/x", "/box/absent"] {
          number += 1
          for prefix in ["", "ONCE 0123456789abcdef \(number) 0 "] {
            try await ada.expect(
              "\(prefix)CAS \(place) null_etag \(value)", failsWith: "PERMISSION_DENIED")
          }
        }
      }
      for (key, value) in [
        ("b", "{\".sv\":\"timestamp\"}"), ("c", "{\".value\":1,\(stamp)}"),
      ] {
        try await ada.expect(
          "CAS /box/\(key) null_etag \(value)", contains: "\"committed\":true")
      }
      // The caller may read.
      try await nobody.value("SET /open {\"n\":1}")
      let missed = try await nobody.value("CAS /open null_etag 2")
      #expect(missed["committed"] == .leaf(false))
      #expect(missed["data"]?["n"]?.integer == 1)
      let tag = try #require(missed["etag"]?.string)
      try await nobody.expect("CAS /open \(tag) {\"n\":2}", contains: "\"committed\":true")
    }
  }

  @Test(arguments: Depth.allCases)
  func `a refusal does not depend on whether a value exists`(_ depth: Depth) async throws {
    try await withServer(depth) {
      $0.limits.replyBytesMax = 2_000
    } _: { server in
      try await server.set(rules: Self.rules)
      let client = try await server.connect()
      func refusals() async throws -> [String] {
        var replies: [String] = []
        for line in [
          "GET /secret", "GET /secret/a", "GET /secret {\"orderBy\":\"a\"}", "COUNT /secret",
          "GET /secret {\"etag\":true}", "LISTEN /secret", "SET /secret 1", "REMOVE /secret",
          "CAS /secret x 1", "UPDATE /secret {\"a\":1}", "ONDISCONNECT REMOVE /secret",
        ] { replies.append(try await client.request(line)) }
        return replies
      }
      let before = try await refusals()
      #expect(before.allSatisfy { $0 == "-PERMISSION_DENIED the rules do not allow this" })
      let long = String(repeating: "x", count: 3_000)
      for json in ["1", "{\"a\":{\"b\":1}}", "\"\(long)\""] {
        try await server.set("/secret", json)
        #expect(try await refusals() == before)
      }
    }
  }

  @Test(arguments: Depth.allCases)
  func `a query needs an index that the rules declare, except by key and priority`(
    _ depth: Depth
  ) async throws {
    try await withServer(depth) { server in
      try await server.set(rules: Self.rules)
      let client = try await server.connect()
      try await client.value("SET /open {\"a\":{\"n\":2,\"m\":1},\"b\":{\"n\":1,\"m\":2}}")
      for verb in ["GET", "COUNT", "LISTEN"] {
        for order in ["n", "$value", "$key", "$priority"] {
          let reply = try await client.request("\(verb) /open {\"orderBy\":\"\(order)\"}")
          #expect(reply.first == "+", "\(verb) \(order): \(reply)")
          if verb == "LISTEN" { _ = try await client.readLines(2) }
        }
        try await client.expect(
          "\(verb) /open {\"orderBy\":\"m/x\"}",
          "-INVALID_QUERY Index not defined, add \".indexOn\": \"m/x\", for path \"/open\", to the rules"
        )
        try await client.expect(
          "\(verb) /open/a {\"orderBy\":\"$value\"}", failsWith: "INVALID_QUERY")
      }
      try await client.expect(
        "GET /open {\"orderBy\":\"n\"}", "+{\"b\":{\"m\":2,\"n\":1},\"a\":{\"m\":1,\"n\":2}}")
      let administrator = try await server.connectAsAdministrator()
      try await administrator.expectSuccess(of: "GET /open {\"orderBy\":\"m\"}")
    }
  }

  @Test(arguments: Depth.allCases)
  func `a caller is anonymous after a logout or a revocation of the token`(
    _ depth: Depth
  ) async throws {
    try await withServer(depth) { server in
      try await server.set(rules: Self.rules)
      let ada = try await server.connect(as: "ada")
      let reply = try await ada.value("WHOAMI")
      let uid = try #require(reply["uid"]?.string)
      let other = try await server.connect()
      try await other.value("LOGIN ada@example.org \"secret words of ada\"")
      try await ada.value("SET /notes/\(uid) \"x\"")
      try await other.value("PASSWORD \"secret words of ada\" \"another secret of ada\"")
      for line in ["GET /notes/\(uid)", "SET /notes/\(uid) \"y\""] {
        try await ada.expect(line, failsWith: "PERMISSION_DENIED")
        try await other.expectSuccess(of: line)
      }
      try await other.value("LOGOUT")
      try await other.expect("GET /notes/\(uid)", failsWith: "PERMISSION_DENIED")
    }
  }
}
