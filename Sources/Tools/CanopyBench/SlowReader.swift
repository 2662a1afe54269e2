import ArgumentParser
import Foundation

struct SlowReader: ParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Measure fast listeners with and without a slow one, which does not read.",
    discussion: """
      Rounds without and with a slow listener alternate on one server. The command fails if the medians of \
      the 99th percentiles differ by more than a fifth, if the server's memory grows by much more than the \
      bound of the queue, or if the slow listener is disconnected.
      """)

  @Option(help: "The number of fast listeners, with a connection each.") var listeners = 100
  @Option(help: "The number of pairs of rounds.") var rounds = 7
  @Option(help: "The seconds of a round.") var seconds = 4.0
  @Option(help: "The bytes of text in an event.") var bytes = 8_000
  @Option(help: "The --queued-bytes-max of the server.") var queuedBytesMax =
    1_048_576

  /// The bytes by which the memory of a busy server differs between rounds for other reasons.
  private static let noiseBytes = 16 * 1024 * 1024

  func run() throws {
    let folder = FileManager.default.temporaryDirectory
      .appendingPathComponent("canopy-slow-\(ProcessInfo.processInfo.processIdentifier)").path
    defer { try? FileManager.default.removeItem(atPath: folder) }
    let server = try Server(
      folder: folder, arguments: ["--queued-bytes-max", "\(queuedBytesMax)"])
    let dialect = try FanOutDialect<LineFramer>.values(server, textBytes: bytes)
    let client = try FanOutClient(dialect, ports: [server.port], listeners: listeners, window: 1)
    let usage = Usage(processID: server.processID)
    func measure() throws -> (p99: Double, perSecond: Double, peak: Int) {
      usage.resetPeak()
      let sample = try client.run(warmUpSeconds: 0.5, seconds: seconds, usage: usage.cpuSeconds)
      guard sample.wrong == 0 else { throw BenchFailure(sample.firstWrong ?? "a wrong event") }
      return (sample.milliseconds(atPercentile: 99), sample.perSecond, usage.peakBytes())
    }
    _ = try measure()
    var without: [Double] = []
    var with: [Double] = []
    var growths: [Int] = []
    var kept = 0
    for round in 1...rounds {
      let alone = try measure()
      let slow = try Channel<LineFramer>(port: server.port, receiveBytes: 65_536)
      for request in dialect.subscribe { _ = try slow.exchange(request) }
      let together = try measure()
      if try Self.staysConnected(slow) { kept += 1 }
      without.append(alone.p99)
      with.append(together.p99)
      growths.append(together.peak - alone.peak)
      print(
        String(
          format:
            "round %d: p99 %.3f ms alone, %.3f ms beside a slow reader; %.0f and %.0f events/s; "
            + "peak %d and %d MiB", round, alone.p99, together.p99, alone.perSecond,
          together.perSecond, alone.peak >> 20, together.peak >> 20))
    }
    try server.stop()
    let change = Self.median(with) / Self.median(without) - 1
    print(
      String(
        format: "median of p99: %.3f ms alone, %.3f ms beside a slow reader: %+.1f %%",
        Self.median(without), Self.median(with), change * 100))
    let growth = Self.median(growths.map(Double.init))
    print(
      String(
        format:
          "median growth of the peak of memory: %.0f KiB; %d of %d slow readers stayed connected",
        growth / 1024, kept, rounds))
    guard change <= 0.2, growth <= Double(queuedBytesMax + Self.noiseBytes), kept == rounds
    else {
      throw BenchFailure("a slow reader delays others, or is disconnected")
    }
  }

  private static func median(_ values: [Double]) -> Double {
    let sorted = values.sorted()
    return sorted.isEmpty ? 0 : sorted[sorted.count / 2]
  }

  /// Reads the remaining events of a slow reader. Returns whether its connection stays open without data then.
  private static func staysConnected(_ channel: Channel<LineFramer>) throws -> Bool {
    channel.socket.waitAtMost(seconds: 2)
    while true {
      let before = monotonicNanoseconds()
      do { try channel.receive() } catch is BenchFailure { return false }
      while let reply = try channel.nextReply() {
        if reply.frame.isError { return false }
      }
      if monotonicNanoseconds() - before > 1_500_000_000 { return true }
    }
  }
}

extension FanOutDialect<LineFramer> {
  /// Returns the requests of the listeners to a value and of the administrator, who sets it.
  static func values(_ server: Server, textBytes: Int) throws -> Self {
    let token = try String(contentsOfFile: server.folder + "/admin-token", encoding: .utf8)
      .trimmingCharacters(in: .whitespacesAndNewlines)
    let logIn = Array("AUTH \(token)\n".utf8)
    return FanOutDialect(
      subscribe: [logIn, Array("LISTEN /fan-out {\"events\":\"value\"}\n".utf8)], logIn: [logIn],
      publish: { Array("SET /fan-out \"\($0)\"\n".utf8) }, eventPrefix: ">{\"sub\":",
      textBytes: textBytes)
  }
}
