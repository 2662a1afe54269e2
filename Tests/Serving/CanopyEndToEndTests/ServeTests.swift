import CanopyTesting
import CanopyTree
import Foundation
import Testing

/// A server that is a process of its own, through its public interfaces.
@Suite(.timeLimit(.minutes(20)), .serialized) struct ServeTests {
  private static let fixture = Checkout.root.appending(path: "Seeds/demo.json").path

  private static let login = "LOGIN harriet.adeyemi@example.org chalk-dust-and-litmus-7"

  @Test func `a server of a seeded folder shuts down, and a restarted one has all writes`()
    async throws
  {
    let folder = try TemporaryFolder()
    let data = folder.path + "/data"
    let seeded = try await Command.run(["seed", "--data", data, Self.fixture])
    #expect(seeded.status == 0, "\(seeded)")
    #expect(seeded.errors.contains("seeded 10 people, 62 posts"))
    let again = try await Command.run(["seed", "--data", data, Self.fixture])
    #expect(again.isSentence, "\(again)")

    var server = try await ServerProcess(data: data)
    var client = try await server.connect()
    try await client.expect("PING", "+\"PONG\"")
    try await client.value(Self.login)
    let id = try await client.text("id", "POST \"After the fixture\" \"It is kept.\"")
    try await client.expect("STAR \(id)", "+{\"starred\":true,\"starCount\":1}")
    let shown = try await client.request("SHOW \(id)")
    #expect(try await client.value("RECENT {\"limit\":100}").elements?.count == 63)
    let token = try String(contentsOfFile: data + "/admin-token", encoding: .utf8)
    let administrator = try await server.connect()
    try await administrator.value("AUTH \(token.trimmingCharacters(in: .whitespacesAndNewlines))")
    try await administrator.expect("COUNT /posts", "+63")
    #expect(try await server.terminate() == 0)
    #expect(server.log.contains("stopped in good order"))
    try await client.expectClosed()
    try await administrator.expectClosed()

    let verified = try await Command.run(["verify", "--data", data])
    #expect(verified.status == 0 && verified.text.hasPrefix("ok: "), "\(verified)")
    server = try await ServerProcess(data: data)
    client = try await server.connect()
    try await client.expect("SHOW \(id)", shown)
    try await client.value(Self.login)
    #expect(try await server.terminate() == 0)
  }

  @Test func `both ports serve the same data, and it is there after a restart`() async throws {
    let folder = try TemporaryFolder()
    let data = folder.path + "/data"
    let environment = ["CANOPY_HTTP_PORT": "0"]
    /// Returns the lines of the response. A second request ends the last line.
    func http(_ server: ServerProcess, _ target: String) async throws -> [String] {
      let client = try await LineSocketClient(port: server.httpPort)
      let rest = "HTTP/1.1\r\nHost: x\r\n"
      try await client.send(
        Array("GET \(target) \(rest)\r\nGET /health \(rest)Connection: close\r\n\r\n".utf8))
      var lines: [String] = []
      while let line = try await client.mailbox.next() { lines.append(line) }
      return lines
    }
    var server = try await ServerProcess(data: data, environment: environment)
    let client = try await server.connect()
    try await client.value(ServerProcess.authentication(data: data))
    try await client.value("SET /a {\"b\":7}")
    let token = try ServerProcess.authentication(data: data).dropFirst("AUTH ".count)
    let get = "/a/b.json?auth=\(token)"
    let lines = try await http(server, get)
    #expect(lines.first == "HTTP/1.1 200 OK", "\(lines)")
    #expect(lines.contains("7HTTP/1.1 200 OK"), "\(lines)")
    #expect(try await http(server, "/a.json").first == "HTTP/1.1 401 Unauthorized")
    #expect(try await server.terminate() == 0)
    server = try await ServerProcess(data: data, environment: environment)
    #expect(try await http(server, get).contains("7HTTP/1.1 200 OK"))
    #expect(try await server.terminate() == 0)
  }

  @Test(arguments: ["0", "off"])
  func `the link to the console has the port of the server`(httpPort: String) async throws {
    let folder = try TemporaryFolder()
    let server = try await ServerProcess(
      data: folder.path, environment: ["CANOPY_HTTP_PORT": httpPort])
    let ending = try await Command.run(["console", "--data", folder.path])
    if httpPort == "off" {
      ending.expectSentence()
      #expect(ending.errors.contains("has no HTTP port"), "\(ending)")
    } else {
      let link = "http://127.0.0.1:\(server.httpPort)/console/#pass="
      #expect(ending.text.hasPrefix(link), "\(ending)")
    }
    #expect(try await server.terminate() == 0)
  }

  @Test func `an emulator that other machines could reach does not start`() async throws {
    let folder = try TemporaryFolder()
    let ending = try await Command.run(
      ["serve", "--data", folder.path + "/data", "--emulator", "--host", "0.0.0.0"])
    #expect(ending.isSentence && ending.errors.contains("127.0.0.1"), "\(ending)")
  }

  @Test func `a write is refused when the folder was removed under the server`() async throws {
    let folder = try TemporaryFolder()
    let data = folder.path + "/data"
    let server = try await ServerProcess(data: data)
    let client = try await server.connect()
    try await client.expectSuccess(of: try ServerProcess.authentication(data: data))
    try await client.expect("SET /a 1", "+{\"seq\":1}")
    try FileManager.default.removeItem(atPath: data)
    for _ in 0..<3 { try await client.expect("SET /a 2", failsWith: "UNAVAILABLE") }
    try await client.expect("GET /a", "+1")
    #expect(server.log.contains("was removed or replaced while the server was running"))
    _ = try await server.terminate()
  }

  @Test
  func `a folder that lost commits is refused, and served with --accept-loss`()
    async throws
  {
    let folder = try TemporaryFolder()
    let data = folder.path + "/data"
    try await Command.run(["seed", "--data", data, Self.fixture])
    var server = try await ServerProcess(data: data)
    var client = try await server.connect()
    try await client.value(ServerProcess.authentication(data: data))
    for number in 1...5 { try await client.value("SET /n/\(number) \(number)") }
    try await server.destroy()
    let log = URL(fileURLWithPath: data + "/canopy.sqlite-wal")
    var bytes = try Data(contentsOf: log)
    // Two frames and more, so that no checksum proves the bytes that were there.
    let damaged = bytes.count / 2..<min(bytes.count, bytes.count / 2 + 10_000)
    bytes.resetBytes(in: damaged)
    try bytes.write(to: log)
    for command in [["serve", "--port", "0"], ["verify"], ["export"]] {
      let ending = try await Command.run(command + ["--data", data])
      let text = ending.text + ending.errors
      #expect(ending.status == 1, "\(ending)")
      #expect(
        text.contains("which were stored, are missing")
          || text.contains("which was stored, is missing"), "\(text)")
    }
    server = try await ServerProcess(data: data, ["--accept-loss"])
    #expect(server.log.contains("accepted: "))
    client = try await server.connect()
    #expect(try await client.value("RECENT {\"limit\":100}").elements?.count == 62)
    #expect(try await server.terminate() == 0)
    let verified = try await Command.run(["verify", "--data", data])
    #expect(verified.status == 0, "\(verified)")
  }

  @Test func `acknowledged posts survive a kill of the server under load`() async throws {
    let folder = try TemporaryFolder()
    let server = try await ServerProcess(data: folder.path, ["--checkpoint-every", "50"])
    let posts = try await withThrowingTaskGroup(of: [String].self) { group in
      for number in 0..<4 {
        group.addTask {
          let client = try await server.connect()
          try await client.value("SIGNUP a\(number)@example.org \"words of \(number)\" a\(number)")
          var ids: [String] = []
          do {
            while true {
              for count in 0..<8 { try await client.send("POST \"\(ids.count + count)\" body\n") }
              for _ in 0..<8 {
                let reply = try JSONValue(json: String(try await client.readLine().dropFirst()))
                ids.append(try #require(reply["id"]?.string))
              }
              if ids.count >= 160, number == 0 { try await server.destroy() }
            }
          } catch {
            // The server has ended. All acknowledged posts must exist.
            return ids
          }
        }
      }
      return try await group.reduce(into: []) { $0 += $1 }
    }
    #expect(posts.count >= 160)
    let verified = try await Command.run(["verify", "--data", folder.path])
    #expect(verified.status == 0 && verified.text.hasPrefix("ok: "), "\(verified)")
    let restarted = try await ServerProcess(data: folder.path)
    let client = try await restarted.connect()
    for id in posts { try await client.expect("SHOW \(id)", hasPrefix: "+{\"id\":") }
    #expect(try await restarted.terminate() == 0)
  }

  @Test func `a folder has one server`() async throws {
    let folder = try TemporaryFolder()
    let server = try await ServerProcess(data: folder.path)
    for arguments in [["serve", "--port", "0"], ["verify"], ["export"]] {
      let second = try await Command.run(arguments + ["--data", folder.path])
      #expect(second.isSentence, "\(second)")
      #expect(second.errors.contains("in use by process \(server.pid)"))
    }
    let client = try await server.connect()
    try await client.expect("PING", "+\"PONG\"")
    #expect(try await server.terminate() == 0)
  }

  @Test func `the error for a port in use says what to do`() async throws {
    let (folder, other) = (try TemporaryFolder(), try TemporaryFolder())
    let server = try await ServerProcess(data: folder.path)
    // A time limit from outside: the test must not hang if the server does.
    let limited = [
      "-s", "KILL", "5", Command.path, "serve", "--data", other.path, "--port", "\(server.port)",
    ]
    let second = try await Command.run(limited, program: "/usr/bin/timeout")
    #expect(second.status == 1, "\(second)")
    #expect(second.errors.hasSuffix("(Address already in use); name another address or port\n"))
    #expect(!second.errors.contains("EventLoop"), "\(second.errors)")
    // No port is ready if one of them is in use.
    let withHTTP = try await Command.run(
      limited, environment: ["CANOPY_HTTP_PORT": "0"], program: "/usr/bin/timeout")
    #expect(withHTTP.status == 1 && withHTTP.text.isEmpty, "\(withHTTP)")
    #expect(try await server.terminate() == 0)
  }

  @Test(arguments: [("nonsense.invalid", false), ("192.0.2.1", false), ("127.0.0.1", true)])
  func `a check of the options finds an address that is not of this machine`(
    host: String, isOwn: Bool
  ) async throws {
    let folder = try TemporaryFolder()
    let ending = try await Command.run(
      ["serve", "--check", "--data", folder.file("data"), "--host", host])
    ending.expect(status: isOwn ? 0 : 1)
    #expect(isOwn || ending.errors.contains("cannot listen on \(host) ("), "\(ending)")
    #expect(try folder.files().isEmpty)
  }

  @Test(arguments: [(21_200, 64), (21_201, 0)])
  func `a check of the options finds one port for both protocols`(
    httpPort: Int, status: Int32
  ) async throws {
    let folder = try TemporaryFolder()
    let ending = try await Command.run([
      "serve", "--check", "--data", folder.file("data"), "--port", "21200", "--http-port",
      "\(httpPort)",
    ])
    ending.expect(status: status)
    #expect(status == 0 || ending.errors.contains("must be different ports"), "\(ending)")
  }

  @Test func `a server with open connections shuts down`() async throws {
    let folder = try TemporaryFolder()
    let server = try await ServerProcess(data: folder.path)
    var clients: [LineSocketClient] = []
    for _ in 0..<50 { clients.append(try await server.connect()) }
    for client in clients { try await client.expect("PING", "+\"PONG\"") }
    kill(server.pid, SIGINT)
    #expect(try await server.end() == 0)
    for client in clients { try await client.expectClosed() }
    await #expect(throws: (any Error).self) { _ = try await server.connect() }
  }
}
