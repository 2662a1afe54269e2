import CanopySession
import CanopySocial
import CanopyTesting
import CanopyTree
import Testing

@testable import CanopyLineServer

/// The bounds on the writes of users and addresses, on free space and on stored bytes, as clients see them.
@Suite(.timeLimit(.minutes(20))) struct QuotaTests {
  private static let openRules =
    #"{"rules":{".read":true,"$top":{".write":"newData.val() !== 'no'"}}}"#

  /// Runs a test with a server on which users are limited on this machine too.
  private func with(
    _ depth: Depth, writes: Int = 2, bytes: Int = 100_000, burst: Int = 2,
    _ body: (TestServer) async throws -> Void
  ) async throws {
    try await withServer(depth) {
      $0.limits.writesPerSecond = writes
      $0.limits.writeBytesPerSecond = bytes
      $0.limits.writeBurstSeconds = burst
      $0.quotas = WriteQuotas($0.limits, exemptsThisMachine: false)
    } _: { server in
      try await server.set(rules: Self.openRules)
      try await body(server)
    }
  }

  @Test(arguments: Depth.allCases)
  func `a user has a burst, and then an error with the time to wait, on all connections`(
    _ depth: Depth
  ) async throws {
    try await with(depth) { server in
      let ada = try await server.connect()
      let token = try await ada.text("token", TestServer.signUp("ada"))
      for number in 1...4 { try await ada.value("SET /n \(number)") }
      let refusal =
        "-RATE_LIMITED [1000 ms] you write more than this server takes from a user; try again in 1 second"
      try await ada.expect("SET /n 5", refusal)
      let other = try await server.connect()
      try await other.value("AUTH \(token)")
      try await other.expect("SET /n 6", refusal)
      try await ada.expect("GET /n", "+4")
      server.parts.clock.advance(999)
      try await other.expect("SET /n 7", contains: "[1 ms]")
      server.parts.clock.advance(1)
      try await ada.value("SET /n 8")
      try await other.value("SET /n 9")
      try await ada.expect("SET /n 10", failsWith: "RATE_LIMITED")
      let bob = try await server.connect(as: "bob")
      try await bob.value("SET /n 11")
      #expect(server.parts.operations.quotas?.refused.first?.count == 4)
    }
  }

  @Test(arguments: Depth.allCases)
  func `a write counts whatever its outcome is, and a refused one does not`(_ depth: Depth)
    async throws
  {
    try await with(depth) { server in
      let ada = try await server.connect(as: "ada")
      for _ in 0..<4 { try await ada.expect("SET /n \"no\"", failsWith: "PERMISSION_DENIED") }
      for _ in 0..<10 { try await ada.expect("SET /n 1", failsWith: "RATE_LIMITED") }
      server.parts.clock.advance(1_000)
      for _ in 0..<2 { try await ada.value("SET /n 1") }
    }
  }

  @Test(arguments: Depth.allCases)
  func `each kind of write counts once, and reads do not`(_ depth: Depth) async throws {
    try await with(depth, writes: 1, burst: 1) { server in
      let ada = try await server.connect(as: "ada")
      let id = try await ada.text("id", "POST title body")
      let lines = [
        "SET /a 1", "UPDATE / {\"a\":2,\"b\":3}", "PUSH /list 1", "REMOVE /b",
        "CAS /a wrong 3", "ONCE 0123456789abcdef 1 0 SET /a 4", "POST title body",
        "EDIT \(id) title other", "STAR \(id)", "COMMENT \(id) text", "RENAME countess",
        "ONDISCONNECT SET /d 1", "ONDISCONNECT UPDATE / {\"d\":2}", "ONDISCONNECT CANCEL /d",
        "DELETE \(id)",
      ]
      for line in lines {
        server.parts.clock.advance(1_000)
        try await ada.value(line)
        try await ada.expect("SET /z 1", failsWith: "RATE_LIMITED")
      }
      server.parts.clock.advance(1_000)
      for line in ["GET /a", "RECENT", "PING", "HELLO"] {
        try await ada.value(line)
      }
      try await ada.value("SET /z 1")
    }
  }

  @Test(arguments: Depth.allCases)
  func `an on-disconnect write counts when it is set, and not when it is made`(_ depth: Depth)
    async throws
  {
    try await with(depth, writes: 1, burst: 1) { server in
      let ada = try await server.connect()
      let token = try await ada.text("token", TestServer.signUp("ada"))
      try await ada.value("ONDISCONNECT SET /gone 1")
      try await ada.expect("ONDISCONNECT SET /gone 2", failsWith: "RATE_LIMITED")
      server.parts.clock.advance(1_000)
      await ada.disconnect()
      try await server.eventually { server.root.child("gone") == 1 }
      let again = try await server.connect()
      try await again.value("AUTH \(token)")
      try await again.value("SET /n 1")
      try await again.expect("SET /n 2", failsWith: "RATE_LIMITED")
    }
  }

  @Test(arguments: Depth.allCases)
  func `the bytes of a write count, also if they exceed the bucket`(_ depth: Depth) async throws {
    try await with(depth, writes: 100, bytes: 10_000) { server in
      let ada = try await server.connect(as: "ada")
      // A value of this size is measured on another thread.
      for (count, wait) in [(30_000, 1_001), (200_000, 18_001)] {
        let text = String(repeating: "x", count: count)
        try await ada.value("SET /n \"\(text)\"")
        try await ada.expect("SET /n 1", contains: "[\(wait) ms]")
        server.parts.clock.advance(Int64(wait))
        try await ada.value("SET /n 1")
        server.parts.clock.advance(100_000)
      }
    }
  }

  @Test(arguments: Depth.allCases)
  func `the cancellation of each location of an on-disconnect write counts`(_ depth: Depth)
    async throws
  {
    try await with(depth) { server in
      let ada = try await server.connect(as: "ada")
      let places = (0..<8).map { "\"k\($0)\":1" }.joined(separator: ",")
      try await ada.value("ONDISCONNECT UPDATE /d {\(places)}")
      for number in 0..<3 { try await ada.value("ONDISCONNECT CANCEL /d/k\(number)") }
      try await ada.expect("ONDISCONNECT CANCEL /d/k3", failsWith: "RATE_LIMITED")
      server.parts.clock.advance(1_000)
      try await ada.value("ONDISCONNECT CANCEL /d")
    }
  }

  @Test(arguments: Depth.allCases)
  func `the priorities above a place count with each write there`(_ depth: Depth) async throws {
    try await with(depth, writes: 100, bytes: 10_000) { server in
      let keys = (0..<30).map { "k\($0)" }
      let priority = String(repeating: "p", count: 250)
      let value = keys.reversed().reduce("1") { value, key in
        "{\".priority\":\"\(priority)\",\"\(key)\":\(value)}"
      }
      let administrator = try await server.connectAsAdministrator()
      try await administrator.value("SET /top \(value)")
      let path = "/top/\(keys.joined(separator: "/"))"
      // 30 priorities of 250 bytes, each with its path and the mark of a priority: about 10 kB.
      for (number, line) in [
        "SET \(path) 2", "PUSH \(path.dropLast(4)) 1", "UPDATE \(path.dropLast(4)) {\"k29\":3}",
        "ONDISCONNECT SET \(path) 4",
      ].enumerated() {
        let user = try await server.connect(as: "user\(number)")
        for _ in 0..<2 { try await user.value(line) }
        _ = try await user.request(line)
        try await user.expect(line, failsWith: "RATE_LIMITED")
      }
    }
  }

  @Test(arguments: Depth.allCases)
  func `the path of an update counts for each location, and long paths of many leaves count`(
    _ depth: Depth
  ) async throws {
    try await with(depth, writes: 100, bytes: 10_000) { server in
      let key = String(repeating: "k", count: 700)
      let path = "/\(key)/\(key)/\(key)"
      let places = (0..<20).map { "\"\($0)\":1" }.joined(separator: ",")
      let leaves = Array(repeating: "true", count: 400).joined(separator: ",")
      // The paths of 400 leaves have 840 kB, an eighth of which counts.
      for (number, (line, seconds)) in [
        ("SET \(path) 1", 0 as Int64), ("UPDATE \(path) {\(places)}", 2),
        ("SET \(path) [\(leaves)]", 8), ("PUSH \(path) [\(leaves)]", 8),
      ].enumerated() {
        let user = try await server.connect(as: "user\(number)")
        try await user.value(line)
        if seconds > 0 {
          try await user.expect("SET /n 1", failsWith: "RATE_LIMITED")
          server.parts.clock.advance(1_000 * seconds)
          try await user.expect("SET /n 1", failsWith: "RATE_LIMITED")
          server.parts.clock.advance(1_000)
        }
        try await user.value("SET /n 1")
      }
    }
  }

  @Test(arguments: Depth.allCases)
  func `the administrator is exempt, and so is this machine by default`(_ depth: Depth)
    async throws
  {
    try await withServer(depth) {
      $0.limits.writesPerSecond = 1
      $0.limits.writeBurstSeconds = 1
      $0.quotas = WriteQuotas($0.limits)
    } _: { server in
      try await server.set(rules: Self.openRules)
      let administrator = try await server.connectAsAdministrator()
      for number in 0..<5 { try await administrator.value("SET /n \(number)") }
      let ada = try await server.connect(as: "ada")
      try await ada.value("SET /n 1")
      switch depth {
      case .inProcess: try await ada.expect("SET /n 2", failsWith: "RATE_LIMITED")
      case .socket: for number in 0..<5 { try await ada.value("SET /n \(number)") }
      }
    }
  }

  @Test func `all clients of an address share a bucket, also those without a login`() async throws {
    try await withServer(.inProcess) {
      $0.limits.writesPerSecondPerAddress = 2
      $0.limits.writeBurstSeconds = 2
      $0.quotas = WriteQuotas($0.limits)
    } _: { server in
      try await server.set(rules: Self.openRules)
      let clients = [
        try await server.connect(as: "ada"), try await server.connect(as: "bob"),
        try await server.connect(), try await server.connect(),
      ]
      for client in clients { try await client.value("SET /n 1") }
      for client in clients {
        try await client.expect("SET /n 1", contains: "from your address")
      }
    }
  }

  @Test(arguments: Depth.allCases)
  func `without space only removals by the administrator are made, and reads go on`(
    _ depth: Depth
  ) async throws {
    let space = FreeSpace(bytesMin: 800)
    try await withServer(depth) {
      $0.freeSpace = space
      $0.quotas = WriteQuotas($0.limits)
    } _: { server in
      let ada = try await server.connect(as: "ada")
      let id = try await ada.text("id", "POST title body")
      try await server.set("/a", "{\"b\":1,\"c\":2}")
      let administrator = try await server.connectAsAdministrator()
      let listener = try await server.connectAsAdministrator()
      try await listener.value("LISTEN /a/b {\"events\":\"value\"}")
      #expect(try await listener.readLine().contains("\"data\":1"))
      space.note(799)
      let refusal =
        "-UNAVAILABLE [5000 ms] the disk of the server is almost full, so the write was not made; reads go on, "
        + "try again later, or tell the administrator to free space"
      for line in [
        "POST t b", "STAR \(id)", "DELETE \(id)", "SET /x 1", "ONDISCONNECT SET /x 1",
        "ONCE 0123456789abcdef 1 0 SET /x 1",
      ] {
        try await ada.expect(line, refusal)
      }
      for line in ["SET /x 1", "PUSH /x 1", "UPDATE /a {\"b\":null,\"d\":1}"] {
        try await administrator.expect(line, refusal)
      }
      try await ada.value("ONDISCONNECT CANCEL /x")
      try await ada.value("SHOW \(id)")
      try await administrator.value("REMOVE /a/b")
      #expect(try await listener.readLine().contains("\"data\":null"))
      try await administrator.value("UPDATE /a {\"c\":null}")
      space.note(899)
      try await ada.expect("STAR \(id)", refusal)
      space.note(900)
      try await ada.value("STAR \(id)")
      // The user is exempt from the quotas, and yet a later write does not overtake the refused one.
      let once = "ONCE 0123456789abcdef"
      try await ada.expect("\(once) 2 0 SET /x 2", failsWith: "RATE_LIMITED", "earlier write")
      for number in 1...2 {
        try await ada.expect("\(once) \(number) 0 SET /x 1", failsWith: "PERMISSION_DENIED")
      }
      #expect(space.refused == 10)
    }
  }

  @Test(arguments: Depth.allCases)
  func `the posts and comments of a user have a bound on their bytes`(_ depth: Depth)
    async throws
  {
    // The texts of a post and 256 bytes.
    try await withServer(depth) {
      $0.storageBytesMax = 1_000
    } _: { server in
      let ada = try await Person(server, "ada")
      let body = String(repeating: "x", count: 743)
      let id = try await ada.client.text("id", "POST t \(body)")
      #expect(server.parts.operations.storage?.bytes(of: try Key(ada.uid)) == 1_000)
      for line in [
        "COMMENT \(id) a", "POST t b", "EDIT \(id) t \(body)y",
        "PUSH /post-comments/\(id) \(ada.comment())",
      ] {
        try await ada.client.expect(line, failsWith: "QUOTA_EXCEEDED", "1000 bytes")
      }
      try await ada.client.value("STAR \(id)")
      try await ada.client.value("EDIT \(id) u \(body)")
      let bob = try await Person(server, "bob")
      try await bob.client.value("COMMENT \(id) a")
      try await ada.client.value("EDIT \(id) t short")
      let comment = try await ada.client.text("id", "COMMENT \(id) text")
      #expect(server.parts.operations.storage?.bytes(of: try Key(ada.uid)) == 262 + 260)
      try await ada.client.value("UNCOMMENT \(id) \(comment)")
      try await ada.client.value("DELETE \(id)")
      // The id stays reserved for a while, and counts.
      #expect(server.parts.operations.storage?.bytes(of: try Key(ada.uid)) == 256)
      #expect(server.parts.operations.storage?.bytes(of: try Key(bob.uid)) == 0)
      #expect(server.parts.operations.storage?.refused == 4)
    }
  }

  @Test(arguments: Depth.allCases)
  func
    `at the bound on the tree only writes that make it larger are refused, but the administrator's`(
      _ depth: Depth
    ) async throws
  {
    try await withServer(depth) {
      $0.limits.treeMax = 200_000
      $0.quotas = WriteQuotas($0.limits)
    } _: { server in
      let tree = try #require(server.parts.operations.tree)
      let ada = try await server.connect(as: "ada")
      let ids = [
        try await ada.text("id", "POST title body"), try await ada.text("id", "POST title body"),
      ]
      let comment = try await ada.text("id", "COMMENT \(ids[0]) text")
      try await ada.value("STAR \(ids[0])")
      let administrator = try await server.connectAsAdministrator()
      try await administrator.value("SET /big \"\(String(repeating: "x", count: 100_000))\"")
      try await ada.value("STAR \(ids[1])")
      TreeCount.finish()
      #expect(!tree.isFull && tree.bytes > 100_000)
      // The administrator goes on beyond the bound.
      try await administrator.value("SET /more \"\(String(repeating: "x", count: 100_000))\"")
      TreeCount.finish()
      #expect(tree.isFull && tree.bytes >= 200_000)
      let refusal =
        "-UNAVAILABLE [5000 ms] the data of this server has reached its limit, so the write was not made; "
        + "reads and removals still work: try again later, or tell the administrator"
      for line in [
        "POST t b", "COMMENT \(ids[1]) text", "EDIT \(ids[1]) title longer", "RENAME countess",
        "SET /x 1", "PUSH /x 1", "UPDATE / {\"x\":null,\"y\":1}", "ONDISCONNECT SET /x 1",
        "ONCE 0123456789abcdef 1 0 SET /x 1", "CAS /x null_etag 1",
      ] {
        try await ada.expect(line, refusal)
      }
      // The stars go off, and not on again.
      try await ada.value("STAR \(ids[0])")
      try await ada.expect("STAR \(ids[0])", refusal)
      try await ada.value("EDIT \(ids[1]) title text")
      try await ada.value("UNCOMMENT \(ids[0]) \(comment)")
      try await ada.value("DELETE \(ids[0])")
      try await ada.value("SHOW \(ids[1])")
      // Removals come as far as the rules.
      for line in ["SET /x null", "ONDISCONNECT SET /x null"] {
        try await ada.expect(line, failsWith: "PERMISSION_DENIED")
      }
      #expect(tree.refused == 11)
      TreeCount.finish()
      // A little less than the bound is not enough: a 64th must be free.
      let excess = tree.bytes - 200_000
      try await administrator.value(
        "SET /more \"\(String(repeating: "x", count: 99_000 - excess))\"")
      TreeCount.finish()
      #expect(tree.isFull && tree.bytes < 200_000)
      try await ada.expect("POST t b", refusal)
      try await administrator.value("REMOVE /more")
      TreeCount.finish()
      #expect(!tree.isFull)
      for line in ["STAR \(ids[1])", "STAR \(ids[1])", "POST t b"] {
        try await ada.value(line)
        TreeCount.finish()
      }
      let lines = server.parts.log.lines
      #expect(lines.count { $0.contains("the tree has reached its bound") } == 1)
      #expect(lines.count { $0.contains("the tree is below its bound again") } == 1)
    }
  }

  @Test(arguments: Depth.allCases)
  func `writes sent ahead that replace the same value do not pass the bound on the tree together`(
    _ depth: Depth
  ) async throws {
    try await withServer(depth) {
      $0.limits.treeMax = 400_000
    } _: { server in
      try await server.set(rules: Self.openRules)
      let client = try await server.connect(as: "ada")
      let text = String(repeating: "x", count: 30_000)
      try await client.value("SET /old \"\(text)\"")
      let lines = (0..<30).map { "UPDATE / {\"old\":null,\"new\($0)\":\"\(text)\"}\n" }
      try await client.send(lines.joined())
      let replies = try await client.readLines(lines.count)
      var refused = 0
      for (line, reply) in zip(lines, replies) where !reply.hasPrefix("+") {
        refused += 1
        expectReply(
          reply, to: line, hasPrefix: "-UNAVAILABLE [5000 ms] the data of this server has")
      }
      #expect(refused > 10 && refused < 30)
      var count = MemoryCount()
      count.add(server.root)
      #expect(count.bytes <= 400_000 && count.bytes > 300_000)
      // A write that makes the tree smaller is made.
      for number in 0..<2 { try await client.value("SET /new\(number) \"short\"") }
      try await client.value("REMOVE /new2")
    }
  }

  @Test(arguments: Depth.allCases)
  func `one write of small values below an index at wildcards does not pass the bound on the tree`(
    _ depth: Depth
  ) async throws {
    try await withServer(depth) {
      $0.limits.treeMax = 1_000_000
    } _: { server in
      try await server.set(
        rules: """
          {"rules":{"list":{".read":true,".write":true,"$g":{"$r":{".indexOn":["a","b","c"]}}}}}
          """)
      let client = try await server.connect()
      func members(_ count: Int) -> String {
        "{" + (0..<count).map { "\"z\($0)\":{\"a\":1}" }.joined(separator: ",") + "}"
      }
      try await client.value("SET /list/a \(members(100))")
      try await client.expect("SET /list/b \(members(6_000))", failsWith: "UNAVAILABLE")
      var count = MemoryCount()
      count.add(server.root)
      let added = server.root.at(try Path("list/b"))
      #expect(count.bytes < 1_000_000 && added.isAbsent)
    }
  }

  @Test func `one address adds only so many bytes to the tree in a day`() async throws {
    try await withServer(.inProcess) {
      $0.limits.treeBytesPerDayPerAddress = 86_400
      $0.quotas = WriteQuotas($0.limits)
    } _: { server in
      try await server.set(rules: Self.openRules)
      let clients = [try await server.connect(as: "ada"), try await server.connect()]
      let text = String(repeating: "x", count: 40_000)
      for number in 0...2 { try await clients[number % 2].value("SET /n\(number) \"\(text)\"") }
      for client in clients {
        try await client.expect("SET /n9 1", failsWith: "RATE_LIMITED", "in a day")
        try await client.value("SET /n1 \"\(text.dropLast())\"")
        try await client.value("REMOVE /n2")
      }
      server.parts.clock.advance(86_400_000)
      try await clients[0].value("SET /n2 1")
    }
  }
}
