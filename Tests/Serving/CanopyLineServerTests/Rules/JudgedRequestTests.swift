import CanopyEngine
import CanopyTesting
import CanopyTree
import Testing

/// Requests to the tree of those whom the rules bind.
@Suite(.timeLimit(.minutes(5))) struct JudgedRequestTests {
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
  func `without rules of one's own the built-in ones are in force, and the root is nobody's`(
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
        for line in lines { #expect(try await client.code(line) == "PERMISSION_DENIED", "\(line)") }
      }
      #expect(server.root == before)
      #expect(try await server.parts.journal.disconnectWrites().isEmpty)
    }
  }

  @Test(arguments: Depth.allCases)
  func `each kind of request is judged as its caller's`(_ depth: Depth) async throws {
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
      for line in allowed { #expect(try await ada.request(line).first == "+", "\(line)") }
      for line in allowed {
        for client in [eve, nobody] {
          #expect(try await client.code(line) == "PERMISSION_DENIED", "\(line)")
        }
      }
      // What others may is not enough, where one place of several is somebody else's.
      let before = server.root
      for line in [
        "SET /open 1", "PUSH /open 2", "REMOVE /open", "GET /open", "COUNT /open",
        "UPDATE / {\"open/y\":1}",
      ] { #expect(try await nobody.request(line).first == "+", "\(line)") }
      #expect(server.root.at(try Path("notes")) == before.at(try Path("notes")))
      // Rules of what is written, not only of who writes.
      #expect(try await ada.code("SET \(mine) 5") == "PERMISSION_DENIED")
      #expect(try await ada.code("SET \(mine) {\"other\":5}") == "PERMISSION_DENIED")
    }
  }

  @Test(arguments: Depth.allCases)
  func `an update is judged as a whole, and what it increments or times as it comes out`(
    _ depth: Depth
  ) async throws {
    try await withServer(depth) { server in
      try await server.set(rules: Self.rules)
      let ada = try await server.connect(as: "ada")
      let uid = try await ada.text("uid", "WHOAMI")
      #expect(try await ada.code("SET /pair/a 1") == "PERMISSION_DENIED")
      try await ada.value("UPDATE /pair {\"a\":1,\"b\":1}")
      #expect(try await ada.code("UPDATE /pair {\"a\":2,\"b\":1}") == "PERMISSION_DENIED")
      let increment = "{\".sv\":{\"increment\":1}}"
      try await ada.value("UPDATE /pair {\"a\":\(increment),\"b\":2}")
      #expect(
        try await ada.code("UPDATE /pair {\"a\":\(increment),\"b\":2}") == "PERMISSION_DENIED")
      #expect(server.root.at(try Path("pair")) == (try WriteValue(json: "{\"a\":2,\"b\":2}").node))
      let entry = "{\"by\":\"\(uid)\",\"at\":{\".sv\":\"timestamp\"}}"
      server.parts.clock.advance(5)
      try await ada.value("PUSH /log \(entry)")
      try await ada.value("SET /log/x \(entry)")
      #expect(try await ada.code("SET /log/x \(entry)") == "PERMISSION_DENIED")
      #expect(try await ada.code("PUSH /log {\"by\":\"\(uid)\",\"at\":5}") == "PERMISSION_DENIED")
      #expect(try await ada.code("REMOVE /log/x") == "PERMISSION_DENIED")
    }
  }

  @Test(arguments: Depth.allCases)
  func `rules see the query of a read`(_ depth: Depth) async throws {
    try await withServer(depth) { server in
      try await server.set(rules: Self.rules)
      let client = try await server.connect()
      for verb in ["GET", "COUNT", "LISTEN"] {
        let allowed = "\(verb) /log {\"orderBy\":\"$key\",\"limitToLast\":3}"
        #expect(try await client.request(allowed).first == "+")
        for query in ["", "{\"orderBy\":\"$key\",\"limitToLast\":4}", "{\"limitToLast\":3}"] {
          #expect(try await client.code("\(verb) /log \(query)") == "PERMISSION_DENIED", "\(query)")
        }
      }
    }
  }

  @Test(arguments: Depth.allCases)
  func `who may not read learns nothing from a compare-and-set`(_ depth: Depth) async throws {
    try await withServer(depth) { server in
      try await server.set(rules: Self.rules)
      let (ada, nobody) = (try await server.connect(as: "ada"), try await server.connect())
      try await server.set("/box", "{\"x\":1}")
      try await server.set("/closed", "1")
      let administrator = try await server.connectAsAdministrator()
      let etag = try await administrator.text("etag", "GET /closed {\"etag\":true}")
      // May neither read nor write: the right tag and a wrong one, something and nothing are the same.
      let sentence = try await nobody.refusal("CAS /closed wrong 2")
      for line in ["CAS /closed \(etag) 2", "CAS /nothing null_etag 1", "CAS /nothing x 1"] {
        #expect(try await nobody.refusal(line) == sentence, "\(line)")
      }
      // May write, not read.
      #expect(try await ada.code("CAS /box wrong 2") == "PERMISSION_DENIED")
      #expect(try await ada.code("CAS /box null_etag 2") == "PERMISSION_DENIED")
      let box = try await administrator.text("etag", "GET /box {\"etag\":true}")
      #expect(try await ada.value("CAS /box \(box) 2")["committed"] == .leaf(true))
      // May read.
      try await nobody.value("SET /open {\"n\":1}")
      let missed = try await nobody.value("CAS /open null_etag 2")
      #expect(missed["committed"] == .leaf(false))
      #expect(missed["data"]?["n"]?.integer == 1)
      let tag = try #require(missed["etag"]?.string)
      #expect(try await nobody.value("CAS /open \(tag) {\"n\":2}")["committed"] == .leaf(true))
    }
  }

  @Test(arguments: Depth.allCases)
  func `a refusal is the same whether something is there or not`(_ depth: Depth) async throws {
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
        let (code, sentence) = try await client.refusal("\(verb) /open {\"orderBy\":\"m/x\"}")
        #expect(code == "INVALID_QUERY")
        #expect(
          sentence
            == "Index not defined, add \".indexOn\": \"m/x\", for path \"/open\", to the rules")
        #expect(
          try await client.code("\(verb) /open/a {\"orderBy\":\"$value\"}") == "INVALID_QUERY")
      }
      #expect(
        try await client.request("GET /open {\"orderBy\":\"n\"}")
          == "+{\"b\":{\"m\":2,\"n\":1},\"a\":{\"m\":1,\"n\":2}}")
      let administrator = try await server.connectAsAdministrator()
      #expect(try await administrator.request("GET /open {\"orderBy\":\"m\"}").first == "+")
    }
  }

  @Test(arguments: Depth.allCases)
  func `who has logged out, or whose token is revoked elsewhere, is nobody`(
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
        #expect(try await ada.code(line) == "PERMISSION_DENIED")
        #expect(try await other.request(line).first == "+")
      }
      try await other.value("LOGOUT")
      #expect(try await other.code("GET /notes/\(uid)") == "PERMISSION_DENIED")
    }
  }
}
