import CanopyTesting
import Foundation
import Testing

/// `canopy serve` as a service manager runs it.
@Suite(.timeLimit(.minutes(20))) struct ManagedServerTests {
  /// Returns the states that the server has sent, up to one.
  private func states(at manager: DatagramReceiver, until last: String) async throws -> [String] {
    var states: [String] = []
    try await eventually {
      while states.last != last, let state = manager.next() { states.append(state) }
      return states.last == last
    }
    return states
  }

  @Test(arguments: ["off", "0"])
  func `the manager hears when all ports are open, that the server works, and when it stops`(
    httpPort: String
  ) async throws {
    let folder = try TemporaryFolder()
    let path = folder.file("notify")
    let manager = try DatagramReceiver(path)
    let server = try await ServerProcess(
      data: folder.file("data"),
      environment: [
        "NOTIFY_SOCKET": path, "WATCHDOG_USEC": "200000", "CANOPY_HTTP_PORT": httpPort,
      ])
    // A report of the watchdog may come first.
    let first = try await states(at: manager, until: "READY=1").filter { $0 != "WATCHDOG=1" }
    #expect(first == ["READY=1"])
    for _ in 0..<3 {
      #expect(try await states(at: manager, until: "WATCHDOG=1") == ["WATCHDOG=1"])
    }
    let client = try await server.connect()
    try await client.expect("PING", "+\"PONG\"")
    // The manager sends it for a reload. There is no certificate to read again.
    kill(server.pid, SIGHUP)
    try await client.expect("PING", "+\"PONG\"")
    // A socket whose reports nobody reads takes ten of them, and the server waits only some seconds for room.
    async let rest = states(at: manager, until: "STOPPING=1")
    #expect(try await server.terminate() == 0)
    #expect(try await rest.filter { $0 != "WATCHDOG=1" } == ["STOPPING=1"])
  }

  @Test func `without a watchdog the server sends no reports`() async throws {
    let folder = try TemporaryFolder()
    let path = folder.file("notify")
    let manager = try DatagramReceiver(path)
    let server = try await ServerProcess(
      data: folder.file("data"), environment: ["NOTIFY_SOCKET": path])
    #expect(try await states(at: manager, until: "READY=1") == ["READY=1"])
    #expect(try await server.terminate() == 0)
    #expect(try await states(at: manager, until: "STOPPING=1") == ["STOPPING=1"])
  }

  @Test func `a server without its manager's socket serves, and says so`() async throws {
    let folder = try TemporaryFolder()
    let server = try await ServerProcess(
      data: folder.file("data"), environment: ["NOTIFY_SOCKET": folder.file("missing")])
    let client = try await server.connect()
    try await client.expect("PING", "+\"PONG\"")
    #expect(try await server.terminate() == 0)
    #expect(server.log.contains("the service manager cannot be notified"))
  }

  @Test func `a line for the journal has its priority, no time, and no second line`() async throws {
    let folder = try TemporaryFolder()
    let script = #"export JOURNAL_STREAM=$(stat -L -c %d:%i /proc/self/fd/2); exec "$0" "$@""#
    let server = try await ServerProcess(
      data: folder.file("a\n<1>b"), through: ["/bin/bash", "-c", script])
    #expect(try await server.terminate() == 0)
    let lines = server.log.split(separator: "\n")
    #expect(lines.count >= 3)
    for line in lines { #expect(line.wholeMatch(of: /<[2-7]>[a-z].*/) != nil, "\(line)") }
    #expect(
      lines.contains("<6>the data folder is open folder=\(folder.path)/a\\n<1>b seq=0"),
      "\(server.log)")
  }

  @Test func `a check finds invalid options, certificates and rules, and creates nothing`()
    async throws
  {
    let folder = try TemporaryFolder()
    let data = folder.file("data")
    let check = ["serve", "--check", "--data", data]
    let valid = try await Command.run(check)
    #expect(valid.status == 0 && valid.output.isEmpty, "\(valid)")
    let port = try await Command.run(check, environment: ["CANOPY_PORT": "none"])
    #expect(port.isSentence && port.status == 64 && port.errors.contains("CANOPY_PORT"), "\(port)")
    let certificate = try await Command.run(
      check + ["--tls-certificate", folder.file("none.pem"), "--tls-key", folder.file("none.pem")])
    #expect(certificate.isSentence && certificate.errors.contains("none.pem"), "\(certificate)")
    #expect(!FileManager.default.fileExists(atPath: data))

    let server = try await ServerProcess(data: data)
    let beside = try await Command.run(check)
    #expect(beside.status == 0, "a check works beside a server: \(beside)")
    try Data("{".utf8).write(to: URL(filePath: data + "/rules.json"))
    let rules = try await Command.run(check)
    #expect(rules.isSentence && rules.errors.contains("rules.json"), "\(rules)")
    #expect(try await server.terminate() == 0)
  }
}
