#if PostgreSQL
  import CanopyTesting
  import CanopyTree
  import Testing

  /// Users of a blog at several nodes that are processes.
  @Suite(
    .timeLimit(.minutes(20)), .serialized,
    .enabled(if: TestDatabase.base != nil, TestDatabase.isMissing)
  )
  struct NodeBlogTests {
    @Test func `fifty users who star one post on three nodes at once are all counted`() async throws
    {
      let database = try await TestDatabase()
      // All are of this machine.
      let options = ["--signups-per-minute", "1000", "--hashes-waiting-per-address-max", "64"]
      var nodes: [NodeServer] = []
      for _ in 0..<3 { nodes.append(try await NodeServer(database.url, options)) }
      let author = try await nodes[0].process.connect()
      try await author.value("SIGNUP author@example.org \"engine of 1843\" author")
      let post = try await author.text("id", "POST title body")
      var readers: [LineSocketClient] = []
      for number in 1...50 {
        let reader = try await nodes[number % 3].process.connect()
        try await reader.value(
          "SIGNUP reader\(number)@example.org \"engine of 1843\" reader\(number)")
        readers.append(reader)
      }
      // Each stars, takes the star back and stars again.
      let counts = try await withThrowingTaskGroup(of: [Int64].self) { group in
        for reader in readers {
          group.addTask {
            var counts: [Int64] = []
            for isStarred in [true, false, true] {
              let reply = try await reader.value("STAR \(post)")
              #expect(reply["starred"] == .leaf(Node(isStarred)))
              counts.append(try #require(reply["starCount"]?.integer))
            }
            return counts
          }
        }
        return try await group.reduce(into: []) { $0 += $1 }
      }
      #expect(counts.allSatisfy { 0...50 ~= $0 } && counts.contains(50))
      let last = try await nodes[0].administrator().sequence("SET /end 1")
      for node in nodes {
        let client = try await node.administrator()
        let count = try await client.request("GET /posts/\(post)/starCount {\"atLeast\":\(last)}")
        #expect(count == "+50")
        #expect(try await client.value("GET /posts/\(post)/stars").names?.count == 50)
        #expect(try await node.process.terminate() == 0)
      }
    }

    @Test func `wrong passwords at one node make a login at another node wait`() async throws {
      let database = try await TestDatabase()
      let a = try await NodeServer(database.url)
      let b = try await NodeServer(database.url)
      let (first, second) = (try await a.process.connect(), try await b.process.connect())
      try await first.value("SIGNUP ada@example.org \"engine of 1843\" ada")
      for _ in 0..<4 {
        try await first.expect("LOGIN ada@example.org wrong-password", failsWith: "UNAUTHENTICATED")
      }
      // The fifth failure begins a wait of a second, and each further one doubles it. A node that counts alone would
      // admit five attempts.
      var codes: [String] = []
      while codes.count < 5, codes.last != "RATE_LIMITED" {
        codes.append(try await second.code("LOGIN ada@example.org wrong-password"))
      }
      #expect(codes.last == "RATE_LIMITED" && codes.count > 1, "\(codes)")
      for node in [a, b] { #expect(try await node.process.terminate() == 0) }
    }
  }
#endif
