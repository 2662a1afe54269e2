#if PostgreSQL
  import CanopyTesting
  import CanopyTree
  import Foundation
  import Testing

  /// Two servers that are processes of their own, as nodes of one database.
  @Suite(
    .timeLimit(.minutes(20)), .serialized,
    .enabled(if: TestDatabase.base != nil, TestDatabase.isMissing)
  )
  struct NodeServerTests {
    /// Starts two nodes on a new database, runs `body`, and stops them.
    private func withNodes(
      _ body: (NodeServer, NodeServer, TestDatabase) async throws -> Void
    ) async throws {
      let database = try await TestDatabase()
      let a = try await NodeServer(database.url)
      let b = try await NodeServer(database.url)
      try await body(a, b, database)
      #expect(try await a.process.terminate() == 0)
      #expect(try await b.process.terminate() == 0)
    }

    @Test func `a write on one node is an event on the other, with the same number`() async throws {
      try await withNodes { a, b, _ in
        let (writer, reader) = (try await a.administrator(), try await b.administrator())
        try await reader.value("LISTEN /n {\"events\":\"value\"}")
        _ = try await reader.readLine()
        for number in 1...20 {
          let sequence = try await writer.sequence("SET /n \(number)")
          let event = try await reader.readLine()
          #expect(event.hasSuffix("\"data\":\(number),\"seq\":\(sequence)}"), "\(event)")
        }
      }
    }

    @Test func `a client of one node resumes, repeats and reads its write on the other`()
      async throws
    {
      try await withNodes { a, b, _ in
        let (first, second) = (try await a.administrator(), try await b.administrator())
        let known = try await first.sequence("SET /list {\"a\":1,\"b\":2}")
        for number in 1...30 { try await first.value("SET /list/b \(number)") }
        let once = "ONCE client-of-16-bytes 1 0 SET /count {\".sv\":{\"increment\":1}}"
        let sequence = try await first.sequence(once)
        // The read waits for the commit.
        try await second.expect("GET /list/b {\"atLeast\":\(sequence)}", "+30")
        #expect(try await second.sequence(once) == sequence)
        try await second.expect("GET /count", "+1")
        let reply = try await second.value("LISTEN /list {\"events\":\"child\",\"since\":\(known)}")
        #expect(reply["initial"]?.integer == 1)
        let event = try await second.readLine()
        #expect(event.contains("\"event\":\"child_changed\",\"key\":\"b\""), "\(event)")
        #expect(event.contains("\"data\":30"), "\(event)")
        // A number that no node has.
        let code = try await second.code("GET /list {\"atLeast\":1000000}")
        #expect(code == "UNAVAILABLE")
      }
    }

    @Test func `increments on both nodes at once are all made`() async throws {
      try await withNodes { a, b, _ in
        try await withThrowingTaskGroup(of: Void.self) { group in
          for node in [a, b, a, b] {
            group.addTask {
              let client = try await node.administrator()
              for _ in 0..<50 { try await client.value("SET /sum {\".sv\":{\"increment\":1}}") }
            }
          }
          try await group.waitForAll()
        }
        for node in [a, b] {
          let client = try await node.administrator()
          let last = try await client.sequence("SET /end 1")
          try await client.expect("GET /sum {\"atLeast\":\(last)}", "+200")
        }
      }
    }

    @Test func `rules that are replaced on one node are in force on the other`() async throws {
      try await withNodes { a, b, database in
        let stranger = try await b.process.connect()
        try await stranger.expect("GET /open", failsWith: "PERMISSION_DENIED")
        let rules = a.folder.path + "/rules.json"
        try Data("{\"rules\":{\"open\":{\".read\":true}}}".utf8)
          .write(to: URL(fileURLWithPath: rules))
        let set = try await Command.run(["rules", "set", "--data", a.data, rules])
        #expect(set.status == 0, "\(set)")
        let sequence = try await a.administrator().sequence("SET /open 1")
        try await b.administrator().expect("GET /open {\"atLeast\":\(sequence)}", "+1")
        try await stranger.expect("GET /open", "+1")
        let shown = try await Command.run(["rules", "get", "--data", b.data])
        #expect(shown.text == "{\"rules\":{\"open\":{\".read\":true}}}\n")
        // A node that starts later has them, too.
        let c = try await NodeServer(database.url)
        try await c.process.connect().expect("GET /open", "+1")
        #expect(try await c.process.terminate() == 0)
      }
    }

    @Test
    func
      `an account, its login and its identity token are valid on both nodes, until all logins end`()
      async throws
    {
      try await withNodes { a, b, _ in
        let first = try await a.process.connect()
        let signUp = try await first.value(
          "SIGNUP ada@example.org \"engine of 1843\" ada")
        let token = try #require(signUp["token"]?.string)
        let identity = try await first.value("IDTOKEN")
        let text = try #require(identity["token"]?.string ?? identity.string)
        let second = try await b.process.connect()
        try await second.value("AUTH \(token)")
        #expect(try await second.value("WHOAMI")["username"]?.string == "ada")
        let third = try await b.process.connect()
        try await third.value("AUTH \(text)")
        let login = try await b.process.connect()
        try await login.value("LOGIN ada@example.org \"engine of 1843\"")
        try await a.administrator().value("ENDSESSIONS ada@example.org")
        for client in [second, third, login] {
          try await eventually { try await client.request("POST title body").hasPrefix("-UNAUTH") }
        }
        let fourth = try await b.process.connect()
        try await fourth.expect("AUTH \(token)", failsWith: "UNAUTHENTICATED")
        try await fourth.expect("AUTH \(text)", failsWith: "UNAUTHENTICATED")
      }
    }

    @Test func `the on-disconnect writes of a killed node are made once by the other`() async throws
    {
      let database = try await TestDatabase()
      let a = try await NodeServer(database.url)
      let b = try await NodeServer(database.url)
      let (armed, observer) = (try await a.administrator(), try await b.administrator())
      try await armed.value("SET /presence {\"ada\":\"here\",\"times\":0}")
      try await armed.value("ONDISCONNECT SET /presence/ada \"gone\"")
      try await armed.value("ONDISCONNECT SET /presence/times {\".sv\":{\"increment\":1}}")
      let start = try await armed.sequence("SET /presence/ada \"still here\"")
      try await observer.value(
        "LISTEN /presence {\"events\":\"value\",\"since\":\(start)}")
      let clock = ContinuousClock()
      let killed = clock.now
      try await a.process.destroy()
      var event = ""
      while !event.contains("gone") { event = try await observer.readLine() }
      let passed = clock.now - killed
      print("NodeServerTests: \(passed) from the kill of a node to its on-disconnect writes")
      #expect(event.contains("{\"ada\":\"gone\",\"times\":1}"), "\(event)")
      #expect(passed < .seconds(60))
      // A node that starts again has none left.
      let again = try await NodeServer(database.url, folder: a.folder)
      let last = try await again.administrator().sequence("SET /x 1")
      try await observer.expect("GET /presence/times {\"atLeast\":\(last)}", "+1")
      #expect(try await again.process.terminate() == 0)
      #expect(try await b.process.terminate() == 0)
    }

    @Test func `a node that starts again at once makes its writes itself`() async throws {
      let database = try await TestDatabase()
      let a = try await NodeServer(database.url)
      let armed = try await a.administrator()
      try await armed.value("ONDISCONNECT SET /gone {\".sv\":{\"increment\":1}}")
      try await a.process.destroy()
      let again = try await NodeServer(database.url, folder: a.folder)
      try await again.administrator().expect("GET /gone", "+1")
      #expect(again.process.log.contains("made on-disconnect writes"))
      #expect(try await again.process.terminate() == 0)
    }

    @Test func `a namespace of the database is that of all nodes`() async throws {
      try await withNodes { a, b, database in
        let (first, second) = (try await a.administrator(), try await b.administrator())
        try await first.expect("USE shop", failsWith: "NOT_FOUND")
        func command(_ arguments: String...) async throws -> Command.Ending {
          try await Command.run(["namespace"] + arguments + ["--postgres", database.url])
        }
        try await command("create", "shop").expect(status: 0)
        try await command("create", "shop").expectSentence()
        try await command("create", "default").expectSentence()
        #expect(try await command("list").text == "default\nshop\n")
        for client in [first, second] {
          // A node asks the database once a second.
          try await eventually { try await client.request("USE shop") == "+\"shop\"" }
        }
        let sequence = try await first.sequence("SET /a 7")
        #expect(sequence == 1)
        let reply = try await second.request("GET /a {\"atLeast\":1}")
        #expect(reply == "+7", "\(reply)")
        let stranger = try await b.process.connect()
        try await stranger.value("USE shop")
        try await stranger.expect("GET /a", failsWith: "PERMISSION_DENIED")
        let refused = try await command("remove", "shop", "--yes")
        #expect(refused.isSentence && refused.errors.contains("in use"), "\(refused)")
        try await command("remove", "other", "--yes").expectSentence()
      }
    }

    @Test func `a node that starts has everything, also after checkpoints and without its folder`()
      async throws
    {
      let database = try await TestDatabase()
      let options = ["--checkpoint-every", "10", "--retained-commits", "5"]
      let a = try await NodeServer(database.url, options)
      let client = try await a.administrator()
      var last: Int64 = 0
      for number in 1...100 {
        last = try await client.sequence("SET /k/\(number % 7) \(number)")
      }
      let hash = try await client.request("GET /k {\"etag\":true}")
      let query = "SELECT checkpoint FROM canopy.checkpoints"
      try await eventually { try await Int64(database.query(query).dropLast()) ?? 0 >= 90 }
      let b = try await NodeServer(database.url, options)
      let other = try await b.administrator()
      try await other.expect("GET /k {\"atLeast\":\(last),\"etag\":true}", hash)
      #expect(try await a.process.terminate() == 0)
      #expect(try await other.sequence("SET /z 1") == last + 1)
      try await b.process.destroy()
      let c = try await NodeServer(database.url, options)
      try await c.administrator().expect("GET /z", "+1")
      #expect(try await c.process.terminate() == 0)
      for file in ["canopy.sqlite", "rules.json", "identity-keys"] {
        #expect(!FileManager.default.fileExists(atPath: c.data + "/" + file))
      }
    }

    @Test
    func `the health of a node that is cut off from its database is unavailable, and reads go on`()
      async throws
    {
      let database = try await TestDatabase()
      let base = try #require(TestDatabase.base)
      let port = try #require(base.firstMatch(of: /:(\d+)/).flatMap { UInt16($0.1) })
      let proxy = try Proxy(to: port)
      let name = try #require(database.url.split(separator: "/").last)
      let node = try await NodeServer(
        "postgresql://canopy@127.0.0.1:\(proxy.port)/\(name)",
        environment: ["CANOPY_HTTP_PORT": "0"])
      let client = try await node.administrator()
      try await client.value("SET /a 1")
      func health() async throws -> String? {
        let http = try await LineSocketClient(port: node.process.httpPort)
        try await http.send("GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        return try await http.mailbox.next()
      }
      #expect(try await health() == "HTTP/1.1 200 OK")
      proxy.close()
      // Existing connections go on, until one is cut.
      let cutting = Task {
        while !Task.isCancelled {
          proxy.cut(after: 0, .toServer)
          await Task.yield()
        }
      }
      try await eventually { try await health() == "HTTP/1.1 503 Service Unavailable" }
      try await client.expect("GET /a", "+1")
      try await client.expect("SET /a 2", failsWith: "UNAVAILABLE")
      cutting.cancel()
      try await node.process.destroy()
    }

    @Test
    func
      `a node refuses a folder with a database, one in use, and a database that it cannot reach`()
      async throws
    {
      let database = try await TestDatabase()
      let folder = try TemporaryFolder()
      let own = folder.path + "/own"
      let imported = try await Command.run(["import", "--data", own], input: "{\"a\":1}")
      #expect(imported.status == 0, "\(imported)")
      func serve(_ data: String, _ arguments: [String]) async throws -> Command.Ending {
        try await Command.run(["serve", "--port", "0", "--data", data] + arguments)
      }
      let other = try await serve(own, ["--postgres", database.url])
      #expect(other.isSentence && other.errors.contains("database of its own"), "\(other)")
      let node = try await NodeServer(database.url)
      let used = try await serve(node.data, ["--postgres", database.url])
      #expect(used.isSentence && used.errors.contains("in use by process"), "\(used)")
      #expect(try await node.process.terminate() == 0)
      let wrong = try await serve(
        folder.path + "/new", ["--postgres", "postgresql://nobody@127.0.0.1:1/canopy"])
      #expect(wrong.isSentence && wrong.errors.contains("cannot be reached"), "\(wrong)")
      for option in [["--durability", "relaxed"], ["--accept-loss"]] {
        let refused = try await serve(
          folder.path + "/new", ["--postgres", database.url] + option)
        #expect(refused.isSentence && refused.errors.contains(option[0]), "\(refused)")
      }
    }
  }
#endif
