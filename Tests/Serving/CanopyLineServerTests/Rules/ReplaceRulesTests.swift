import CanopyEngine
import CanopyRules
import CanopyTesting
import CanopyTree
import Foundation
import Testing

@testable import CanopyLineServer
@testable import CanopySession

/// RULES and EXPLAIN: replacing rules while the server runs, and explaining their verdicts.
@Suite(.timeLimit(.minutes(20))) struct ReplaceRulesTests {
  private func rules(read: String, write: String = "true", indexOn: String = "[]") -> String {
    "{\"rules\":{\"a\":{\".read\":\(quoted(read)),\".write\":\(quoted(write)),\".indexOn\":\(indexOn)}}}"
  }

  @Test(arguments: Depth.allCases)
  func `the administrator reads and replaces the rules`(_ depth: Depth) async throws {
    try await withServer(depth) { server in
      let administrator = try await server.connectAsAdministrator()
      let client = try await server.connect()
      let builtIn = try await administrator.value("RULES")
      #expect(builtIn["builtIn"] == .leaf(true))
      #expect(builtIn["text"]?.string == BuiltInRules.text)
      try await client.expect("GET /a", failsWith: "PERMISSION_DENIED")
      let text = "// A comment, é\n\t" + rules(read: "true")
      try await administrator.value("RULES \(quoted(text))")
      let now = try await administrator.value("RULES")
      #expect(now["builtIn"] == .leaf(false))
      #expect(now["text"]?.string == text)
      try await client.expect("GET /a", "+null")
      try await client.expect("GET /posts", failsWith: "PERMISSION_DENIED")
      // As an object, without quotes.
      try await administrator.value("RULES \(rules(read: "auth != null"))")
      try await client.expect("GET /a", failsWith: "PERMISSION_DENIED")
      try await administrator.value("RULES built-in")
      #expect(try await administrator.value("RULES") == builtIn)
      try await client.expect("GET /posts", "+null")
    }
  }

  @Test(arguments: Depth.allCases)
  func `invalid rules change nothing, and the error has the line and column`(
    _ depth: Depth
  ) async throws {
    try await withServer(depth) { server in
      let administrator = try await server.connectAsAdministrator()
      let before = try await administrator.request("RULES")
      let deep = String(repeating: "(", count: 5_000)
      let wide = (0..<400).map { "\"k\($0)\":{\".foo\":1}" }.joined(separator: ",")
      let nested = String(repeating: "{\"a\":", count: 10_000)
      for (text, part) in [
        ("", ":1:1: "), ("{", ":1:2: "), ("[]", "\"rules\""), ("{\"rules\":3}", ":1:10: "),
        ("{\n \"rules\": {\".read\": \"auth.uid == \"}}", ":2:"),
        ("{\"rules\":{\".read\":\"\(deep)\"}}", ":1:"), ("{\"rules\":{\(wide)}}", "; and 397 more"),
        (nested, ":1:"), ("{\"rules\":{\".read\":\"1\"}}", "bool"),
        ("{\"rules\":{\".read\":\"data.val().matches(/(a*)*b{1001}/)\"}}", ":1:"),
      ] {
        try await administrator.expect("RULES \(quoted(text))", failsWith: "INVALID_DATA", part)
      }
      for (line, code) in [
        ("RULES nonsense", "BAD_REQUEST"), ("RULES [1]", "BAD_REQUEST"),
        ("RULES {\"rules\":{}} x", "BAD_REQUEST"), ("RULES \"unfinished", "INVALID_DATA"),
      ] { try await administrator.expect(line, failsWith: code) }
      try await administrator.expect("RULES", before)
    }
  }

  @Test(arguments: Depth.allCases)
  func `rules on a line that is too long end the connection, like every such line`(
    _ depth: Depth
  ) async throws {
    try await withServer(depth) {
      $0.limits.lineBytesMax = 1_000
    } _: { server in
      let administrator = try await server.connectAsAdministrator()
      let fits = "{\"rules\":{}}"
      let padding = String(repeating: " ", count: 1_000 - fits.utf8.count - "RULES ".count)
      try await administrator.value("RULES " + fits + padding)
      try await administrator.expect("RULES " + fits + padding + " ", failsWith: "TOO_LARGE")
      try await administrator.expectClosed()
    }
  }

  @Test(arguments: Depth.allCases)
  func `every listener is authorized again before the reply`(_ depth: Depth) async throws {
    try await withServer(depth) { server in
      try await server.set(rules: rules(read: "true"))
      let (reader, administrator) = (
        try await server.connect(as: "ada"), try await server.connectAsAdministrator()
      )
      _ = try await reader.begin("LISTEN /a")
      _ = try await reader.begin("WATCH RECENT")
      _ = try await administrator.begin("LISTEN /a")
      try await administrator.value("RULES \(rules(read: "auth != null"))")
      #expect(try await reader.arrived().isEmpty)
      let change = try await administrator.events(until: "RULES \(rules(read: "false"))")
      #expect(change.events.isEmpty, "the administrator goes on")
      let write = try await administrator.events(until: "SET /a/x 1")
      #expect(write.events.map(\.brief) == ["added x"])
      #expect(try await reader.arrived() == ["cancel PERMISSION_DENIED"])
      #expect(server.parts.engine.listenerCounts.listeners == 2)
    }
  }

  @Test(arguments: Depth.allCases)
  func `the indexes of new rules cover existing data when the rules take effect`(
    _ depth: Depth
  ) async throws {
    try await withServer(depth) { server in
      let administrator = try await server.connectAsAdministrator()
      let items = (0..<1_000).map { "\"k\($0)\":{\"n\":\(1_000 - $0)}" }.joined(separator: ",")
      try await administrator.value("SET /a {\(items)}")
      try await administrator.value(
        "RULES \(rules(read: "true", indexOn: "[\"n\",\".value\"]"))")
      let client = try await server.connect()
      let node = server.root.at(try Path("a"))
      #expect(Query.isIndexed(by: .child(try Path("n")), node))
      #expect(Query.isIndexed(by: .value, node))
      try await client.expect(
        "GET /a {\"orderBy\":\"n\",\"limitToFirst\":1}", "+{\"k999\":{\"n\":1}}")
      #expect(server.root.brokenInvariant() == nil)
    }
  }

  @Test(arguments: Depth.allCases)
  func `no listener gets a forbidden event while rules are replaced and others write`(
    _ depth: Depth
  ) async throws {
    try await withServer(depth) { server in
      // A value shows the rules under which it was written: odd values only with the gate closed.
      func alternate(isOpen: Bool) -> String {
        rules(
          read: isOpen ? "true" : "auth != null",
          write: "newData.child('n').val() % 2 === \(isOpen ? 0 : 1)")
      }
      try await server.set(rules: alternate(isOpen: true))
      let administrator = try await server.connectAsAdministrator()
      var readers: [any LineClient] = []
      for index in 0..<100 {
        let reader = try await server.connect()
        if index < 10 { try await reader.value(TestServer.signUp("user\(index)")) }
        // The anonymous ones have different queries, and so verdicts of their own.
        let limit = index < 10 ? "" : ",\"limitToLast\":\(index)"
        _ = try await reader.begin("LISTEN /a {\"events\":\"value\"\(limit)}")
        readers.append(reader)
      }
      let writers = [
        try await server.connect(), try await server.connect(), try await server.connect(),
      ]
      try await withThrowingTaskGroup(of: Void.self) { group in
        for (number, writer) in writers.enumerated() {
          group.addTask {
            for i in 0..<200 {
              // Each request may be refused, and no other error is possible.
              let request = "SET /a {\"n\":\(i),\"by\":\(number)}"
              let reply = try await writer.request(request)
              guard reply.first != "+" else { continue }
              expectReply(reply, to: request, failsWith: "PERMISSION_DENIED")
            }
          }
        }
        group.addTask {
          for round in 0..<21 {
            try await administrator.value("RULES \(alternate(isOpen: round % 2 == 1))")
          }
        }
        try await group.waitForAll()
      }
      // The first replacement cancelled the anonymous listeners. None of them got an odd value, which
      // could be written only afterwards.
      for (index, reader) in readers.enumerated() {
        let events = try await reader.events(until: "PING").events
        let values = events.compactMap { $0.data?["n"]?.integer }
        if index < 10 {
          #expect(events.allSatisfy { $0.name == "value" })
        } else {
          #expect(events.last?.brief == "cancel PERMISSION_DENIED")
          #expect(events.count { $0.name == "cancel" } == 1)
          #expect(values.allSatisfy { $0 % 2 == 0 })
        }
      }
      // The rules of the last round allow odd values.
      try await writers[0].expectSuccess(of: "SET /a {\"n\":1001}")
      for reader in readers.prefix(10) {
        #expect(try await reader.events(until: "PING").events.last?.data?["n"]?.integer == 1_001)
      }
      #expect(server.parts.engine.listenerCounts == (10, 1))
      #expect(!server.parts.log.lines.contains { $0.hasPrefix("error") })
    }
  }

  @Test(arguments: Depth.allCases)
  func `concurrent replacements of the rules take effect one after the other`(
    _ depth: Depth
  ) async throws {
    let folder = try TemporaryFolder()
    try await withServer(depth, { $0.rulesFolder = folder.path }) { server in
      let texts = (0..<8).map { rules(read: "\($0) === 0") }
      try await withThrowingTaskGroup(of: Void.self) { group in
        for text in texts {
          let client = try await server.connectAsAdministrator()
          group.addTask { try await client.value("RULES \(quoted(text))") }
        }
        try await group.waitForAll()
      }
      let kept = try RulesKeeper(folder: folder.path).current.text
      #expect(texts.contains(kept))
      #expect(server.parts.rules.current.text == kept)
    }
  }

  @Test func `rules are stored, and rules that cannot be stored do not take effect`() async throws {
    let folder = try TemporaryFolder()
    let text = rules(read: "true")
    try await withServer(.inProcess, { $0.rulesFolder = folder.path }) { server in
      try await server.set(rules: text)
      #expect(try folder.files() == ["rules.json"])
      #expect(try RulesKeeper(folder: folder.path).current.text == text)
      // A folder has the name of the file, so the file cannot be written.
      try FileManager.default.createDirectory(
        atPath: folder.path + "/rules.json.new", withIntermediateDirectories: false)
      let administrator = try await server.connectAsAdministrator()
      try await administrator.expect(
        "RULES \(rules(read: "false"))", hasPrefix: "-UNAVAILABLE the rules are as they were: ")
      #expect(server.parts.rules.current.text == text)
      #expect(try RulesKeeper(folder: folder.path).current.text == text)
      try await administrator.value("RULES built-in")
      #expect(try RulesKeeper(folder: folder.path).current.isBuiltIn)
      #expect(try folder.files() == ["rules.json.new"])
    }
  }

  @Test func `the text of the built-in rules counts as the built-in rules`() async throws {
    let folder = try TemporaryFolder()
    try await withServer(.inProcess, { $0.rulesFolder = folder.path }) { server in
      try await server.set(rules: rules(read: "true"))
      #expect(!server.parts.rules.current.isBuiltIn)
      try await server.set(rules: BuiltInRules.text)
      #expect(server.parts.rules.current.isBuiltIn)
      #expect(try folder.files() == [])
      let ada = try await Person(server, "ada")
      let id = RawWriteTests.id("p")
      try await ada.expectAllowed("SET /posts/\(id) \(ada.post())", server)
      #expect(!server.root.at(try Path("user-posts/\(ada.uid)/\(id)")).isAbsent)
    }
    try Data(BuiltInRules.text.utf8).write(to: URL(filePath: folder.path + "/rules.json"))
    #expect(try RulesKeeper(folder: folder.path).current.isBuiltIn)
    try Data((BuiltInRules.text + "\n").utf8).write(to: URL(filePath: folder.path + "/rules.json"))
    #expect(try !RulesKeeper(folder: folder.path).current.isBuiltIn)
  }

  @Test func `an unusable rules file is an error with its reason`() throws {
    let folder = try TemporaryFolder()
    let file = folder.path + "/rules.json"
    #expect(try RulesKeeper(folder: folder.path).current.isBuiltIn)
    #expect(try RulesKeeper(folder: folder.path + "/missing").current.isBuiltIn)
    try Data("{\"rules\":\n{\".read\":\"tru\"}}".utf8).write(to: URL(filePath: file))
    let error = #expect(throws: RulesError.self) { try RulesKeeper(folder: folder.path) }
    #expect(error?.description.hasPrefix("\(file):2:11: /.read: ") == true)
    try Data([0xFF, 0xFE]).write(to: URL(filePath: file))
    #expect(throws: RulesError.self) { try RulesKeeper(folder: folder.path) }
    try Data(repeating: UInt8(ascii: " "), count: 20_000_000).write(to: URL(filePath: file))
    #expect(throws: RulesError.self) { try RulesKeeper(folder: folder.path) }
    try FileManager.default.removeItem(atPath: file)
    try FileManager.default.createDirectory(atPath: file, withIntermediateDirectories: false)
    #expect(throws: RulesFileError.self) { try RulesKeeper(folder: folder.path) }
    try FileManager.default.removeItem(atPath: file)
    let target = folder.path + "/elsewhere.json"
    try FileManager.default.createSymbolicLink(atPath: file, withDestinationPath: target)
    #expect(throws: RulesFileError.self) { try RulesKeeper(folder: folder.path) }
    try Data(rules(read: "true").utf8).write(to: URL(filePath: target))
    #expect(try RulesKeeper(folder: folder.path).current.text == rules(read: "true"))
  }

  @Test(arguments: Depth.allCases)
  func `EXPLAIN gives the verdict of the rules and its reasons, and changes nothing`(
    _ depth: Depth
  ) async throws {
    try await withServer(depth) { server in
      let ada = try await server.connect(as: "ada")
      let uid = try await ada.text("uid", "WHOAMI")
      try await server.set(
        rules: """
          {"rules":{"a":{
            ".read":"auth.token.email === 'ada@example.org'",
            ".write":"auth.uid === data.child('by').val() || !data.exists()",
            ".validate":"newData.hasChild('by')"}}}
          """)
      try await server.set("/a", "{\"by\":\"eve\"}")
      let before = server.root
      let administrator = try await server.connectAsAdministrator()
      for who in [uid, "@ada", "@ADA", "{\"token\":{\"email\":\"ada@example.org\"}}"] {
        let allowed = try await administrator.value("EXPLAIN \(who) READ /a {\"limitToFirst\":1}")
        #expect(allowed["allowed"] == .leaf(true), "\(who)")
      }
      try await administrator.expect(
        "EXPLAIN null READ /a",
        "+{\"allowed\":false,\"reason\":\"no .read rule from the root down to /a holds\",\"steps\":"
          + "[{\"rule\":\"/a/.read\",\"line\":2,\"at\":\"/a\",\"outcome\":\"false\",\"parts\":"
          + "[[\"auth.token.email\",\"null\"],[\"auth.token.email === 'ada@example.org'\",\"false\"]]}],"
          + "\"query\":{\"order\":\"$priority\",\"indexed\":true,\"declared\":true,\"children\":1,\"matches\":1}}"
      )
      for (line, isAllowed, rule) in [
        ("EXPLAIN @ada SET /a {\"by\":1}", false, "/a/.validate"),
        ("EXPLAIN {\"uid\":\"eve\"} SET /a {\"by\":1}", true, "/a/.validate"),
        ("EXPLAIN {\"uid\":\"eve\"} UPDATE /a {\"by\":null,\"x\":1}", false, "/a/.validate"),
        ("EXPLAIN {\"uid\":\"eve\"} REMOVE /a", true, "/a/.write"),
        ("EXPLAIN {} set /b/c 1", false, ""),
      ] {
        let value = try await administrator.value(line)
        #expect(value["allowed"] == .leaf(Node(isAllowed)), "\(line)")
        #expect(value["steps"]?.elements?.last?["rule"]?.string ?? "" == rule, "\(line)")
      }
      for (line, code) in [
        ("EXPLAIN @nobody READ /a", "NOT_FOUND"), ("EXPLAIN me READ /a", "UNAUTHENTICATED"),
        ("EXPLAIN null READ /a 5", "BAD_REQUEST"), ("EXPLAIN null SET /a", "BAD_REQUEST"),
        ("EXPLAIN null REMOVE /a 1", "BAD_REQUEST"), ("EXPLAIN null DROP /a", "BAD_REQUEST"),
        ("EXPLAIN null SET a#b 1", "INVALID_PATH"),
        ("EXPLAIN {\"uid\":{\".sv\":\"timestamp\"}} READ /a", "INVALID_DATA"),
        ("EXPLAIN null UPDATE /a {\"b\":1,\"b/c\":2}", "INVALID_DATA"),
      ] { try await administrator.expect(line, failsWith: code) }
      #expect(server.root == before)
      try await ada.expect("EXPLAIN null READ /a", failsWith: "PERMISSION_DENIED")
    }
  }
}
