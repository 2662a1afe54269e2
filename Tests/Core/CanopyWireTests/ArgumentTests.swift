import CanopyTree
import CanopyWire
import Testing

@Suite(.timeLimit(.minutes(20))) struct ArgumentTests {
  @Test(arguments: [
    ("POST Title Body", "POST \"Title\" \"Body\""),
    ("LOGIN ada@example.org p{a}ss[w]\"ord", "LOGIN \"ada@example.org\" \"p{a}ss[w]\\\"ord\""),
    ("SIGNUP é ü ö", "SIGNUP \"\\u00e9\" \"ü\" \"\\u00f6\""),
    ("GET /a/b", "GET \"/a/b\""),
    ("SHOW abc", "SHOW \"abc\""),
    ("HELP ping", "HELP \"ping\""),
    ("AUTH abc-_", "AUTH \"abc-_\""),
    ("POSTS @ada", "POSTS \"@ada\""),
    ("TOP me", "TOP \"me\""),
    ("CAS /a null_etag 1", "CAS \"/a\" \"null_etag\" 1"),
  ])
  func `text is the same as a bare word and as a JSON string`(
    _ bare: String, _ quoted: String
  ) throws {
    #expect("\(try outcome(bare).get())" == "\(try outcome(quoted).get())")
  }

  @Test func `empty text, spaces and line breaks need a JSON string`() throws {
    guard case .write(.blog(.post("", " a\nb "))) = try outcome("POST \"\" \" a\\nb \"").get()
    else {
      Issue.record("not the text that was sent")
      return
    }
  }

  @Test(arguments: ["{\"a\":1}", "[1]", "{}", "{", "["])
  func `text is neither an object nor an array`(_ json: String) {
    let error = refusal("POST \(json) body")
    #expect(error?.code == .badRequest)
    if json.count > 1 { #expect(error?.sentence == "title must be a word or a JSON string") }
  }

  @Test func `an error about a bare word instead of JSON mentions quotes`() {
    let error = refusal("SET /a hello")
    #expect(error?.code == .invalidData)
    #expect(error?.sentence.hasSuffix("SET takes JSON here: put text in double quotes") == true)
    #expect(error?.sentence.contains("at byte 7") == true)
    #expect(refusal("PUSH /a hello")?.sentence.contains("PUSH takes JSON") == true)
    #expect(refusal("CAS /a x hello")?.sentence.contains("CAS takes JSON") == true)
    #expect(refusal("SET /a \"hello")?.sentence.contains("put text") == false)
    for json in ["1", "-1.5", "true", "false", "null", "\"hello\"", "{}", "[]"] {
      #expect(throws: Never.self) { try outcome("SET /a \(json)").get() }
    }
  }

  /// Each `?` marks the position of the error; the rest of the line is valid.
  @Test(arguments: [
    "SET /a ?", "SET /a {\"x\":?}", "   SET    /a     {\"x\":?}", "SET /é {\"x\":?}",
    "SET \"/a b\" [1,?]", "UPDATE /a {\"b\":?}", "PUSH /a {\"é\":?}", "CAS /a etag [1,?]",
    "GET /a {\"orderBy\":?}", "COUNT /a {\"limitToFirst\": ?}", "RECENT {\"limit\":?}",
    "COMMENTS id {\"limit\":?}", "POSTS me {?}", "TOP {\"limit\":?}", "POST \"ti\\?le\" body",
    "POST title \"bo\\?y\"", "SET /a {\"x\":\"\\?\"}",
  ])
  func `the offset in an error is that of the line`(_ line: String) throws {
    let offset = try #require(Array(line.utf8).firstIndex(of: UInt8(ascii: "?")))
    let error = refusal(line)
    #expect(error?.code == .invalidData)
    #expect(error?.sentence.contains("(at byte \(offset))") == true, "\(error?.sentence ?? "")")
  }

  @Test(arguments: [
    ("SET /a {\"x\":1}y", 14), ("SET /a \"x\"y", 10), ("SET /a []]", 9), ("POST \"a\"\"b\"", 8),
    ("RECENT {}{}", 9), ("PUSH /é [1]\"x\"", 12),
  ])
  func `a JSON value is followed by a space or the end`(_ line: String, _ end: Int) {
    let sentence = "expected a space after the JSON value that ends at byte \(end)"
    #expect(refusal(line) == WireError(.badRequest, sentence))
  }

  @Test(arguments: [
    "SET /a {", "SET /a [", "SET /a \"", "SET /a {\"x\":[1}", "SET /a {\"x\":1]", "SET /a [1}",
    "SET /a {\"x\":\"}", "SET /a {\"x\":1", "SET /a [[[[", "SET /a \"\\", "SET /a {\"\\",
    "SET /a {\"x\":{\"y\":1}", "SET /a [1,2,", "UPDATE /a {\"b\":1", "UPDATE /a {\"b\"}",
  ])
  func `unclosed brackets and quotes are errors of data`(_ line: String) {
    let error = refusal(line)
    #expect(error?.code == .invalidData)
    #expect(error?.sentence.contains("(at byte ") == true)
  }

  @Test func `brackets in strings do not count`() throws {
    guard case .write(.blog(.post("]} {[", "x"))) = try outcome("POST \"]} {[\" x").get() else {
      Issue.record("not the text that was sent")
      return
    }
    #expect(throws: Never.self) { try outcome("SET /a {\"}\":\"\\\"{[\"}").get() }
  }

  @Test(arguments: [
    ("RECENT {\"limits\":1}", "RECENT has no option limits; it has atLeast, before, limit"),
    ("COMMENTS x {\"Limit\":1}", "COMMENTS has no option Limit; it has atLeast, before, limit"),
    ("TOP {\"after\":\"x\"}", "TOP has no option after; it has atLeast, before, limit"),
    ("POSTS me {\"\":1}", "POSTS has no option ; it has atLeast, before, limit"),
  ])
  func `an unknown option is named, with the valid ones`(_ line: String, _ sentence: String) {
    #expect(refusal(line) == WireError(.badRequest, sentence))
  }

  @Test func `the options of GET are not options of COUNT`() {
    for option in ["shallow", "export", "etag"] {
      #expect(refusal("COUNT /a {\"\(option)\":true}")?.code == .badRequest)
    }
    #expect(refusal("GET /a {\"orderby\":\"$key\"}")?.sentence.contains("orderBy") == true)
  }

  @Test(arguments: [
    ("RECENT {\"limit\":\"1\"}", "limit must be an integer"),
    ("RECENT {\"limit\":1.5}", "limit must be an integer"),
    ("RECENT {\"limit\":null}", "limit must be an integer"),
    ("RECENT {\"before\":1}", "before must be the id of an entry, as a string"),
    ("RECENT {\"before\":\"a/b\"}", "before is not an id: a key may not contain"),
    ("RECENT x", "the options of RECENT must be a JSON object"),
    ("RECENT []", "the options of RECENT must be a JSON object"),
    ("RECENT \"x\"", "the options of RECENT must be a JSON object"),
    ("TOP me x", "the options of TOP must be a JSON object"),
    ("TOP {\"limit\":1} x", "usage: TOP [user] [page]"),
    ("GET /a {\"shallow\":1}", "shallow must be true or false"),
    ("GET /a {\"export\":\"true\"}", "export must be true or false"),
    ("GET /a {\"shallow\":true,\"export\":true}", "shallow cannot be used with other options"),
    ("GET /a {\"shallow\":true,\"limitToLast\":1}", "shallow cannot be used with other options"),
    ("GET /a {\"etag\":true,\"limitToLast\":1}", "etag cannot be used with a query"),
    ("SHOW a/b", "id is not an id: a key may not contain"),
    ("SHOW \"\"", "id is not an id: a key may not be empty"),
    ("UNCOMMENT a b.c", "commentId is not an id: a key may not contain"),
  ])
  func `an invalid option or id has an error that says so`(_ line: String, _ start: String) {
    let error = refusal(line)
    #expect(error?.code == .badRequest)
    #expect(error?.sentence.hasPrefix(start) == true, "\(error?.sentence ?? "")")
  }

  @Test(arguments: [
    "GET /a.b", "GET /a/$b", "SET /a#b 1", "REMOVE /[0]", "COUNT /a/.priority",
    "PUSH /a/.priority 1", "UPDATE /.x {}", "UPDATE / {\"a.b\":1}", "GET \"/a\\u0007b\"",
    "CAS a.b x 1",
  ])
  func `an invalid path has an error of its own`(_ line: String) {
    #expect(refusal(line)?.code == .invalidPath)
  }

  @Test func `a path may be 32 keys deep and a key 768 bytes long`() {
    let deep = String(repeating: "/a", count: 32)
    #expect(throws: Never.self) { try outcome("GET \(deep)").get() }
    #expect(refusal("GET \(deep)/a")?.code == .invalidPath)
    let key = String(repeating: "é", count: 384)
    #expect(throws: Never.self) { try outcome("GET \(key)").get() }
    #expect(refusal("GET \(key)x")?.code == .invalidPath)
    #expect(refusal("SHOW \(key)x")?.code == .badRequest)
  }

  @Test(arguments: [
    "GET /a {\"orderBy\":1}", "GET /a {\"orderBy\":\"$x\"}", "GET /a {\"limitToFirst\":0}",
    "GET /a {\"limitToFirst\":1,\"limitToLast\":1}", "GET /a {\"startAt\":1,\"startAfter\":1}",
    "GET /a {\"equalTo\":1,\"endAt\":1}", "COUNT /a {\"orderBy\":\"$key\",\"startAt\":1}",
    "COUNT /a {\"startAt\":{}}",
  ])
  func `a contradictory query has an error of its own`(_ line: String) {
    #expect(refusal(line)?.code == .invalidQuery)
  }

  @Test(arguments: Sample.all)
  func `an invalid UTF-8 byte is refused at every position`(_ sample: Sample) {
    for byte in [0xFF, 0xC0, 0x80, 0xED] as [UInt8] {
      everyPosition(of: sample, byte) { line, _ in
        guard case .failure(let error) = outcome(line) else {
          Issue.record("taken: \(line)")
          return
        }
        #expect([.unknownVerb, .invalidData, .badRequest, .invalidPath].contains(error.code))
      }
    }
  }

  @Test(arguments: Sample.all)
  func `NUL and other control bytes are refused at every position`(_ sample: Sample) {
    for byte in [0x00, 0x01, 0x0B, 0x1F] as [UInt8] {
      everyPosition(of: sample, byte) { line, position in
        guard case .failure(let error) = outcome(line) else {
          Issue.record("byte \(byte) at \(position) is taken: \(line)")
          return
        }
        #expect([.unknownVerb, .invalidData, .badRequest, .invalidPath].contains(error.code))
      }
    }
  }

  /// Calls `body` with lines in which the byte is inserted between any two bytes or replaces any
  /// byte.
  private func everyPosition(of sample: Sample, _ byte: UInt8, _ body: ([UInt8], Int) -> Void) {
    let line = Array(sample.maximum.utf8)
    for position in 0...line.count {
      var inserted = line
      inserted.insert(byte, at: position)
      body(inserted, position)
      guard position < line.count else { return }
      var replaced = line
      replaced[position] = byte
      body(replaced, position)
    }
  }

  @Test func `the error names the offset of a control character in a bare word`() {
    let error = refusal("POST title bo\u{7}dy")
    #expect(error?.code == .badRequest)
    #expect(error?.sentence.contains("(at byte 13)") == true)
    #expect(refusal("POST title bo\u{7F}dy")?.code == .badRequest)
    #expect(refusal("POST ti\ttle body")?.code == .badRequest)
  }

  @Test func `strings and values may be as long as the limits allow`() {
    var limits = Limits()
    limits.stringBytesMax = 10
    limits.writeBytesMax = 20
    func code(_ line: String) -> WireError.Code? {
      switch outcome(Array(line.utf8), limits: limits) {
      case .success: nil
      case .failure(let error): error.code
      }
    }
    let (longest, long) = (String(repeating: "é", count: 5), String(repeating: "é", count: 5) + "x")
    for line in ["SET /a \"?\"", "PUSH /a {\"b\":\"?\"}", "POST \"?\" x", "UPDATE / {\"a\":\"?\"}"]
    {
      #expect(code(line.replacing("?", with: longest)) == nil)
      #expect(code(line.replacing("?", with: long)) == .tooLarge)
    }
    for line in ["SET /a ?", "PUSH /a ?", "CAS /a x ?", "UPDATE / ?"] {
      let spaces = String(repeating: " ", count: 12)
      #expect(code(line.replacing("?", with: "{\"a\":1\(spaces) }")) == nil)
      #expect(code(line.replacing("?", with: "{\"a\":1\(spaces)  }")) == .tooLarge)
    }
  }

  @Test(arguments: [
    "SET /a ?", "PUSH /a ?", "CAS /a x ?", "UPDATE / {\"a\":?}",
    "ONCE client-of-16-bytes 1 0 SET /a ?",
    "ONDISCONNECT SET /a ?",
  ])
  func `a long value is decoded with pauses`(line: String) throws {
    let list = "[" + (0..<1_000).map { "\($0)" }.joined(separator: ",") + "]"
    let bytes = Array(line.replacing("?", with: list).utf8)
    var pauses = 0
    let pause = DecodingPause { pauses += 1 }
    _ = try bytes.withUnsafeBytes { bytes in Result { try Request(line: bytes, pausing: pause) } }
      .get()
    #expect(pauses >= 1_000)
  }
}
