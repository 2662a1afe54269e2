import CanopyAccounts
import CanopyEngine
import CanopySession
import CanopyTesting
import CanopyTree
import Logging
import Testing

@testable import CanopyLineServer
@testable import CanopyWire

/// The administrator's verbs about data, rules, metrics and the log.
@Suite(.timeLimit(.minutes(20))) struct AdministrationTests {
  @Test(arguments: Depth.allCases)
  func `the verbs of the administrator are refused to everybody else`(_ depth: Depth) async throws {
    let lines = [
      "KEYS /posts", "RULES", "RULES built-in", "CHECKRULES built-in", "EXPLAIN null READ /",
      "USERS", "USER @ada", "DISABLE @ada", "ENABLE @ada", "SETPASSWORD @ada \"engine of 1843\"",
      "SESSIONS @ada", "ENDSESSIONS @ada", "METRICS", "LOG", "CLIENTS", "CLIENT 1", "ENDCLIENT 1",
      "NAMESPACES", "PASS", "ENDPASS 0123456789", "BACKUP", "BACKUPS", "RESETCODE @ada",
      "ADDUSER eve@example.org \"engine of 1843\" eve", "DELETEUSER @ada", "LOGLEVEL error",
    ]
    let verbs = Set(lines.map { $0.prefix { $0 != " " } }.map(String.init))
    #expect(verbs == Set(Command.all.filter { $0.group == .administration }.map(\.verb)))
    try await withServer(depth) { server in
      for client in [try await server.connect(), try await server.connect(as: "ada")] {
        for line in lines { try await client.expect(line, failsWith: "PERMISSION_DENIED") }
        try await client.expect("PING", "+\"PONG\"")
      }
    }
  }

  @Test func `a server without a data folder says how to make a backup`() async throws {
    try await withServer(.inProcess) { server in
      let client = try await server.connectAsAdministrator()
      for line in ["BACKUP", "BACKUPS"] {
        try await client.expect(line, failsWith: "BAD_REQUEST", "pg_dump")
      }
    }
  }

  @Test(arguments: Depth.allCases)
  func `KEYS has the children in pages, and the length of values that it cuts off`(
    _ depth: Depth
  ) async throws {
    try await withServer(depth) { server in
      let client = try await server.connectAsAdministrator()
      let long = String(repeating: "x", count: 201)
      try await client.value(
        #"SET /a {"b":{"c":1,"d":2},"e":true,"f":"\#(long)","g":{".value":-1.5,".priority":3}}"#)
      try await client.expect(
        "KEYS /a",
        #"+{"count":4,"children":[{"key":"b","children":2},{"key":"e","value":true},"#
          + #"{"key":"f","value":"\#(long.dropLast())","bytes":201},"#
          + #"{"key":"g","value":-1.5,"priority":3}],"more":false}"#)
      try await client.expect(
        #"KEYS /a {"limit":1}"#, #"+{"count":4,"children":[{"key":"b","children":2}],"more":true}"#)
      try await client.expect(
        #"KEYS /a {"limit":3,"after":"b"}"#, contains: #""priority":3}],"more":false}"#)
      try await client.expect(
        #"KEYS /a {"after":"z"}"#, #"+{"count":4,"children":[],"more":false}"#)
      try await client.expect(
        "KEYS /a/e", #"+{"count":0,"value":true,"children":[],"more":false}"#)
      try await client.expect("KEYS /x", #"+{"count":0,"value":null,"children":[],"more":false}"#)
      // At the bound a value is whole; a character that does not fit is left out.
      try await client.value(#"SET /t {"a":"\#(long.dropLast())","b":"\#(long.dropLast(2))é"}"#)
      try await client.expect(
        "KEYS /t",
        #"+{"count":2,"children":[{"key":"a","value":"\#(long.dropLast())"},"#
          + #"{"key":"b","value":"\#(long.dropLast(2))","bytes":201}],"more":false}"#)
    }
  }

  @Test func `a page of keys touches as many nodes at a small location as at a large one`()
    async throws
  {
    let operations = try await LineParts().operations
    let path = try Path("/a")
    func nodesTouched(children: Int) -> Int {
      let branch = Node(
        children: (0..<Int32(children)).map { (Key(index: $0), Node(children: [("a", Node("b"))])) }
      )
      let root = Node.absent.setting(branch, at: path)
      return WorkCounter.nodesTouched {
        _ = operations.read(.keys(path, KeysPage()), as: .administrator, in: root)
      }
    }
    let (few, many) = (nodesTouched(children: 1_000), nodesTouched(children: 100_000))
    #expect(many < 2 * few && few < 1_000, "\(few), \(many)")
  }

  @Test(arguments: Depth.allCases)
  func `EXPLAIN of a query names its index, and whether the rules declare it`(
    _ depth: Depth
  ) async throws {
    try await withServer(depth) { server in
      try await server.set(rules: #"{"rules":{"a":{".read":true,".indexOn":"n"}}}"#)
      let client = try await server.connectAsAdministrator()
      try await client.value(#"SET /a {"x":{"n":1,"m":1},"y":{"n":2,"m":2},"z":{"n":3}}"#)
      func plan(_ query: String) async throws -> JSONValue? {
        try await client.value("EXPLAIN null READ /a \(query)")["query"]
      }
      #expect(
        try await plan(#"{"orderBy":"n","startAt":2}"#)
          == JSONValue(
            json: #"{"order":"n","indexed":true,"declared":true,"children":3,"matches":2}"#))
      #expect(
        try await plan(#"{"orderBy":"m","limitToLast":2}"#)
          == JSONValue(
            json: #"{"order":"m","indexed":false,"declared":false,"children":3,"matches":null}"#))
      #expect(try await plan(#"{"orderBy":"$key"}"#)?["declared"] == .leaf(true))
      #expect(try await plan("")?["order"]?.string == "$priority")
      #expect(try await client.value("EXPLAIN null SET /a 1")["query"] == nil)
    }
  }

  @Test(arguments: Depth.allCases)
  func `CHECKRULES has the line and column of each problem, and changes nothing`(
    _ depth: Depth
  ) async throws {
    try await withServer(depth) { server in
      let client = try await server.connectAsAdministrator()
      let before = try await client.request("RULES")
      let valid = #"+{"valid":true,"problems":[],"omitted":0}"#
      try await client.expect("CHECKRULES built-in", valid)
      try await client.expect(#"CHECKRULES {"rules":{".read":true}}"#, valid)
      try await client.expect(#"CHECKRULES "// A comment\n{\"rules\":{}}""#, valid)
      let wrong = try await client.value(
        #"CHECKRULES "{\n \"rules\": {\".read\": \"tru\", \".write\": \"1\"}}""#)
      #expect(wrong["valid"] == .leaf(false))
      let problems = wrong["problems"]?.elements ?? []
      #expect(problems.count == 2)
      #expect(problems.allSatisfy { $0["line"] == .leaf(2) })
      #expect(problems.map { $0["rule"]?.string } == ["/.read", "/.write"])
      #expect(
        try await client.value(#"CHECKRULES "{""#)["problems"]?.elements?.first?["rule"] == .null)
      try await client.expect("CHECKRULES x", failsWith: "BAD_REQUEST", "usage: CHECKRULES")
      try await client.expect("RULES", before)
    }
  }

  @Test(arguments: Depth.allCases)
  func `METRICS has the numbers of the metrics`(_ depth: Depth) async throws {
    try await withServer(depth) { server in
      let client = try await server.connectAsAdministrator()
      for _ in 0..<3 { try await client.expect("PING", "+\"PONG\"") }
      let reply = try await client.value("METRICS")
      #expect(reply["time"] == .leaf(Node(server.parts.clock.now)))
      let requests = try #require(reply["metrics"]?["canopy_requests_total"])
      #expect(requests["type"]?.string == "counter")
      let ping = requests["series"]?.elements?.first { $0["labels"]?["verb"]?.string == "ping" }
      #expect(ping?["value"] == .leaf(3) && ping?["labels"]?["protocol"]?.string == "line")
      let times = try #require(reply["metrics"]?["canopy_request_seconds"])
      let bounds = times["bounds"]?.elements?.count ?? 0
      #expect(bounds > 2)
      for series in times["series"]?.elements ?? [] {
        #expect(series["counts"]?.elements?.count == bounds + 1)
        #expect(series["sum"] != nil && series["count"] != nil)
      }
    }
  }

  @Test(arguments: Depth.allCases)
  func `LOG has the last lines, and continues after a number`(_ depth: Depth) async throws {
    try await withServer(depth) { server in
      let logger = server.parts.keptLogger
      let time = server.parts.clock.now
      logger.info("one", metadata: ["a": "1", "token": "secret"])
      logger.warning("two")
      logger.debug("not kept")
      let client = try await server.connectAsAdministrator()
      let first =
        #"{"number":1,"time":\#(time),"level":"info","message":"one","metadata":{"a":"1","token":"(hidden)"}}"#
      let second = #"{"number":2,"time":\#(time),"level":"warning","message":"two","metadata":{}}"#
      try await client.expect("LOG", #"+{"lines":[\#(first),\#(second)],"last":2}"#)
      try await client.expect(#"LOG {"limit":1}"#, #"+{"lines":[\#(second)],"last":2}"#)
      try await client.expect(#"LOG {"level":"notice"}"#, #"+{"lines":[\#(second)],"last":2}"#)
      try await client.expect(#"LOG {"after":0,"limit":1}"#, #"+{"lines":[\#(first)],"last":1}"#)
      try await client.expect(#"LOG {"after":1}"#, #"+{"lines":[\#(second)],"last":2}"#)
      try await client.expect(#"LOG {"after":2}"#, #"+{"lines":[],"last":2}"#)
      // A number of the server before a restart.
      try await client.expect(#"LOG {"after":3}"#, #"+{"lines":[\#(first),\#(second)],"last":2}"#)
    }
  }
}
