import CanopyTesting
import CanopyTree
import Foundation
import Testing

/// `canopy user` on the folder of a running server, and the same on a stopped one.
@Suite(.timeLimit(.minutes(20)), .serialized) struct UserCommandTests {
  private let folder: TemporaryFolder

  init() throws {
    folder = try TemporaryFolder()
  }

  private func user(_ arguments: String..., input: String = "") async throws -> Command.Ending {
    try await Command.run(["user"] + arguments + ["--data", folder.path], input: input)
  }

  /// Runs a command that must succeed, and returns its output without the last line break.
  private func output(
    _ arguments: String..., input: String = "", at location: SourceLocation = #_sourceLocation
  ) async throws -> String {
    let ending = try await Command.run(
      ["user"] + arguments + ["--data", folder.path], input: input)
    ending.expect(status: 0, at: location)
    return ending.text.trimmingCharacters(in: .newlines)
  }

  /// Runs the same commands with and without a server.
  @Test(arguments: [true, false])
  func `accounts are managed while a server runs, and while none does`(
    _ isServed: Bool
  ) async throws {
    #expect(try await output("add", "eve@example.org", "eve", input: "words of eve\n") != "")
    var server: ServerProcess?
    if isServed { server = try await ServerProcess(data: folder.path) }
    let uid = try await output("add", "ada@example.org", "ada", input: "engine of 1843\n")
    #expect(uid.utf8.count == 20)
    for arguments in [
      ["disable", "nobody@example.org"], ["disable", "@nobody"], ["delete", "nobody"],
      ["reset-code", "nobody"], ["end-sessions", "nobody"], ["export", "nobody"],
    ] {
      let ending = try await Command.run(["user"] + arguments + ["--data", folder.path])
      #expect(ending.isSentence, "\(arguments): \(ending)")
    }
    try await user("add", "ada@example.org", "x", input: "engine of 1843\n").expectSentence()
    try await user("set-password", uid, input: "short\n").expectSentence()
    #expect(try await output("disable", "@Ada") == "")
    #expect(try await output("list").contains("\(uid)\tada@example.org\tada\tdisabled"))
    try await user("reset-code", "@ada").expectSentence("a disabled account gets no code")
    #expect(try await output("enable", "ADA@example.org") == "")
    #expect(try await output("set-password", uid, input: "another engine\n") == "")
    #expect(try await output("end-sessions", "@ada") == "")
    let code = try await output("reset-code", "ada@example.org")
    #expect(code.utf8.count == 43)
    let export = try JSONValue(json: try await output("export", "@ada"))
    #expect(export["account"]?["uid"]?.string == uid)
    #expect(export["account"]?["username"]?.string == "ada" && export["after"] == .null)
    #expect(export["posts"] == .array([]) && export["account"]?["sessions"] == .array([]))
    #expect(try await output("delete", "@eve").utf8.count == 20)
    #expect(try await output("list") == "\(uid)\tada@example.org\tada\tactive")

    let running: ServerProcess
    if let server { running = server } else { running = try await ServerProcess(data: folder.path) }
    let client = try await running.connect()
    try await client.value("LOGIN ada@example.org \"another engine\"")
    try await client.value("RESET \(code) \"words of a new engine\"")
    try await client.expect("WHOAMI", "+null")
    #expect(!running.log.contains("another engine") && !running.log.contains(code))
    #expect(try await running.terminate() == 0)
    try await Command.run(["verify", "--data", folder.path]).expect(status: 0)
  }

  @Test func `a command on a running server ends the sessions and subscriptions at once`()
    async throws
  {
    let server = try await ServerProcess(data: folder.path)
    let client = try await server.connect()
    try await client.value("SIGNUP ada@example.org \"engine of 1843\" ada")
    _ = try await output("disable", "@ada")
    try await client.expect("WHOAMI", "+null")
    try await client.expect("POST a b", failsWith: "UNAUTHENTICATED")
    try await client.expect(
      "LOGIN ada@example.org \"engine of 1843\"", failsWith: "PERMISSION_DENIED")
    #expect(server.log.contains("the administrator has disabled an account"))
    #expect(try await server.terminate() == 0)
    let restarted = try await ServerProcess(data: folder.path)
    let again = try await restarted.connect()
    try await again.expect(
      "LOGIN ada@example.org \"engine of 1843\"", failsWith: "PERMISSION_DENIED")
    #expect(try await restarted.terminate() == 0)
  }

  @Test(arguments: [true, false])
  func `an account is deleted with its posts while a server runs, and while none does`(
    _ isServed: Bool
  ) async throws {
    let server = try await ServerProcess(data: folder.path)
    let (ada, bob) = (try await server.connect(), try await server.connect())
    try await ada.value("SIGNUP ada@example.org \"engine of 1843\" ada")
    try await bob.value("SIGNUP bob@example.org \"words of bob\" bob")
    let others = try await bob.text("id", "POST theirs body")
    for _ in 0..<20 {
      let id = try await ada.text("id", "POST mine body")
      try await bob.value("COMMENT \(id) nice")
    }
    try await ada.value("STAR \(others)")
    try await ada.value("COMMENT \(others) mine")
    if !isServed { #expect(try await server.terminate() == 0) }
    #expect(try await output("delete", "@ada", "--posts").utf8.count == 20)
    if isServed {
      try await eventually {
        server.log.contains("everything that a deleted user had added is removed")
      }
      #expect(try await bob.request("SHOW \(others)").contains("\"starCount\":0"))
      #expect(try await server.terminate() == 0)
    }
    let export = try await Command.run(["export", "--data", folder.path])
    #expect(export.status == 0 && !export.text.contains("ada"), "\(export)")
    #expect(export.text.contains("theirs"))
    let verified = try await Command.run(["verify", "--data", folder.path])
    #expect(verified.status == 0, "\(verified)")
    #expect(try await output("list").hasSuffix("\tbob@example.org\tbob\tactive"))
  }

  @Test func `a long list comes from a running server in pages`() async throws {
    let server = try await ServerProcess(data: folder.path)
    let client = try await server.connect()
    // Accounts without a password cost no hash.
    for _ in 0..<130 { try await client.value("ANONYMOUS") }
    let lines = try await output("list").split(separator: "\n")
    #expect(lines.count == 130 && Set(lines).count == 130)
    #expect(lines.allSatisfy { $0.hasSuffix("\t\t-\tactive") })
    #expect(try await server.terminate() == 0)
  }
}
