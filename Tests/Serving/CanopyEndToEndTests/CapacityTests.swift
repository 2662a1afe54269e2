import CanopyTesting
import CanopyTree
import Foundation
import Testing

/// A server at the limits of the machine.
@Suite(.timeLimit(.minutes(20)), .serialized) struct CapacityTests {
  private static let connections = 10_000

  /// The limit on open files, which the first use raises.
  private static let filesMax: UInt = {
    var limit = rlimit()
    let files = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
    guard getrlimit(files, &limit) == 0 else { return 0 }
    limit.rlim_cur = limit.rlim_max
    _ = setrlimit(files, &limit)
    return limit.rlim_cur
  }()

  /// Connects a socket that does nothing.
  private static func idleSocket(port: Int) -> Int32? {
    let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
    guard descriptor >= 0 else { return nil }
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_port = UInt16(port).bigEndian
    address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
    let result = withUnsafePointer(to: &address) { pointer in
      pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        Foundation.connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
      }
    }
    guard result == 0 else {
      close(descriptor)
      return nil
    }
    return descriptor
  }

  @Test(
    .enabled(
      if: filesMax > UInt(connections + 500),
      "the hard limit on open files is too low for 10,000 connections"))
  func `ten thousand idle connections take little memory each, and others are served`() async throws
  {
    let folder = try TemporaryFolder()
    let server = try await ServerProcess(data: folder.path)
    let client = try await server.connect()
    try await client.value("SIGNUP ada@example.org \"engine of 1843\" ada")
    let before = try server.residentBytes()
    var idle: [Int32] = []
    defer { for descriptor in idle { close(descriptor) } }
    while idle.count < Self.connections {
      for _ in 0..<250 { idle.append(try #require(Self.idleSocket(port: server.port))) }
      // The reply shows that the server has accepted the connections before. The kernel queues few unaccepted
      // connections, and lets others wait for seconds.
      let late = try await server.connect()
      try await late.expect("PING", "+\"PONG\"")
      await late.disconnect()
    }
    let files = try FileManager.default.contentsOfDirectory(atPath: "/proc/\(server.pid)/fd").count
    #expect(files > Self.connections)
    #expect(try await client.text("id", "POST title body").utf8.count == 20)
    let bytes = (try server.residentBytes() - before) / Self.connections
    print("CapacityTests: \(bytes) bytes of the server's memory for each idle connection")
    #expect(bytes < 64 * 1_024)
    #expect(try await server.terminate() == 0)
  }

  /// Connections to which each step adds subscriptions.
  private struct Listeners {
    static let connections = 1_000
    static let perConnection = 10

    let server: ServerProcess
    var clients: [LineSocketClient] = []
    private var before: Int

    init(_ server: ServerProcess, authentication: String) async throws {
      self.server = server
      before = try server.residentBytes()
      for _ in 0..<Self.connections {
        let client = try await server.connect()
        try await client.value(authentication)
        clients.append(client)
      }
    }

    /// Adds subscriptions to each connection.
    func listen(_ requests: (_ connection: Int) -> [String]) async throws {
      for (number, client) in clients.enumerated() {
        let lines = requests(number)
        try await client.send(lines.joined(separator: "\n") + "\n")
        for _ in lines {
          let reply = try await client.readLine()
          #expect(reply.hasSuffix("\"initial\":1}"), "\(reply)")
          _ = try await client.readLine()
        }
      }
    }

    /// Returns the growth of the server's memory since the last call, divided by `count`.
    mutating func bytes(_ what: String, of count: Int) throws -> Int {
      let now = try server.residentBytes()
      defer { before = now }
      let bytes = (now - before) / count
      print("CapacityTests: \(bytes) bytes of the server's memory for each \(what)")
      return bytes
    }
  }

  @Test func `idle subscriptions cost little memory each, to one place or to many`() async throws {
    let folder = try TemporaryFolder()
    let server = try await ServerProcess(data: folder.path)
    let warm = try await server.connect()
    try await warm.expect("PING", "+\"PONG\"")
    var listeners = try await Listeners(
      server, authentication: try ServerProcess.authentication(data: folder.path))
    let (connections, each) = (Listeners.connections, Listeners.perConnection)
    let idle = try listeners.bytes("connection that has authenticated", of: connections)

    try await listeners.listen { _ in ["LISTEN /news {\"events\":\"value\"}"] }
    let first = try listeners.bytes(
      "connection's first subscription, to one place", of: connections)
    print("CapacityTests: \(idle + first) bytes for a connection with one subscription")

    try await listeners.listen { _ in
      (0..<each).map { "LISTEN /news/\($0) {\"events\":\"value\"}" }
    }
    let equal = try listeners.bytes(
      "subscription, \(each) a connection to \(each) places", of: connections * each)
    try await listeners.listen { connection in
      (0..<each).map { "LISTEN /users/\(connection)/\($0) {\"events\":\"value\"}" }
    }
    let distinct = try listeners.bytes(
      "subscription, each to a place of its own", of: connections * each)
    // A sanitizer takes more memory.
    for bytes in [first, equal, distinct] { #expect(bytes <= 4_096 || Sanitizer.isPresent) }

    // Each connection receives its own events and no others.
    try await listeners.clients[0].send("SET /users/7/3 1\nSET /news/5 1\n")
    #expect(try await listeners.clients[7].readLine().contains("\"data\":1"))
    for client in [listeners.clients[7], listeners.clients[999]] {
      let lines = try await client.readLines(2)
      #expect(lines.contains { $0.contains("\"data\":{\"5\":1}") }, "\(lines)")
      #expect(lines.contains { $0.contains("\"data\":1") }, "\(lines)")
    }
    for client in listeners.clients { await client.disconnect() }
    #expect(try await server.terminate() == 0)
  }

  /// A folder on a small disk of its own.
  private final class SmallDisk: Sendable {
    let folder: TemporaryFolder
    private let filler: String

    init?() async throws {
      folder = try TemporaryFolder()
      filler = folder.path + "/filler"
      let options = ["-t", "tmpfs", "-o", "size=16m", "canopy-test", folder.path]
      guard
        let ending = try? await Command.run(options, program: "/usr/bin/mount"), ending.status == 0
      else { return nil }
    }

    /// Fills the disk.
    func fill() {
      let file = open(filler, O_WRONLY | O_CREAT | O_APPEND, 0o600)
      let piece = [UInt8](repeating: 0, count: 4_096)
      while write(file, piece, piece.count) > 0 {}
      close(file)
    }

    func makeRoom() {
      unlink(filler)
    }

    func unmount() async throws {
      try await Command.run([folder.path], program: "/usr/bin/umount")
    }
  }

  @Test func `writes are refused while the disk is full, and reads are served`()
    async throws
  {
    guard let disk = try await SmallDisk()
    else {
      print("CapacityTests: no tmpfs can be mounted here; the size of files is limited instead")
      return try await checkFullDisk(data: TemporaryFolder().path, limit: true)
    }
    let result: Result<Void, any Error>
    do {
      try await checkFullDisk(
        data: disk.folder.path, limit: false, fill: disk.fill, makeRoom: disk.makeRoom)
      result = .success(())
    } catch {
      result = .failure(error)
    }
    try await disk.unmount()
    try result.get()
  }

  private func checkFullDisk(
    data: String, limit: Bool, fill: () -> Void = {}, makeRoom: () -> Void = {}
  ) async throws {
    // Otherwise the server would refuse writes before the disk is full.
    let server = try await ServerProcess(data: data, ["--free-bytes-min", "0"])
    func setLimit(_ bytes: String) async throws {
      try await Command.run(
        ["--pid", "\(server.pid)", "--fsize=\(bytes)"], program: "/usr/bin/prlimit")
    }
    let client = try await server.connect()
    try await client.value("SIGNUP ada@example.org \"engine of 1843\" ada")
    let id = try await client.text("id", "POST title body")
    fill()
    if limit { try await setLimit("1000000:unlimited") }
    let body = String(repeating: "x", count: 50_000)
    let request = "POST title \(body)"
    var reply = ""
    var acknowledged: [String] = []
    for _ in 0..<400 {
      reply = try await client.request(request)
      guard reply.hasPrefix("+") else { break }
      acknowledged.append(
        try #require(try JSONValue(json: String(reply.dropFirst()))["id"]?.string))
    }
    expectReply(reply, to: request, failsWith: "UNAVAILABLE")
    for _ in 0..<5 {
      try await client.expect(request, failsWith: "UNAVAILABLE")
      #expect(try await client.text("title", "SHOW \(id)") == "title")
      try await client.expect("PING", "+\"PONG\"")
    }
    makeRoom()
    if limit { try await setLimit("unlimited:unlimited") }
    for _ in 0..<5 {
      acknowledged.append(try await client.text("id", request))
    }
    #expect(try await server.terminate() == 0)
    let verified = try await Command.run(["verify", "--data", data])
    #expect(verified.status == 0, "\(verified)")
    let restarted = try await ServerProcess(data: data)
    let again = try await restarted.connect()
    for id in acknowledged { try await again.expect("SHOW \(id)", hasPrefix: "+{\"id\"") }
    #expect(try await restarted.terminate() == 0)
  }
}
