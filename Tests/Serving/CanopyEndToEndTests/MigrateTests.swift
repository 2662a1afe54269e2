#if PostgreSQL
  import CanopyTesting
  import CanopyTree
  import Foundation
  import Testing

  /// `canopy migrate`: a server moves from a data folder to a database, and back.
  @Suite(
    .timeLimit(.minutes(20)), .serialized,
    .enabled(if: TestDatabase.base != nil, TestDatabase.isMissing))
  struct MigrateTests {
    private static let fixture = Checkout.root.appending(path: "Seeds/demo.json").path
    private static let login = "LOGIN harriet.adeyemi@example.org chalk-dust-and-litmus-7"
    private static let once =
      "ONCE client-of-16-bytes 1 0 SET /count {\".sv\":{\"increment\":1}}"

    private let folder: TemporaryFolder
    private var data: String { folder.path + "/data" }

    init() throws {
      folder = try TemporaryFolder()
    }

    private func migrate(from: String, to: String) async throws -> Command.Ending {
      try await Command.run(["migrate", "--from", from, "--to", to])
    }

    /// Returns the answers of a server that a move must not change.
    private func answers(_ server: ServerProcess, _ data: String) async throws -> [String] {
      let client = try await server.connect()
      try await client.value(try ServerProcess.authentication(data: data))
      var lines: [String] = []
      for request in [
        "GET /posts {\"etag\":true}", "GET /users {\"etag\":true}", "GET /count", "COUNT /posts",
        "GET /gone", "RULES",
      ] {
        lines.append(try await client.request(request))
      }
      for name in ["shop", "empty"] {
        try await client.value("USE \(name)")
        lines += [try await client.request("GET /"), try await client.request("RULES")]
      }
      return lines
    }

    @Test func `a server moves to a database and back, with everything that it had`() async throws {
      try await Command.run(["seed", "--data", data, Self.fixture]).expect(status: 0)
      for name in ["shop", "empty"] {
        let created = try await Command.run(["namespace", "create", name, "--data", data])
        #expect(created.status == 0, "\(created)")
      }
      var server = try await ServerProcess(data: data)
      var client = try await server.connect()
      let token = try #require(try await client.value(Self.login)["token"]?.string)
      let identity = try #require(try await client.value("IDTOKEN")["token"]?.string)
      let administrator = try await server.connect()
      try await administrator.value(try ServerProcess.authentication(data: data))
      let written = try await administrator.sequence(Self.once)
      let shop = try await server.connect()
      try await shop.value(try ServerProcess.authentication(data: data))
      try await shop.value("USE shop")
      try await shop.value("SET / {\"a\":{\"b\":[1,true,null,\"é🌳\"],\".priority\":3}}")
      try await shop.value("RULES {\"rules\":{\"a\":{\".read\":true}}}")
      // The server is killed before these are made.
      try await administrator.value("ONDISCONNECT SET /gone {\".sv\":{\"increment\":1}}")
      try await server.destroy()

      let database = try await TestDatabase()
      let moved = try await migrate(from: data, to: database.url)
      #expect(moved.status == 0, "\(moved)")
      #expect(moved.errors.contains("10 accounts") && moved.errors.contains("node hash"))
      // The original stays as it is.
      server = try await ServerProcess(data: data)
      let expected = try await answers(server, data)
      #expect(expected[4] == "+1")
      #expect(try await server.terminate() == 0)

      let node = try await NodeServer(database.url)
      try await eventually {
        try await answers(node.process, node.data) == expected
      }
      client = try await node.administrator()
      #expect(try await client.sequence(Self.once) == written)
      #expect(try await client.sequence("SET /x 1") > written)
      client = try await node.process.connect()
      try await client.value("AUTH \(token)")
      try await client.value("AUTH \(identity)")
      try await client.value(Self.login)
      let refused = try await migrate(from: database.url, to: folder.path + "/back")
      #expect(refused.isSentence && refused.errors.contains("a node serves"), "\(refused)")
      try await node.administrator().value("REMOVE /x")
      #expect(try await node.process.terminate() == 0)

      let back = folder.path + "/back"
      let returned = try await migrate(from: database.url, to: back)
      #expect(returned.status == 0, "\(returned)")
      let verified = try await Command.run(["verify", "--data", back])
      #expect(verified.status == 0, "\(verified)")
      server = try await ServerProcess(data: back)
      #expect(try await answers(server, back) == expected)
      client = try await server.connect()
      try await client.value("AUTH \(token)")
      try await client.value("AUTH \(identity)")
      #expect(try await server.terminate() == 0)
      for file in ["admin-token", "identity-keys"] {
        let (old, new) = (data + "/" + file, back + "/" + file)
        #expect(
          FileManager.default.contents(atPath: old) == FileManager.default.contents(atPath: new))
      }
    }

    @Test func `a move refuses a place that has data, and then changes nothing`() async throws {
      let imported = try await Command.run(["import", "--data", data], input: "{\"a\":1}")
      #expect(imported.status == 0, "\(imported)")
      let database = try await TestDatabase()
      let nothing = try await migrate(from: database.url, to: folder.path + "/back")
      #expect(nothing.isSentence && nothing.errors.contains("no data"), "\(nothing)")
      try await migrate(from: data, to: database.url).expect(status: 0)
      let again = try await migrate(from: data, to: database.url)
      #expect(again.isSentence && again.errors.contains("already"), "\(again)")
      let onto = try await migrate(from: database.url, to: data)
      #expect(onto.isSentence && onto.errors.contains("not empty"), "\(onto)")
      for (from, to) in [
        (data, data), (database.url, database.url), (data + "/none", database.url),
      ] {
        try await migrate(from: from, to: to).expectSentence()
      }
      #expect(
        try await database.query("SELECT count(*) FROM canopy.heads WHERE namespace <> 'default'")
          == "0\n")
      let server = try await ServerProcess(data: data)
      let used = try await migrate(from: data, to: try await TestDatabase().url)
      #expect(used.isSentence && used.errors.contains("in use by"), "\(used)")
      #expect(try await server.terminate() == 0)
    }

    private func start(_ program: String, _ arguments: [String]) throws -> Process {
      let process = Process()
      process.executableURL = URL(fileURLWithPath: program)
      process.arguments = arguments
      process.environment = Command.base
      process.standardError = FileHandle.nullDevice
      process.standardOutput = FileHandle.nullDevice
      try process.run()
      return process
    }

    /// Locks a table of accounts, for which a move waits when it has copied the tree. Returns the process with the lock.
    private func lockAccounts(of database: TestDatabase) async throws -> Process {
      let holder = try start(
        TestDatabase.programs + "/psql",
        [
          "--dbname", database.url + "?target_session_attrs=read-write", "--command",
          "BEGIN; LOCK TABLE canopy.deleted_accounts; SELECT pg_sleep(600)",
        ])
      let locks = """
        SELECT count(*) FROM pg_locks JOIN pg_database ON pg_database.oid = database
        WHERE mode = 'AccessExclusiveLock' AND granted AND datname = current_database()
        """
      try await eventually { try await database.query(locks) != "0\n" }
      return holder
    }

    @Test func `a folder whose namespace is missing is not moved`() async throws {
      try await Command.run(["seed", "--data", data, Self.fixture]).expect(status: 0)
      try await Command.run(["namespace", "create", "shop", "--data", data]).expect(status: 0)
      let database = try await TestDatabase()
      let (path, moved) = (data + "/namespaces/shop", folder.path + "/moved")
      try FileManager.default.moveItem(atPath: path, toPath: moved)
      let ending = try await migrate(from: data, to: database.url)
      #expect(ending.isSentence && ending.errors.contains("\(path) is missing"), "\(ending)")
      try FileManager.default.moveItem(atPath: moved, toPath: path)
      try await migrate(from: data, to: database.url).expect(status: 0)
    }

    @Test func `a move to a folder that a signal ends leaves no folder`() async throws {
      try await Command.run(["seed", "--data", data, Self.fixture]).expect(status: 0)
      let database = try await TestDatabase()
      try await migrate(from: data, to: database.url).expect(status: 0)
      let holder = try await lockAccounts(of: database)
      let back = folder.path + "/back"
      let move = try start(Command.path, ["migrate", "--from", database.url, "--to", back])
      let filling = "\(back).moving-\(move.processIdentifier)"
      try await eventually {
        FileManager.default.fileExists(atPath: filling + "/canopy.sqlite")
      }
      kill(move.processIdentifier, SIGTERM)
      kill(holder.processIdentifier, SIGKILL)
      for process in [move, holder] { process.waitUntilExit() }
      #expect(move.terminationStatus == 128 + SIGTERM)
      #expect(try FileManager.default.contentsOfDirectory(atPath: folder.path) == ["data"])
    }

    @Test func `a move that is killed leaves nothing that a node or another move would see`()
      async throws
    {
      try await Command.run(["seed", "--data", data, Self.fixture]).expect(status: 0)
      let database = try await TestDatabase()
      try await Command.run(["namespace", "list", "--postgres", database.url]).expect(status: 0)
      let holder = try await lockAccounts(of: database)
      let move = try start(Command.path, ["migrate", "--from", data, "--to", database.url])
      try await eventually {
        try await database.query("SELECT count(*) FROM canopy.heads WHERE last > 0") == "1\n"
      }
      for process in [move, holder] {
        kill(process.processIdentifier, SIGKILL)
        process.waitUntilExit()
      }
      let served = "SELECT count(*) FROM canopy.heads WHERE namespace = 'default'"
      #expect(try await database.query(served) == "0\n")
      // Its lease ends before others remove its rows. The server ends the session of the lock when it notices.
      try await database.query("UPDATE canopy.nodes SET expires = '-infinity'")
      try await database.query(
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE query LIKE '%pg_sleep(600)'"
          + " AND pid <> pg_backend_pid() AND datname = current_database()")
      let moved = try await migrate(from: data, to: database.url)
      #expect(moved.status == 0, "\(moved)")
      #expect(
        try await database.query("SELECT DISTINCT namespace = 'default' FROM canopy.leaves")
          == "t\n")
    }
  }
#endif
