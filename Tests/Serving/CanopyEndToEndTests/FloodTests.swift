import CanopyTesting
import Foundation
import Synchronization
import Testing

/// Clients that make a server hold memory, beside an honest client.
///
/// The server is a process of its own, so that the test reads the peak of its resident memory. Each flood would take
/// several times the budget. It ends as soon as the server has ended connections of the flood, or has answered
/// whole requests, and fails if the server does not. `MemoryFloodTests` observes the budget itself, in one process.
@Suite(.timeLimit(.minutes(20)), .serialized) struct FloodTests {
  /// `--memory-max` of the server, in bytes.
  private static let memoryMax = 16 * 1024 * 1024
  /// The bytes by which the memory of the server may grow. Connections that have ended still hold their last buffers for
  /// a moment, and requests that are carried out have left the budget.
  private static let growthMax = 2 * memoryMax + 32 * 1024 * 1024
  private static let megabyte = String(repeating: "x", count: 900_000)
  /// The requests of the honest client during one flood after which the test gives up. A server that is short of memory
  /// reads the honest client only, so a flood comes slowly.
  private static let roundsMax = 20_000

  /// Clients that all do the same.
  struct Flood: Sendable {
    let name: String
    let clients: Int
    let lines: [String]
    /// Whether the clients read their replies. Those that do not are cut off without one, and the log says so.
    let areRead: Bool
    /// Whether the requests are whole. If their clients read the replies, the server may answer all of them, one after the
    /// other, and need not end a connection.
    var isWhole = false
  }

  static let floods = [
    Flood(
      name: "CAS of a large value, unread", clients: 8,
      lines: Array(repeating: "CAS /posts x 1\n", count: 1_024), areRead: false),
    Flood(
      name: "GET of a large value, unread", clients: 8,
      lines: Array(repeating: "GET /posts\n", count: 20), areRead: false),
    Flood(
      name: "unfinished lines", clients: 120, lines: ["SET /a \"\(megabyte)"],
      areRead: true),
    Flood(
      name: "large UPDATEs behind a busy writer", clients: 40,
      lines: Array(repeating: "UPDATE /notes {\"a\":\"\(megabyte)\"}\n", count: 3), areRead: true,
      isWhole: true),
  ]

  @Test func `floods make a server hold no more than its budget, and an honest client is served`()
    async throws
  {
    let folder = try TemporaryFolder()
    let server = try await ServerProcess(
      data: folder.path,
      [
        "--memory-max", "\(Self.memoryMax)", "--threads", "1", "--durability", "relaxed",
      ],
      // Returns large blocks to the system at once. Otherwise the peak depends on the allocator.
      environment: ["MALLOC_MMAP_THRESHOLD_": "131072", "MALLOC_ARENA_MAX": "2"])
    let honest = try await server.connect()
    try await honest.value(try ServerProcess.authentication(data: folder.path))
    for number in 0..<4 {
      try await honest.value("SET /posts/x\(number) \"\(Self.megabyte)\"")
    }
    try server.forgetPeak()
    let before = try server.memoryBytes("VmHWM")
    for flood in Self.floods {
      try await run(flood, at: server, honest)
      let growth = try server.memoryBytes("VmHWM") - before
      print("FloodTests: \(flood.name): the memory of the server grew by \(growth >> 20) MiB")
      #expect(growth <= Self.growthMax, "\(flood.name)")
    }
    try await server.destroy()
  }

  /// Floods a server until it has ended a connection of the flood.
  private func run(
    _ flood: Flood, at server: ServerProcess, _ honest: LineSocketClient
  ) async throws {
    let refusals = Refusals(server)
    var clients: [LineSocketClient] = []
    for _ in 0..<flood.clients {
      let client = try await LineSocketClient(
        port: server.port, receiveBytes: flood.areRead ? nil : 16_384)
      if !flood.areRead { try await client.pauseReading() }
      clients.append(client)
    }
    await withTaskGroup(of: Void.self) { group in
      for client in clients {
        group.addTask {
          for line in flood.lines {
            guard (try? await client.send(line)) != nil else { break }
          }
        }
        if flood.areRead {
          group.addTask {
            while let line = try? await client.readLine() { refusals.note(line) }
          }
        }
      }
      var rounds = 0
      let requests = flood.isWhole ? flood.clients * flood.lines.count : .max
      while !refusals.isBegun, refusals.answers < requests, rounds < Self.roundsMax {
        rounds += 1
        let request = "SET /small/\(rounds % 10) \(rounds)"
        let reply = try? await honest.request(request)
        #expect(
          reply?.hasPrefix("+") == true, "\(flood.name): \(request): \(reply ?? "no reply")")
      }
      #expect(
        refusals.isBegun || refusals.answers >= requests,
        "\(flood.name): the server ended no connection")
      for client in clients { await client.disconnect() }
    }
  }

  /// The connections that a server has ended because it is short of memory.
  private final class Refusals: Sendable {
    private let server: ServerProcess
    private let logged: Int
    private let count = Mutex(0)
    private let answered = Mutex(0)

    init(_ server: ServerProcess) {
      self.server = server
      logged = Refusals.inLog(of: server)
    }

    /// Whether there is one since the beginning.
    var isBegun: Bool { count.withLock { $0 } > 0 || Refusals.inLog(of: server) > logged }

    /// The replies to requests.
    var answers: Int { answered.withLock { $0 } }

    /// Counts a reply, or the last line of a connection that was ended.
    func note(_ line: String) {
      if line.hasPrefix("-OVERLOADED the server is short of memory") {
        count.withLock { $0 += 1 }
      } else {
        answered.withLock { $0 += 1 }
      }
    }

    private static func inLog(of server: ServerProcess) -> Int {
      server.log.components(separatedBy: "cut off because the server is short of memory").count - 1
    }
  }
}
