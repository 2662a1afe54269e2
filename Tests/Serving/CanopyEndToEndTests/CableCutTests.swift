import CanopyTesting
import CanopyTree
import Foundation
import Testing

/// Connections whose packets are lost from one moment on, without a notification to either end.
@Suite(
  .timeLimit(.minutes(20)), .serialized,
  .enabled("needs root and iproute2, for network namespaces; see Scripts/cable-cut") {
    Cable.isPossible
  })
struct CableCutTests {
  private static let heartbeatSeconds = 1
  private static let timeoutSeconds = 2
  /// The time that the documents promise, and a second for a busy machine.
  private static let secondsMax = Double(heartbeatSeconds + timeoutSeconds) + 1

  /// A server at one end of a cable, and an observer of its writes at the same end.
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

    /// Connects clients at the other end. Each has an on-disconnect write of the time below `/gone`.
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

    /// Cuts the cable, and waits until the observer has received the writes of `count` clients.
    ///
    /// - Returns: the fewest and the most seconds from the cut to the last write, by the server's clock.
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

  /// - Parameter heardBefore: whether the server received data until the cut.
  private func check(_ time: ClosedRange<Double>, _ what: String, heardBefore: Bool = true) {
    let text = String(format: "%.2f to %.2f", time.lowerBound, time.upperBound)
    print("CableCutTests: \(what): \(text) seconds from the cut to the write")
    #expect(time.lowerBound <= Self.secondsMax, "\(what)")
    // A faster write would mean that the server was notified. The last data came some time before the cut.
    guard heardBefore else { return }
    #expect(time.upperBound >= 0.5, "\(what)")
  }

  @Test func `the on-disconnect write of an idle connection is made within timeout and heartbeat`()
    async throws
  {
    let scene = try await Scene()
    let clients = try await scene.clients(1)
    check(try await scene.secondsUntilGone(1), "an idle connection")
    try await scene.end(clients)
  }

  @Test func `unacknowledged events do not delay the write`() async throws {
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

  @Test func `the write of a client that had stopped reading is made in the same time`()
    async throws
  {
    let scene = try await Scene()
    let clients = try await scene.clients(1)
    try await clients[0].value("LISTEN /news {\"events\":\"value\"}")
    _ = try await clients[0].readLine()
    try await clients[0].pauseReading()
    // This is more than the other end accepts without reading.
    let text = String(repeating: "x", count: 500_000)
    for number in 0..<2 { try await scene.observer.value("SET /news \"\(number)\(text)\"") }
    // It has accepted nothing since then, which counts as silence.
    check(
      try await scene.secondsUntilGone(1), "a connection whose buffers are full",
      heardBefore: false)
    try await scene.end(clients)
  }

  @Test func `the writes of many clients that listen to each other are made within the same time`()
    async throws
  {
    let scene = try await Scene()
    // This client sends nothing, but its kernel answers probes.
    let silent = try ClientProcess(
      host: Cable.address, port: scene.server.port, through: scene.cable.here)
    try await silent.expect("PING", "+\"PONG\"")
    try await silent.pauseReading()
    let clients = try await scene.clients(6)
    for client in clients {
      #expect(try await client.value("LISTEN /gone")["initial"]?.integer == 0)
    }
    check(try await scene.secondsUntilGone(6), "six connections that hear of each other")
    try await silent.resumeReading()
    try await silent.expect("PING", "+\"PONG\"")
    try await scene.end(clients)
  }
}
