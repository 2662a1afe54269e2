import CanopyTesting
import CanopyTree
import Foundation
import Testing

/// On-disconnect writes after each way in which a connection can end.
@Suite(.timeLimit(.minutes(20)), .serialized) struct OnDisconnectTests {
  private static let shown = "made on-disconnect writes"

  /// Connects to a server as the administrator.
  private func administrator(_ server: ServerProcess, _ data: String) async throws
    -> LineSocketClient
  {
    let client = try await server.connect()
    try await client.value(try ServerProcess.authentication(data: data))
    return client
  }

  @Test func `the writes are made when the client is killed, sends QUIT, or ends its input`()
    async throws
  {
    let folder = try TemporaryFolder()
    let server = try await ServerProcess(data: folder.path)
    let observer = try await administrator(server, folder.path)
    for end in ["kill -9", "QUIT", "end of input"] {
      let client = try ClientProcess(port: server.port)
      try await client.value(try ServerProcess.authentication(data: folder.path))
      try await client.value("SET /presence {\"ada\":\"here\",\"times\":0}")
      try await client.value("ONDISCONNECT SET /presence/ada \"gone\"")
      try await client.value(
        "ONDISCONNECT UPDATE /presence {\"times\":{\".sv\":{\"increment\":1}}}")
      let sub = try await observer.value("LISTEN /presence {\"events\":\"value\"}")["sub"]?.integer
      _ = try await observer.readLine()
      let clock = ContinuousClock()
      let start = clock.now
      switch end {
      case "QUIT": try await client.send("QUIT\n")
      case "end of input": try await client.shutDownSending()
      default: await client.disconnect()
      }
      let event = try await observer.readLine()
      print("OnDisconnectTests: \(end): \(clock.now - start) to the writes")
      #expect(event.contains("\"data\":{\"ada\":\"gone\",\"times\":1}"), "\(event)")
      try await observer.value("UNLISTEN \(try #require(sub))")
    }
    #expect(try await server.terminate() == 0)
    // Nothing is left for the next start.
    let again = try await ServerProcess(data: folder.path)
    #expect(!again.log.contains(Self.shown))
    #expect(try await again.terminate() == 0)
  }

  @Test func `the writes of a killed server are made once, before the next server is ready`()
    async throws
  {
    let folder = try TemporaryFolder()
    var server = try await ServerProcess(data: folder.path)
    let first = try await administrator(server, folder.path)
    let second = try await administrator(server, folder.path)
    let before = try await first.value(
      "SET /presence {\"a\":1,\"b\":1,\"c\":{\"x\":1,\"y\":1},\"times\":0}")["seq"]?.integer
    try await first.value("ONDISCONNECT REMOVE /presence/a")
    try await first.value(
      "ONDISCONNECT UPDATE /presence {\"times\":{\".sv\":{\"increment\":1}}}")
    try await second.value("ONDISCONNECT REMOVE /presence/b")
    try await second.value("ONDISCONNECT CANCEL /presence/b")
    // One part is cancelled.
    try await second.value("ONDISCONNECT UPDATE /presence/c {\"x\":2,\"y\":2}")
    try await second.value("ONDISCONNECT CANCEL /presence/c/y")
    // A later request replaces this one.
    try await second.value("ONDISCONNECT SET /presence/d 1")
    try await second.value("ONDISCONNECT SET /presence/d 2")
    try await server.destroy()
    let clock = ContinuousClock()
    let start = clock.now
    server = try await ServerProcess(data: folder.path)
    let log = server.log
    print("OnDisconnectTests: after a crash, ready with the writes made: \(clock.now - start)")
    #expect(log.components(separatedBy: Self.shown).count == 2, "\(log)")
    #expect(log.contains("writes=4"), "\(log)")
    // Before any port is open: no client that has connected again may write before them.
    let made = try #require(log.range(of: Self.shown))
    let open = try #require(log.range(of: "a port is open"))
    #expect(made.upperBound < open.lowerBound, "\(log)")
    let expected = "+{\"b\":1,\"c\":{\"x\":2,\"y\":1},\"d\":2,\"times\":1}"
    var client = try await administrator(server, folder.path)
    try await client.expect("GET /presence", expected)

    // After another kill and start they are not made again.
    let after = try await client.value("SET /presence/b 5")["seq"]?.integer
    #expect(try #require(after) == #require(before) + 3, "one commit for each connection, and this")
    try await server.destroy()
    server = try await ServerProcess(data: folder.path)
    #expect(!server.log.contains(Self.shown))
    client = try await administrator(server, folder.path)
    try await client.expect(
      "GET /presence", expected.replacing("\"b\":1", with: "\"b\":5"))
    #expect(try await server.terminate() == 0)
    let verified = try await Command.run(["verify", "--data", folder.path])
    #expect(verified.status == 0, "\(verified)")
  }

  @Test func `the writes are not made if the session was revoked or the account disabled before`()
    async throws
  {
    let folder = try TemporaryFolder()
    try Data("{\"rules\":{\".read\":true,\"$any\":{\".write\":\"auth != null\"}}}".utf8)
      .write(to: URL(fileURLWithPath: folder.path + "/rules.json"))
    var server = try await ServerProcess(data: folder.path)
    for name in ["ada", "eve", "bob"] {
      let (armed, other) = (try await server.connect(), try await server.connect())
      let token = try await armed.text(
        "token", "SIGNUP \(name)@example.org \"words of \(name)\" \(name)")
      try await armed.value("ONDISCONNECT SET /\(name) true")
      if name == "ada" {
        try await other.value("AUTH \(token)")
        try await other.value("LOGOUT")
      }
    }
    try await server.destroy()
    let disabled = try await Command.run(
      ["user", "disable", "--data", folder.path, "eve@example.org"])
    #expect(disabled.status == 0, "\(disabled)")
    server = try await ServerProcess(data: folder.path)
    let client = try await server.connect()
    try await client.expect("GET /ada", "+null")
    try await client.expect("GET /eve", "+null")
    try await client.expect("GET /bob", "+true")
    let dropped = server.log.split(separator: "\n").filter {
      $0.contains("writes have ended; they are dropped")
    }
    #expect(dropped.count == 1 && dropped.first?.contains("writes=2") == true, "\(server.log)")
    #expect(try await server.terminate() == 0)
  }

  @Test func `the writes are made when the server shuts down`() async throws {
    let folder = try TemporaryFolder()
    var server = try await ServerProcess(data: folder.path)
    var client = try await administrator(server, folder.path)
    try await client.value("SET /presence/a 1")
    try await client.value("ONDISCONNECT REMOVE /presence")
    #expect(try await server.terminate() == 0)
    server = try await ServerProcess(data: folder.path)
    client = try await administrator(server, folder.path)
    try await client.expect("GET /presence", "+null")
    #expect(try await server.terminate() == 0)
  }
}
