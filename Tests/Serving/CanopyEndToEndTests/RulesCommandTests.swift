import CanopyTesting
import CanopyTree
import Foundation
import Testing

/// `canopy rules`, and rules in the data folder.
@Suite(.timeLimit(.minutes(20)), .serialized) struct RulesCommandTests {
  private static let cases = Checkout.root
    .appending(path: "Tests/Core/CanopyRulesTests/BuiltInCases.json").path

  private let folder: TemporaryFolder
  private var rules: String { folder.path + "/my-rules.json" }

  init() throws {
    folder = try TemporaryFolder()
  }

  private func write(_ text: String, to path: String) throws {
    try Data(text.utf8).write(to: URL(fileURLWithPath: path))
  }

  @Test func `a file of rules without an end is refused`() async throws {
    let ending = try await Command.run(["rules", "check", "/dev/zero"])
    #expect(ending.isSentence && ending.errors.contains("more than"), "\(ending)")
  }

  @Test func `the cases of the built-in rules run with the rules and with their text`() async throws
  {
    let builtIn = try await Command.run(["rules", "test", "built-in", Self.cases])
    #expect(builtIn.status == 0, "\(builtIn)")
    #expect(builtIn.text.hasSuffix(" cases, 0 failed\n"))
    let text = try await Command.run(["rules", "get", "--built-in"])
    #expect(text.text.hasSuffix("}\n") && !text.text.hasSuffix("\n\n"))
    try write(text.text, to: rules)
    let same = try await Command.run(["rules", "test", rules, Self.cases])
    #expect(same.status == 0 && same.text == builtIn.text, "\(same)")
    let checked = try await Command.run(["rules", "check", "-"], input: text.text)
    #expect(checked.status == 0 && checked.text == "ok\n", "\(checked)")
  }

  @Test func `each problem of rules is one line with file, line and column`()
    async throws
  {
    try write("{\"rules\":{\n  \".read\": \"auth ==\",\n  \"a\": {\".foo\": 1}}}", to: rules)
    for arguments in [["check", rules], ["test", rules, Self.cases]] {
      let ending = try await Command.run(["rules"] + arguments)
      #expect(ending.status == 1, "\(ending)")
      let lines = ending.errors.split(separator: "\n")
      #expect(lines.count == 2)
      #expect(lines[0].hasPrefix("Error: \(rules):2:"))
      #expect(lines[1].hasPrefix("\(rules):3:9: /a: "))
    }
    for arguments in [
      ["check", folder.path + "/missing"], ["test", "built-in", folder.path + "/missing"],
      ["test", "built-in", rules], ["check", folder.path],
    ] {
      let ending = try await Command.run(["rules"] + arguments)
      #expect(ending.isSentence, "\(arguments): \(ending)")
    }
  }

  @Test func `a terminal gets no control characters of files`() async throws {
    try write(#"{"rules":{".read":"\u001b[31m\u0007"}}"#, to: rules)
    let checked = try await Command.run(["rules", "check", rules])
    #expect(checked.status == 1 && checked.errors.contains(#"\u{1B}"#), "\(checked)")
    let cases = folder.path + "/cases.json"
    let name = #"\u009b31m \u202e \t e\u0301 \u200d"#
    try write(
      #"{"cases":[{"name":"\#(name)","operation":"read","path":"/","expect":"allow"}]}"#,
      to: cases)
    let tested = try await Command.run(["rules", "test", "built-in", cases])
    #expect(tested.status == 1, "\(tested)")
    #expect(
      tested.text.contains(#"\u{9B}31m \u{202E} "# + "\t e\u{301} \u{200D}"), "\(tested.text)")
    for text in [checked.errors, checked.text, tested.errors, tested.text] {
      #expect(
        !text.unicodeScalars.contains { ["\u{1B}", "\u{7}", "\u{9B}", "\u{202E}"].contains($0) })
    }
  }

  @Test func `the error for an unreadable file has the reason`() async throws {
    for (path, reason) in [
      (folder.path + "/missing", "No such file or directory"), (folder.path, "Is a directory"),
    ] {
      for arguments in [["check", path], ["test", "built-in", path]] {
        let ending = try await Command.run(["rules"] + arguments)
        #expect(ending.errors == "Error: \(path) cannot be read: \(reason)\n")
      }
    }
    let both = try await Command.run(["rules", "test", "-", "-"])
    #expect(both.isSentence && both.errors.contains("both"), "\(both)")
    try Data([0x7B, 0xFF, 0x7D]).write(to: URL(fileURLWithPath: rules))
    let ending = try await Command.run(["rules", "test", "built-in", rules])
    #expect(ending.errors == "Error: \(rules): the file is not UTF-8; save it as UTF-8\n")
  }

  @Test func `rules and cases can be read from pipes`() async throws {
    let script = "cat \"$0\" | \"$1\" rules test built-in /dev/stdin"
    let ending = try await Command.run(
      ["-c", script, Self.cases, Command.path], program: "/bin/sh")
    #expect(ending.status == 0 && ending.text.hasSuffix(" cases, 0 failed\n"), "\(ending)")
  }

  @Test func `a case with another decision than expected is printed with its explanation`()
    async throws
  {
    let cases = folder.path + "/cases.json"
    try write("{\"rules\":{\"a\":{\".read\":\"auth != null\"}}}", to: rules)
    try write(
      #"""
      {"cases":[
        {"name":"no user reads","operation":"read","path":"/a","expect":"deny"},
        {"name":"all read","operation":"read","path":"/a","expect":"allow"}]}
      """#, to: cases)
    let ending = try await Command.run(["rules", "test", rules, cases])
    #expect(ending.status == 1, "\(ending)")
    #expect(
      ending.text == """
        FAILED: all read: expected allow
          /a/.read (line 1) at /a: false
              auth  =>  null
              auth != null  =>  false
          denied: no .read rule from the root down to /a holds
        2 cases, 1 failed

        """)
  }

  @Test func `a server with invalid rules does not start`() async throws {
    let data = folder.path + "/data"
    try FileManager.default.createDirectory(
      atPath: data, withIntermediateDirectories: false)
    try write("{\"rules\": {\".read\": \"auth.uid = 1\"}}", to: data + "/rules.json")
    let ending = try await Command.run(["serve", "--data", data, "--port", "0"])
    #expect(ending.status == 1, "\(ending)")
    #expect(ending.output.isEmpty)
    #expect(ending.errors.hasPrefix("Error: \(data)/rules.json:1:"))
    #expect(
      try FileManager.default.contentsOfDirectory(atPath: data) == ["rules.json"],
      "the server has created nothing")
  }

  @Test func `rules of a running server are replaced, printed, explained, and kept`() async throws {
    let data = folder.path + "/data"
    let server = try await ServerProcess(data: data)
    func run(_ arguments: String..., input: String = "") async throws -> Command.Ending {
      try await Command.run(["rules"] + arguments + ["--data", data], input: input)
    }
    let client = try await server.connect()
    let uid = try await client.text("uid", "SIGNUP ada@example.org \"engine of 1843\" ada")
    try await client.expect("SET /a 1", failsWith: "PERMISSION_DENIED")
    let text =
      "{ // Whose e-mail address is known.\n\t\"rules\": { \"a\": {\n"
      + "  \".read\": true,\n  \".write\": \"auth.token.email === 'ada@example.org'\" },\n"
      + "  \"b\": { \"$k\": { \".write\": \"newData.val() !== ''\" } } } }"
    try write(text, to: rules)
    let set = try await run("set", rules)
    #expect(set.status == 0 && set.output.isEmpty, "\(set)")
    let stored = try String(contentsOfFile: data + "/rules.json", encoding: .utf8)
    #expect(stored.hasPrefix(text + "\n// checksum of the rules above"), "\(stored)")
    #expect(try await run("get").text == text + "\n")
    try await client.value("SET /a 1")

    let explained = try await run("explain", "@ada", "set", "/a", "{\n\"b\": 1}")
    #expect(
      explained.text == """
        /a/.write (line 4) at /a: true
            auth.token.email  =>  "ada@example.org"
            auth.token.email === 'ada@example.org'  =>  true
        allowed

        """, "\(explained.errors)")
    for (who, outcome) in [(uid, "allowed"), ("null", "denied"), ("{\"uid\":\"x\"}", "denied")] {
      let ending = try await run("explain", who, "update", "/", "{\"a\":1}")
      let last = ending.text.split(separator: "\n").last ?? ""
      #expect(ending.status == 0 && last.hasPrefix(outcome), "\(ending)")
    }

    // Other line breaks than CR and LF are characters of the string. A terminal may obey them.
    let separators = try await run("explain", uid, "set", "/b/x", "\"1\u{2028}2\u{85}3\"")
    #expect(
      separators.text.contains(#""1\u{2028}2\u{85}3""#), "\(separators.text)\(separators.errors)")

    // The command reports problems itself, before it asks the server, and nothing changes.
    let wrong = try await run("set", "-", input: "{\"rules\":{\".read\":1}}")
    #expect(wrong.isSentence && wrong.errors.hasPrefix("Error: stdin:1:"), "\(wrong)")
    let long = "{\"rules\":{}}" + String(repeating: " ", count: 1_048_576)
    let tooLong = try await run("set", "-", input: long)
    #expect(tooLong.isSentence && tooLong.errors.contains("--line-bytes-max"), "\(tooLong)")
    for ending in [
      try await run("explain", "@nobody", "read", "/a"),
      try await run("explain", "null", "drop", "/"),
      try await Command.run(["rules", "get", "--data", folder.path + "/missing"]),
    ] { ending.expectSentence() }
    try await client.expect("GET /a", "+1")
    try await server.destroy()
    let alone = try await run("get")
    #expect(alone.isSentence && alone.errors.contains("no server is running"), "\(alone)")

    let next = try await ServerProcess(data: data)
    let again = try await next.connect()
    try await again.expect("GET /a", "+1")
    try await again.expect("GET /posts", failsWith: "PERMISSION_DENIED")
    try await run("set", "built-in").expect(status: 0)
    try await again.expect("GET /posts", "+null")
    #expect(!FileManager.default.fileExists(atPath: data + "/rules.json"))
    #expect(try await next.terminate() == 0)
    try await Command.run(["verify", "--data", data]).expect(status: 0)
  }

  @Test func `a lost file of rules opens nothing`() async throws {
    let data = folder.path + "/data"
    let file = data + "/rules.json"
    let backup = folder.path + "/backup.tar"
    func administrator(_ server: ServerProcess) async throws -> LineSocketClient {
      let client = try await server.connect()
      try await client.value(try ServerProcess.authentication(data: data))
      return client
    }
    let server = try await ServerProcess(data: data)
    var admin = try await administrator(server)
    try await admin.value("RULES {\"rules\":{\".write\":true}}")
    try await admin.value("SET /n/x \"hidden\"")
    try FileManager.default.removeItem(atPath: file)
    #expect(try await admin.request("BACKUP").contains("rules.json is missing"))
    #expect(try await server.terminate() == 0)

    let sentence = "\(file) is missing, and its rules were in force"
    let verified = try await Command.run(["verify", "--data", data])
    #expect(verified.status == 1 && verified.text.hasPrefix(sentence), "\(verified)")
    for arguments in [
      ["backup", "--data", data, backup], ["serve", "--data", data, "--port", "0"],
    ] {
      let ending = try await Command.run(arguments)
      #expect(ending.status == 1 && ending.errors.contains(sentence), "\(ending)")
    }
    #expect(!FileManager.default.fileExists(atPath: file))
    #expect(!FileManager.default.fileExists(atPath: backup))

    // Only once, and after it there is a file again.
    for options in [["--accept-loss"], []] {
      let next = try await ServerProcess(data: data, options)
      #expect(next.log.contains("rules.json is lost") == !options.isEmpty)
      let client = try await next.connect()
      try await client.expect("GET /posts", failsWith: "PERMISSION_DENIED")
      try await client.expect("SET /a 1", failsWith: "PERMISSION_DENIED")
      #expect(try await next.terminate() == 0)
    }
    try await Command.run(["verify", "--data", data]).expect(status: 0)
    let last = try await ServerProcess(data: data)
    admin = try await administrator(last)
    try await admin.value("RULES built-in")
    try await last.connect().expectSuccess(of: "GET /posts")
    #expect(try await last.terminate() == 0)
    #expect(!FileManager.default.fileExists(atPath: file))
    try await Command.run(["verify", "--data", data]).expect(status: 0)
  }

  @Test func `a file of rules with another checksum is refused, and one without a checksum is not`()
    async throws
  {
    let data = folder.path + "/data"
    let file = data + "/rules.json"
    let server = try await ServerProcess(data: data)
    let admin = try await server.connect()
    try await admin.value(try ServerProcess.authentication(data: data))
    try await admin.value("RULES \"{\\\"rules\\\":{\\\".read\\\":\\\"now < 1000\\\"}}\"")
    let whole = try String(contentsOfFile: file, encoding: .utf8)
    // One bit makes one of the other.
    try write(whole.replacing("now < 1000", with: "now > 1000"), to: file)
    #expect(try await admin.request("BACKUP").contains("rules.json is damaged, or was edited"))
    #expect(try await server.terminate() == 0)
    for arguments in [
      ["backup", "--data", data, folder.path + "/backup.tar"],
      ["serve", "--data", data, "--port", "0"], ["verify", "--data", data],
    ] {
      let ending = try await Command.run(arguments)
      #expect(
        ending.status == 1
          && (ending.errors + ending.text).contains("\(file) is damaged, or was edited"),
        "\(ending)")
    }
    // As the sentence says.
    let lines = whole.replacing("now < 1000", with: "now > 1000").split(separator: "\n")
    try write(lines.dropLast().joined(separator: "\n"), to: file)
    for isFirst in [true, false] {
      let next = try await ServerProcess(data: data)
      try await next.connect().expect("GET /n", "+null")
      #expect(next.log.contains("rules.json has changed since the last run") == isFirst)
      #expect(try await next.terminate() == 0)
    }
    try await Command.run(["verify", "--data", data]).expect(status: 0)
  }

  @Test func `the administrator's token is not sent to a program that has taken the port`()
    async throws
  {
    let data = folder.path + "/data"
    let server = try await ServerProcess(data: data)
    #expect(try await server.terminate() == 0)
    #expect(!FileManager.default.fileExists(atPath: data + "/canopy.sock"))
    let thief = socket(AF_INET, Int32(SOCK_STREAM.rawValue | SOCK_NONBLOCK.rawValue), 0)
    defer { close(thief) }
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
    var length = socklen_t(MemoryLayout<sockaddr_in>.size)
    let isListening = withUnsafeMutablePointer(to: &address) { pointer in
      pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        bind(thief, $0, length) == 0 && listen(thief, 8) == 0
          && getsockname(thief, $0, &length) == 0
      }
    }
    try #require(isListening)
    let port = "\(UInt16(bigEndian: address.sin_port))"
    let ending = try await Command.run(
      ["rules", "get", "--data", data], environment: ["CANOPY_PORT": port])
    #expect(
      ending.errors
        == "Error: no server is running on \(data); start one with canopy serve --data \(data)\n")
    #expect(accept(thief, nil, nil) == -1 && errno == EAGAIN, "no client has connected")
  }

  @Test func `an on-disconnect write of a killed server is authorized as its user`()
    async throws
  {
    let data = folder.path + "/data"
    try FileManager.default.createDirectory(atPath: data, withIntermediateDirectories: false)
    try write(
      """
      {"rules":{"$any":{".read":true,".write":
        "auth.token.email === 'ada@example.org' && root.child('closed').val() !== true"},
        "closed":{".write":true}}}
      """, to: data + "/rules.json")
    for isClosed in [false, true] {
      let server = try await ServerProcess(data: data)
      let client = try await server.connect()
      try await client.value(
        isClosed
          ? "LOGIN ada@example.org \"engine of 1843\""
          : "SIGNUP ada@example.org \"engine of 1843\" ada")
      try await client.value("ONDISCONNECT SET /gone \(isClosed)")
      if isClosed { try await client.value("SET /closed true") }
      try await server.destroy()
      let next = try await ServerProcess(data: data)
      try await next.connect().expect("GET /gone", "+false")
      #expect(next.log.contains("do not allow") == isClosed)
      #expect(try await next.terminate() == 0)
    }
  }
}
