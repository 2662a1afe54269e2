import CanopyTesting
import Foundation
import Testing

/// A server at the limit of open files.
@Suite(.timeLimit(.minutes(20)), .serialized) struct OpenFilesTests {
  private static let limiter = "/usr/bin/prlimit"

  @Test func `a limit that is too low is reported before the server creates anything`() async throws
  {
    let folder = try TemporaryFolder()
    let data = folder.path + "/data"
    for limit in [16, 83] {
      let ending = try await Command.run(
        [
          "--nofile=\(limit)", Command.path, "serve", "--data", data, "--port", "0", "--threads",
          "1",
        ],
        program: Self.limiter)
      #expect(ending.status == 1, "\(ending)")
      #expect(
        ending.errors
          == "Error: the system lets this process open \(limit) files, and it needs at least 84; "
          + "raise the limit, for instance with ulimit -n 1024\n")
      #expect(!FileManager.default.fileExists(atPath: data))
    }
    for arguments in [["shell", "--port", "1"], ["rules", "get", "--data", data]] {
      let ending = try await Command.run(
        ["--nofile=12", Command.path] + arguments, program: Self.limiter)
      #expect(ending.isSentence && ending.errors.contains("ulimit"), "\(ending)")
    }
  }

  @Test func `connections within the limit are served, and others receive an error`() async throws {
    let folder = try TemporaryFolder()
    let server = try await ServerProcess(
      data: folder.path, ["--threads", "1"], through: [Self.limiter, "--nofile=100"])
    #expect(server.log.contains("leaves room for fewer connections"))
    var clients: [LineSocketClient] = []
    for _ in 0..<32 {
      let client = try await server.connect()
      try await client.expect("PING", "+\"PONG\"")
      clients.append(client)
    }
    for _ in 0..<200 {
      let client = try await server.connect()
      try await client.expectNext(to: "a connection", failsWith: "OVERLOADED")
      try await client.expectClosed()
    }
    try await clients[0].value("SIGNUP ada@example.org \"engine of 1843\" ada")
    try await clients[0].value("POST title body")
    let rules = try await Command.run(["rules", "get", "--data", folder.path])
    #expect(rules.status == 0, "the administrator gets in: \(rules)")
    #expect(try await server.terminate() == 0)
    #expect(!server.log.contains("no connection can be accepted"))
  }

  @Test func `without a descriptor the server waits, logs it once, and accepts again later`()
    async throws
  {
    let folder = try TemporaryFolder()
    let server = try await ServerProcess(data: folder.path, ["--threads", "1"])
    let client = try await server.connect()
    try await client.value("SIGNUP ada@example.org \"engine of 1843\" ada")
    // A limit below the number of open files, set from outside, makes each attempt to accept fail.
    try await Command.run(
      ["--pid", "\(server.pid)", "--nofile=8:20000"], program: Self.limiter)
    var waiting: [LineSocketClient] = []
    for _ in 0..<20 { waiting.append(try await server.connect()) }
    while !server.log.contains("no connection can be accepted") {
      try await client.value("POST title body")
    }
    try await Command.run(
      ["--pid", "\(server.pid)", "--nofile=20000:20000"], program: Self.limiter)
    for client in waiting { try await client.expect("PING", "+\"PONG\"") }
    #expect(server.log.components(separatedBy: "no connection can be accepted").count == 2)
    #expect(try await server.terminate() == 0)
  }
}
