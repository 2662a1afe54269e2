import CanopyTesting
import CanopyTree
import Foundation
import Testing

/// Clients that make a server hold memory, beside an honest client.
///
/// The server is a process of its own, and the test reads the peak of its resident memory. `Scripts/flood-test` runs
/// more kinds of floods, for longer, on a release build.
@Suite(.timeLimit(.minutes(5)), .serialized) struct FloodTests {
  /// `--memory-max` of the server, in bytes.
  private static let memoryMax = 48 * 1024 * 1024
  /// The bytes by which the memory of the server may grow. A buffer of unfinished lines grows by doubling, so it may
  /// have twice the charged bytes. A base is added for one request under way in each thread with its reply, and for
  /// memory that the allocator has not returned to the system.
  private static let growthMax = 2 * memoryMax + 32 * 1024 * 1024
  private static let duration = Duration.milliseconds(1_000)

  /// Clients that all do the same.
  struct Flood: CustomTestStringConvertible, Sendable {
    let testDescription: String
    let clients: Int
    /// The number of connections that each client opens, one after the other.
    var connections = 1
    /// Attacks on one connection, which then ends.
    let attack: @Sendable (Attacker, _ number: Int) async throws -> Void
  }

  /// A connection that reads nothing.
  struct Attacker: Sendable {
    let client: LineSocketClient

    init(port: Int) async throws {
      client = try await LineSocketClient(port: port, receiveBytes: 16_384)
      try await client.pauseReading()
    }

    /// Sends about a megabyte between two texts, in pieces, so that the test itself holds little.
    func sendMegabyte(after start: String, before end: String = "") async throws {
      try await client.send(start)
      for _ in 0..<20 { try await client.send(FloodTests.piece) }
      try await client.send(end)
    }

    /// Waits until the flood ends.
    func wait() async throws {
      let (stream, continuation) = AsyncStream.makeStream(of: Never.self)
      defer { continuation.finish() }
      for await _ in stream {}
      try Task.checkCancellation()
    }
  }

  private static let piece = [UInt8](repeating: UInt8(ascii: "x"), count: 50_000)

  static let floods = [
    Flood(testDescription: "CAS of a large value, unread", clients: 4) { attacker, _ in
      try await attacker.client.send(String(repeating: "CAS /posts x 1\n", count: 1_024))
      try await attacker.wait()
    },
    Flood(testDescription: "GET of a large value, unread", clients: 60) { attacker, _ in
      try await attacker.client.send("GET /posts\n")
      try await attacker.wait()
    },
    Flood(testDescription: "unfinished lines", clients: 150) { attacker, _ in
      try await attacker.sendMegabyte(after: "SET /a \"")
      try await attacker.wait()
    },
    Flood(testDescription: "large UPDATEs behind a busy writer", clients: 24) { attacker, number in
      for _ in 0..<8 {
        try await attacker.sendMegabyte(
          after: "UPDATE /notes/x\(number) {\"a\":\"", before: "\"}\n")
      }
      try await attacker.wait()
    },
    Flood(testDescription: "LISTEN with since, closed at once", clients: 8, connections: 4) {
      attacker, _ in
      try await attacker.client.send(
        String(repeating: "LISTEN /posts {\"since\":1}\n", count: 25))
    },
  ]

  @Test(arguments: floods)
  func `a flood makes a server hold no more than its limit, and an honest client is served`(
    _ flood: Flood
  ) async throws {
    let peak = try await peakBytes(of: flood, memoryMax: Self.memoryMax)
    #expect(peak <= Self.growthMax, "the memory of the server grew by too many bytes")
  }

  /// Floods a new server. Returns the peak of its memory in bytes, less the memory before the flood.
  private func peakBytes(of flood: Flood, memoryMax: Int) async throws -> Int {
    let folder = try TemporaryFolder()
    let server = try await ServerProcess(data: folder.path, ["--memory-max", "\(memoryMax)"])
    let administrator = try await server.connect()
    try await administrator.value(try ServerProcess.authentication(data: folder.path))
    let text = String(repeating: "x", count: 900_000)
    for number in 0..<8 { try await administrator.value("SET /posts/x\(number) \"\(text)\"") }
    let honest = try await server.connect()
    try await honest.value("SIGNUP ada@example.org \"engine of 1843\" ada")
    let id = try await honest.text("id", "POST title body")
    try server.forgetPeak()
    let before = try server.memoryBytes("VmHWM")

    let port = server.port
    try await withThrowingTaskGroup(of: Void.self) { group in
      for number in 0..<flood.clients {
        group.addTask {
          for _ in 0..<flood.connections where !Task.isCancelled {
            // The server may refuse the connection.
            guard let attacker = try? await Attacker(port: port) else { continue }
            await withTaskCancellationHandler {
              try? await flood.attack(attacker, number)
            } onCancel: {
              Task { await attacker.client.disconnect() }
            }
            await attacker.client.disconnect()
          }
        }
      }
      let end = ContinuousClock.now + Self.duration
      var stars = 0
      while stars < 20 || ContinuousClock.now < end {
        let reply = try await honest.request("STAR \(id)")
        #expect(reply.hasPrefix("+{\"starred\""), "\(reply.prefix(200))")
        stars += 1
      }
      group.cancelAll()
      try await group.waitForAll()
    }
    let peak = try server.memoryBytes("VmHWM")
    #expect(try await honest.request("STAR \(id)").hasPrefix("+{\"starred\""))
    #expect(try await server.terminate() == 0)
    print("FloodTests: \(flood.testDescription): \((peak - before) >> 20) MiB")
    return peak - before
  }
}
