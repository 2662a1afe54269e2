import CanopyTesting
import CanopyTree
import Foundation
import Testing

/// What becomes of connections whose packets are lost from one moment on, without a word to anybody.
@Suite(
  .timeLimit(.minutes(5)), .serialized,
  .enabled("needs root and iproute2, for network namespaces; see Scripts/cable-cut") {
    Cable.isPossible
  })
struct CableCutTests {
  private static let heartbeatSeconds = 1
  private static let timeoutSeconds = 2
  /// As the documents say; and a moment for a machine that is busy.
  private static let secondsMax = Double(heartbeatSeconds + timeoutSeconds) + 1

  /// A server at one end of a cable, and somebody beside it who sees what is written.
  private struct Scene {
    let folder: TemporaryFolder
    let cable: Cable
    let server: ServerProcess
    let observer: ClientProcess

    init() async throws {
      folder = try TemporaryFolder()
      cable = try await Cable()
      server = try await ServerProcess(
        data: folder.path,
        [
          "--host", Cable.address, "--heartbeat-seconds", "\(heartbeatSeconds)",
          "--timeout-seconds", "\(timeoutSeconds)",
        ], through: cable.here)
      observer = try ClientProcess(
        host: Cable.address, port: server.port, through: cable.here)
      try await authenticate(observer)
    }

    func authenticate(_ client: ClientProcess) async throws {
      try await client.value(try ServerProcess.authentication(data: folder.path))
    }

    /// Clients at the other end, each of which is to leave the time of its end below `/gone`.
    func clients(_ count: Int) async throws -> [ClientProcess] {
      var clients: [ClientProcess] = []
      for number in 0..<count {
        let client = try ClientProcess(
          host: Cable.address, port: server.port, through: cable.there)
        try await authenticate(client)
        try await client.value("ONDISCONNECT SET /gone/c\(number) {\".sv\":\"timestamp\"}")
        clients.append(client)
      }
      return clients
    }

    /// Cuts the cable and waits until the observer has heard that so many have gone.
    ///
    /// - Returns: the fewest and the most seconds from the cut to the last one's write, by the server's clock.
    func secondsUntilGone(
      _ count: Int, afterCut body: () async throws -> Void = {}
    ) async throws -> ClosedRange<Double> {
      let reply = try await observer.value("LISTEN /gone")
      #expect(reply["initial"]?.integer == 0)
      let cut = try await cable.cut()
      try await body()
      var gone = 0
      var last: Double = 0
      while gone < count {
        let line = try await observer.readLine()
        guard line.contains("\"child_added\"") else { continue }
        gone += 1
        let time = try JSONValue(json: String(line.dropFirst()))["data"]?.integer
        last = max(last, Double(try #require(time)) / 1000)
      }
      return
        (last - cut.upperBound.timeIntervalSince1970)...(last - cut.lowerBound.timeIntervalSince1970)
    }

    func end(_ clients: [ClientProcess]) async throws {
      for client in clients { await client.disconnect() }
      #expect(try await server.terminate() == 0)
    }
  }

  /// - Parameter heardBefore: whether there were signs of life until the cut.
  private func check(_ time: ClosedRange<Double>, _ what: String, heardBefore: Bool = true) {
    let text = String(format: "%.2f to %.2f", time.lowerBound, time.upperBound)
    print("CableCutTests: \(what): \(text) seconds from the cut to the write")
    #expect(time.lowerBound <= Self.secondsMax, "\(what)")
    // Else it was told, and this is no cut. The last sign of life was some time before.
    guard heardBefore else { return }
    #expect(time.upperBound >= 0.5, "\(what)")
  }

  @Test func `an idle connection's write is made within timeout and heartbeat`() async throws {
    let scene = try await Scene()
    let clients = try await scene.clients(1)
    check(try await scene.secondsUntilGone(1), "an idle connection")
    try await scene.end(clients)
  }

  @Test func `events that nobody acknowledges do not delay it`() async throws {
    let scene = try await Scene()
    let clients = try await scene.clients(1)
    try await clients[0].value("LISTEN /news {\"events\":\"value\"}")
    _ = try await clients[0].readLine()
    let time = try await scene.secondsUntilGone(1) {
      for number in 0..<20 { try await scene.observer.send("SET /news \(number)\n") }
    }
    check(time, "a connection with events in flight")
    try await scene.end(clients)
  }

  @Test func `a client that had stopped reading before is no exception`() async throws {
    let scene = try await Scene()
    let clients = try await scene.clients(1)
    try await clients[0].value("LISTEN /news {\"events\":\"value\"}")
    _ = try await clients[0].readLine()
    try await clients[0].pauseReading()
    // More than the other end takes that does not read.
    let text = String(repeating: "x", count: 500_000)
    for number in 0..<2 { try await scene.observer.value("SET /news \"\(number)\(text)\"") }
    // It has taken nothing since a moment before, which counts like silence.
    check(
      try await scene.secondsUntilGone(1), "a connection whose buffers are full",
      heardBefore: false)
    try await scene.end(clients)
  }

  @Test func `many behind one cable, who hear of each other, all go within the same time`()
    async throws
  {
    let scene = try await Scene()
    // Says nothing and does nothing all the while, but its kernel is there.
    let silent = try ClientProcess(
      host: Cable.address, port: scene.server.port, through: scene.cable.here)
    #expect(try await silent.request("PING") == "+\"PONG\"")
    try await silent.pauseReading()
    let clients = try await scene.clients(6)
    for client in clients {
      #expect(try await client.value("LISTEN /gone")["initial"]?.integer == 0)
    }
    check(try await scene.secondsUntilGone(6), "six connections that hear of each other")
    try await silent.resumeReading()
    #expect(try await silent.request("PING") == "+\"PONG\"")
    try await scene.end(clients)
  }
}
