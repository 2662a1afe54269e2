import CanopyTree
import CanopyWire
import Testing

@Suite(.timeLimit(.minutes(20))) struct VerbTests {
  @Test func `the table has the verbs and arguments of the protocol's documentation, in its order`()
  {
    let samples = [
      Command.Group.session: Sample.session, .blog: Sample.blog, .tree: Sample.tree,
      .administration: Sample.administration,
    ]
    for group in Command.Group.allCases {
      let table = Command.all.filter { $0.group == group }.map(\.usage)
      let tested = samples[group, default: []].map(\.usage)
      #expect(
        table == tested,
        """
        The verbs of the group \(group) differ: \(table.difference(from: tested))
        The verbs are in Sources/Core/CanopyWire/\(Self.file(of: group)); their samples are \
        in Tests/Core/CanopyWireTests/WireSupport.swift, in the same order.
        """)
    }
    #expect(Command.all.map(\.usage) == Sample.all.map(\.usage))
  }

  private static func file(of group: Command.Group) -> String {
    switch group {
    case .session: "SessionVerbs.swift"
    case .blog: "BlogVerbs.swift"
    case .tree: "TreeVerbs.swift"
    case .administration: "AdministrationVerbs.swift"
    }
  }

  @Test func `every verb has a summary and a documented reply, each of one line`() {
    for command in Command.all {
      #expect(!command.summary.isEmpty && isOneLine(command.summary), "\(command.verb)")
      #expect(!command.reply.isEmpty && isOneLine(command.reply), "\(command.verb)")
      #expect(command.verb == command.verb.uppercased())
    }
  }

  @Test(arguments: Sample.all)
  func `a verb takes its fewest and its most arguments, and no more or fewer`(_ sample: Sample) {
    #expect(throws: Never.self) { try outcome(sample.minimum).get() }
    #expect(throws: Never.self) { try outcome(sample.maximum).get() }
    for excess in 1...12 {
      let error = refusal(sample.maximum + String(repeating: " x", count: excess))
      #expect(error?.code == .badRequest)
      #expect(error?.sentence.hasPrefix("usage: \(sample.usage)") == true)
    }
    for count in 0..<sample.required.count {
      let error = refusal(([sample.verb] + sample.required.prefix(count)).joined(separator: " "))
      #expect(error == WireError(.badRequest, "usage: \(sample.usage)"))
    }
  }

  @Test(arguments: Sample.all)
  func `a request has the verb of its line`(_ sample: Sample) throws {
    let request = try outcome(sample.minimum).get()
    // REMOVE is a SET of nothing.
    let verb = sample.verb == "REMOVE" ? "SET" : sample.verb
    #expect(Command.all[request.verb.index].verb == verb)
  }

  @Test func `an error about too many arguments mentions quotes`() {
    #expect(refusal("POST My first post")?.sentence.contains("double quotes") == true)
    #expect(refusal("PING now")?.sentence == "usage: PING")
  }

  @Test(arguments: Sample.all)
  func `a verb may be in any case`(_ sample: Sample) throws {
    let arguments = sample.maximum.dropFirst(sample.verb.count)
    let asWritten = "\(try outcome(sample.maximum).get())"
    let mixed = sample.verb.enumerated().map { index, letter in
      index.isMultiple(of: 2) ? letter.lowercased() : String(letter)
    }
    for verb in [sample.verb.lowercased(), mixed.joined()] {
      #expect("\(try outcome(verb + arguments).get())" == asWritten)
      #expect(Request.command(verb)?.verb == sample.verb)
    }
  }

  @Test func `an unknown verb is named as far as it is printable`() {
    let long = String(repeating: "x", count: 40)
    let sentences = [
      ("PONG", "PONG is not a verb; HELP lists them"),
      ("pingg", "pingg is not a verb; HELP lists them"),
      ("PINGPING", "PINGPING is not a verb; HELP lists them"),
      (long, "\(long.prefix(24))… is not a verb; HELP lists them"),
      ("\u{1B}[31m", "the first word is not a verb; HELP lists them"),
      ("é", "the first word is not a verb; HELP lists them"),
      ("PING\t", "the first word is not a verb; HELP lists them"),
      ("   ", "a line of spaces is not a verb; HELP lists them"),
    ]
    for (line, sentence) in sentences {
      #expect(refusal(line) == WireError(.unknownVerb, sentence))
    }
    for word in ["", "PONG", "\0PING", "ＰＩＮＧ", String(repeating: "PING", count: 5)] {
      #expect(Request.command(word) == nil)
    }
  }

  @Test func `a verb with control characters is unknown`() {
    for command in Command.all {
      for position in 0...command.verb.utf8.count {
        for byte in [0x00, 0x01, 0x09, 0x0D, 0x7F, 0x80, 0xFF] as [UInt8] {
          var line = Array(command.verb.utf8)
          line.insert(byte, at: position)
          guard case .failure(let error) = outcome(line) else {
            Issue.record("\(line) is taken for \(command.verb)")
            continue
          }
          #expect(error.code == .unknownVerb)
        }
      }
    }
  }

  @Test func `spaces around words are ignored`() throws {
    let plain = "\(try outcome("COMMENTS x {\"limit\":1}").get())"
    #expect("\(try outcome("   COMMENTS    x   {\"limit\":1}   ").get())" == plain)
    #expect("\(try outcome("COMMENTS x { \"limit\" : 1 }").get())" == plain)
  }

  @Test func `a request that is not rare takes no more than 64 bytes`() {
    // It is moved several times on its way.
    #expect(MemoryLayout<Request>.size <= 64)
  }

  @Test(arguments: ["-P57_YMVEJvIQmvEmzqs", "x", "007", "-1", "a/b", ".", "$x", "é", "é/x", "~"])
  func `an id and a path are the same as a word and as a JSON string`(_ text: String) {
    for verb in ["SHOW", "STAR", "GET", "COUNT", "REMOVE"] {
      switch (outcome("\(verb) \(text)"), outcome("\(verb) \"\(text)\"")) {
      case (.success(let word), .success(let string)): #expect("\(word)" == "\(string)")
      case (.failure(let word), .failure(let string)): #expect(word == string)
      default: Issue.record("\(verb) \(text) depends on the form of its argument")
      }
    }
  }

  @Test(arguments: [".info", "/.info", ".info/connected", "/.info/serverTimeOffset"])
  func `a path of the connection is found as a word and as a JSON string`(_ text: String) throws {
    for argument in [text, "\"\(text)\""] {
      guard case .read(.info) = try outcome("GET \(argument)").get() else {
        Issue.record("\(argument) is no path of the connection")
        continue
      }
    }
    for argument in ["info", "x/.info", ".information", "/.inf"] {
      if case .success(.read(.info)) = outcome("GET \(argument)") {
        Issue.record("\(argument) is taken for a path of the connection")
      }
    }
  }

  @Test func `options with the query of all children are the default options`() throws {
    var options = GetOptions()
    options.query = try Query(options: JSONValue(json: "{\"limitToFirst\":3}"))
    #expect(options != GetOptions() && options.query != .all)
    options.query = .all
    #expect(options == GetOptions() && options.query == .all)
  }

  @Test func `the identity of a write is found in the beginning of its line`() throws {
    let long = String(repeating: "x", count: 65)
    func origin(_ line: String) -> WriteOrigin? {
      Array(line.utf8).withUnsafeBytes { Request.origin(inBeginningOf: $0) }
    }
    let expected = try WriteOrigin(client: "c", number: 5, seen: 3)
    for line in [
      "ONCE c 5 3 SET /a \"unfinished", "  once \"c\"  5 3 UPDATE / {\"a\":[1", "Once c 5 3",
      "ONCE c 5 3 SET /a \"\(String(repeating: "y", count: 1_000))\"",
    ] {
      #expect(origin(line) == expected, "\(line.prefix(40))")
    }
    for line in [
      "", "   ", "ONCE", "ONCE c 5", "ONCE c 5 5 SET /a 1", "ONCE c x 1 SET /a 1", "SET c 5 3",
      "ONCEc 5 3 SET /a 1", "ONCE \(long) 5 3 SET /a 1",
      "ONCE \(String(repeating: " ", count: 600))c 5 3 SET /a 1",
    ] {
      #expect(origin(line) == nil, "\(line.prefix(40))")
    }
  }
}
