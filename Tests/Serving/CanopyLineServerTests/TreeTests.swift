import CanopyTesting
import CanopyTree
import Testing

/// The verbs of the tree, for the administrator.
@Suite(.timeLimit(.minutes(20))) struct TreeTests {
  @Test(arguments: Depth.allCases)
  func `values are set, read, updated and removed`(_ depth: Depth) async throws {
    try await withServer(depth) { server in
      let client = try await server.connectAsAdministrator()
      let first = try #require(
        try await client.value("SET /a {\"x\":1,\"y\":[true,\"é\"]}")["seq"]?.integer)
      try await client.expect("GET /a", "+{\"x\":1,\"y\":[true,\"é\"]}")
      try await client.expect("GET \"/a/y/1\"", "+\"é\"")
      try await client.expect("GET /nothing", "+null")
      try await client.expect(
        "UPDATE /a {\"x\":null,\"z/deep\":1.5,\"y/0\":false}", "+{\"seq\":\(first + 1)}")
      try await client.expect("GET /a", "+{\"y\":[false,\"é\"],\"z\":{\"deep\":1.5}}")
      try await client.expect("UPDATE /a {\"y\":1,\"y/0\":2}", failsWith: "INVALID_DATA")
      try await client.expect("COUNT /a", "+2")
      try await client.expect("COUNT /a/z/deep", "+0")
      try await client.expect("REMOVE /a/y", "+{\"seq\":\(first + 2)}")
      try await client.expect("SET /a/z {}", "+{\"seq\":\(first + 3)}")
      try await client.expect("GET /a", "+null")
      let pushed = try await client.value("PUSH /list {\"n\":1}")
      let key = try #require(pushed["key"]?.string)
      #expect(pushed.names == ["key", "seq"] && key.utf8.count == 20)
      try await client.expect("GET /list/\(key)", "+{\"n\":1}")
      try await client.expect("SET /t {\".sv\":\"timestamp\"}", hasPrefix: "+{\"seq\":")
      try await client.expect("GET /t", "+\(server.parts.clock.now)")
      try await client.value("UPDATE / {\"t\":{\".sv\":{\"increment\":5}}}")
      try await client.expect("GET /t", "+\(server.parts.clock.now + 5)")
    }
  }

  @Test(arguments: Depth.allCases)
  func `an order alone leaves a value without children as it is`(_ depth: Depth) async throws {
    try await withServer(depth) { server in
      let client = try await server.connectAsAdministrator()
      try await client.value("SET /leaf \"x\"")
      try await client.expect("GET /leaf {\"orderBy\":\"b\"}", "+\"x\"")
      try await client.expect("GET /leaf {\"orderBy\":\"b\",\"limitToFirst\":1}", "+null")
      try await client.expect("GET /leaf {\"orderBy\":\"b\",\"startAt\":null}", "+null")
    }
  }

  @Test(arguments: Depth.allCases)
  func `server values deep in an UPDATE are counted before the rules are asked`(
    _ depth: Depth
  ) async throws {
    func update(_ count: Int) -> String {
      let values = [String](repeating: "{\".sv\":\"timestamp\"}", count: count / 4)
      let value = "{\"a\":{\"a\":[\(values.joined(separator: ","))]}}"
      let members = (0..<4).map { "\"n\($0)\":\(value)" }
      return "UPDATE /usernames {\(members.joined(separator: ","))}"
    }
    try await withServer(depth) { server in
      let client = try await server.connect()
      try await client.expect(update(1_000), failsWith: "PERMISSION_DENIED")
      try await client.expect(update(1_004), failsWith: "INVALID_DATA")
    }
  }

  @Test(arguments: Depth.allCases)
  func `PUSH takes the next key while something is at its key`(_ depth: Depth) async throws {
    try await withServer(depth) { server in
      let client = try await server.connectAsAdministrator()
      let last = try await client.text("key", "PUSH /list 0")
      // The clock stands still, so each key is the last one plus one. Unless there is a carry, only the last
      // character differs.
      for digit in "-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz"
      where "\(digit)" != last.suffix(1) {
        try await client.value("SET /list/\(last.dropLast())\(digit) \"mine\"")
      }
      let key = try await client.text("key", "PUSH /list 1")
      #expect(key.dropLast() != last.dropLast() && key > last)
      try await client.expect("COUNT /list", "+65")
    }
  }

  @Test(arguments: Depth.allCases)
  func `the locations of an UPDATE are bounded, except for the administrator`(
    _ depth: Depth
  ) async throws {
    func update(_ count: Int) -> String {
      "UPDATE /a {" + (0..<count).map { "\"k\($0)\":1" }.joined(separator: ",") + "}"
    }
    try await withServer(depth) { server in
      let administrator = try await server.connectAsAdministrator()
      #expect(
        try await administrator.value("HELLO")["limits"]?["updateLocations"]?.integer == 2_048)
      try await administrator.value(update(2_049))
      try await administrator.value(update(16_384))
      try await administrator.expect(
        update(16_385),
        "-TOO_LARGE one update may set at most 16384 locations; split it into several")
      let stranger = try await server.connect()
      try await stranger.expect(update(2_048), failsWith: "PERMISSION_DENIED")
      try await stranger.expect(
        update(2_049), "-TOO_LARGE one update may set at most 2048 locations; split it into several"
      )
      try await stranger.expect(
        "ONCE drawn-at-random-1 1 0 " + update(2_049), failsWith: "TOO_LARGE")
    }
  }

  @Test(arguments: Depth.allCases)
  func `the entries of branches and indexes that an UPDATE may change are bounded`(
    _ depth: Depth
  ) async throws {
    func update(_ path: String, _ count: Int) -> String {
      "UPDATE \(path) {" + (0..<count).map { "\"k\($0)\":1" }.joined(separator: ",") + "}"
    }
    try await withServer(depth) { server in
      let administrator = try await server.connectAsAdministrator()
      let rules =
        #"{"rules":{".read":true,".write":true,"a":{".indexOn":["x","y",".value"]},"b":{".indexOn":"x"}}}"#
      try await administrator.value("RULES \(quoted(rules))")
      try await administrator.value(update("/a", 2_048))
      let client = try await server.connect()
      let error =
        "-TOO_LARGE one update may change at most 4096 entries of branches and their indexes, and this one may change 4100; "
        + "split it into several"
      try await client.expect(update("/a", 1_025), error)
      try await client.expect("ONDISCONNECT " + update("/a", 1_025), error)
      try await client.value(update("/a", 1_024))
      try await client.value(update("/b", 2_048))
      try await client.value("ONDISCONNECT " + update("/a", 1_024))
      try await client.expect("ONDISCONNECT " + update("/c", 2_049), failsWith: "TOO_LARGE")
    }
  }

  @Test(arguments: Depth.allCases)
  func `an UPDATE that was made gets its answer again, although an index was added since`(
    _ depth: Depth
  ) async throws {
    func once(_ number: Int, _ path: String) -> String {
      "ONCE drawn-at-random-1 \(number) 0 UPDATE \(path) {"
        + (0..<1_500).map { "\"k\($0)\":1" }.joined(separator: ",") + "}"
    }
    try await withServer(depth) { server in
      let administrator = try await server.connectAsAdministrator()
      func setRules(_ indexes: String) async throws {
        let rules = #"{"rules":{".read":true,".write":true,"a":{".indexOn":[\#(indexes)]}}}"#
        try await administrator.value("RULES \(quoted(rules))")
      }
      try await setRules("")
      let client = try await server.connect()
      let first = try await client.value(once(1, "/a"))
      try await setRules(#""x","y""#)
      #expect(try await client.value(once(1, "/a")) == first)
      try await client.expect(once(2, "/a"), failsWith: "TOO_LARGE")
      try await client.value(once(3, "/b"))
    }
  }

  @Test(arguments: Depth.allCases)
  func `GET has the options shallow and export, and priorities are kept`(_ depth: Depth)
    async throws
  {
    try await withServer(depth) { server in
      let client = try await server.connectAsAdministrator()
      try await client.value(
        "SET /a {\"b\":{\".value\":1,\".priority\":2},\"c\":{\"d\":\"x\"},\"e\":0}")
      try await client.value("SET /a/c/.priority \"p\"")
      try await client.expect("GET /a", "+{\"b\":1,\"c\":{\"d\":\"x\"},\"e\":0}")
      try await client.expect("GET /a {\"shallow\":true}", "+{\"b\":1,\"c\":true,\"e\":0}")
      try await client.expect("GET /a/e {\"shallow\":true}", "+0")
      try await client.expect(
        "GET /a {\"export\":true}",
        """
        +{"b":{".value":1,".priority":2},"c":{".priority":"p","d":"x"},"e":0}
        """)
      try await client.expect("GET /a/b/.priority", "+2")
      try await client.expect("GET /a/c/.priority", "+\"p\"")
      try await client.expect("GET /a/e/.priority", "+null")
      let byPriority = try await client.value("GET /a {\"orderBy\":\"$priority\"}")
      #expect(byPriority.names == ["e", "b", "c"])
      try await client.expect("SET /a/c/.priority true", failsWith: "INVALID_DATA")
      try await client.value("REMOVE /a/c/.priority")
      try await client.expect("GET /a/c {\"export\":true}", "+{\"d\":\"x\"}")
      try await client.value("SET /a/b 3")
      // A SET without a priority removes it.
      try await client.expect("GET /a/b/.priority", "+null")
    }
  }

  @Test(arguments: Depth.allCases)
  func `CAS replaces a value that has not changed`(_ depth: Depth) async throws {
    try await withServer(depth) { server in
      let client = try await server.connectAsAdministrator()
      let created = try await client.value("CAS /a null_etag {\"n\":1}")
      #expect(created.names == ["committed", "seq"])
      let read = try await client.value("GET /a {\"etag\":true}")
      #expect(read.names == ["etag", "data"] && read["data"]?["n"]?.integer == 1)
      let etag = try #require(read["etag"]?.string)
      #expect(etag == server.root.at(try Path("/a")).hash)
      try await client.expect(
        "CAS /a null_etag 2", "+{\"committed\":false,\"etag\":\"\(etag)\",\"data\":{\"n\":1}}")
      try await client.expect("CAS /a \"\(etag)\" {\"n\":2}", hasPrefix: "+{\"committed\":true")
      try await client.expect("CAS /a \(etag) 3", contains: "\"n\":2")
      try await client.expect(
        "GET /none {\"etag\":true}", "+{\"etag\":\"null_etag\",\"data\":null}")
      let second = try await client.text("etag", "GET /a {\"etag\":true}")
      try await client.expect("CAS /a \(second) null", hasPrefix: "+{\"committed\":true")
      try await client.expect("GET /a", "+null")
    }
  }

  @Test(arguments: Depth.allCases)
  func `queries select, order and count`(_ depth: Depth) async throws {
    try await withServer(depth) { server in
      let client = try await server.connectAsAdministrator()
      try await client.value(
        "SET /q {\"a\":{\"n\":3,\"m\":{\"v\":1}},\"b\":{\"n\":1},\"c\":{\"n\":2},\"d\":7,\"10\":{},\"9\":{\"n\":1}}"
      )
      func keys(_ options: String) async throws -> [String] {
        try await client.value("GET /q \(options)").names ?? []
      }
      #expect(try await keys("{\"orderBy\":\"$key\"}") == ["9", "a", "b", "c", "d"])
      #expect(try await keys("{\"orderBy\":\"n\"}") == ["d", "9", "b", "c", "a"])
      #expect(try await keys("{\"orderBy\":\"n\",\"equalTo\":1}") == ["9", "b"])
      #expect(
        try await keys("{\"orderBy\":\"n\",\"startAt\":[1,\"b\"],\"limitToFirst\":2}") == [
          "b", "c",
        ])
      #expect(try await keys("{\"orderBy\":\"m/v\",\"startAt\":0}") == ["a"])
      #expect(try await keys("{\"orderBy\":\"$value\",\"endBefore\":8}") == ["d"])
      #expect(try await keys("{\"limitToLast\":2}") == ["c", "d"])
      #expect(try await keys("{\"orderBy\":\"$key\",\"startAfter\":\"b\"}") == ["c", "d"])
      try await client.expect("GET /q {\"orderBy\":\"n\",\"equalTo\":9}", "+null")
      try await client.expect("COUNT /q {\"orderBy\":\"n\",\"startAt\":2}", "+2")
      try await client.expect("COUNT /q {\"orderBy\":\"$key\",\"endAt\":\"b\"}", "+3")
      try await client.expect("COUNT /q {\"limitToFirst\":2}", "+2")
      try await client.expect("GET /q/d {\"limitToFirst\":1}", "+null")
      try await client.expect(
        "GET /q {\"orderBy\":\"$key\",\"startAt\":1}", failsWith: "INVALID_QUERY")
    }
  }

  @Test(arguments: Depth.allCases)
  func `the first query of many children creates an index`(_ depth: Depth) async throws {
    try await withServer(depth) { server in
      let client = try await server.connectAsAdministrator()
      let members = (0..<600).map { "\"k\($0)\":{\"n\":\(($0 * 7) % 600)}" }.joined(separator: ",")
      try await client.value("SET /q {\(members)}")
      let path = try Path("/q")
      #expect(!Query.isIndexed(by: .child(try Path("n")), server.root.at(path)))
      let least = try await client.value("GET /q {\"orderBy\":\"n\",\"limitToFirst\":3}")
      #expect(least.names?.compactMap { least[$0]?["n"]?.integer } == [0, 1, 2])
      #expect(Query.isIndexed(by: .child(try Path("n")), server.root.at(path)))
      try await client.value("SET /q/k1 {\"n\":-1}")
      #expect(
        try await client.value("GET /q {\"orderBy\":\"n\",\"limitToFirst\":1}").names == ["k1"])
      try await client.expect("COUNT /q {\"orderBy\":\"n\",\"startAt\":590}", "+10")
    }
  }

  @Test(arguments: Depth.allCases)
  func `a reply that is too large is refused, for every form of the request`(
    _ depth: Depth
  ) async throws {
    try await withServer(depth) {
      $0.limits.replyBytesMax = 10_000
    } _: { server in
      let client = try await server.connectAsAdministrator()
      let text = String(repeating: "x", count: 3_000)
      for index in 0..<3 { try await client.value("SET /a/k\(index) \"\(text)\"") }
      for options in ["", "{\"orderBy\":\"$key\"}", "{\"etag\":true}", "{\"export\":true}"] {
        #expect(try await client.request("GET /a \(options)").utf8.count > 9_000)
      }
      try await client.value("SET /a/k3 \"\(text)\"")
      let refused = [
        "GET /a", "GET /", "GET /a {\"orderBy\":\"$key\"}", "GET /a {\"limitToLast\":4}",
        "GET /a {\"orderBy\":\"$value\"}", "GET /a {\"etag\":true}", "GET /a {\"export\":true}",
        "GET /a {\"shallow\":true}",
      ]
      for line in refused { try await client.expect(line, failsWith: "TOO_LARGE") }
      try await client.expect("GET /a {\"limitToLast\":3}", hasPrefix: "+{")
      try await client.expect("GET / {\"shallow\":true}", hasPrefix: "+{\"a\":true")
      let missed = try await client.code("CAS /a wrong 1")
      #expect(missed == "TOO_LARGE")
      let wide = (0..<2_000).map { "\"k\($0)\":1" }.joined(separator: ",")
      try await client.value("SET /wide {\(wide)}")
      for options in ["", "{\"shallow\":true}", "{\"orderBy\":\"$key\"}"] {
        try await client.expect("GET /wide \(options)", failsWith: "TOO_LARGE")
      }
    }
  }

  /// Reads a list of the blog page by page, by its cursors. Returns the ids of each page.
  private func pages(_ client: any LineClient, _ line: String) async throws -> [[String]] {
    var pages: [[String]] = []
    var options = ""
    while pages.count < 10 {
      let page = try JSONValue(
        json: String(try await client.request("\(line)\(options)").dropFirst()))
      guard case .array(let items) = page else { break }
      pages.append(items.compactMap { $0["id"]?.string })
      guard let before = items.last?["before"]?.string else { break }
      options = " {\"before\":\"\(before)\"}"
    }
    return pages
  }

  @Test(arguments: Depth.allCases)
  func `a list of the blog has the entries that fit, and a cursor for the next page`(
    _ depth: Depth
  ) async throws {
    try await withServer(depth) {
      $0.limits.replyBytesMax = 10_000
    } _: { server in
      let ada = try await server.connect(as: "ada")
      let body = String(repeating: "x", count: 3_000)
      var ids: [String] = []
      for _ in 0..<7 { ids.insert(try await ada.text("id", "POST title \(body)"), at: 0) }
      for line in ["RECENT", "POSTS me", "TOP", "TOP me"] {
        let pages = try await pages(ada, line)
        #expect(pages.map(\.count) == [3, 3, 1], "\(line)")
        #expect(pages.flatMap { $0 } == ids, "\(line)")
        #expect(!(try await ada.request("\(line) {\"limit\":3}")).contains("before"))
      }
      for _ in 0..<4 { try await ada.value("COMMENT \(ids[0]) \(body)") }
      #expect(try await pages(ada, "COMMENTS \(ids[0])").map(\.count) == [3, 1])
    }
  }
}
