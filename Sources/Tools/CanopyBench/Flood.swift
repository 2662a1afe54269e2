import ArgumentParser
import CanopyTree
import Foundation
import Histogram

struct Flood: ParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Flood a server with requests that cost memory or work, beside an honest client.",
    discussion: """
      During each flood, the server's memory may grow by --memory-max and a share for the allocator, and \
      each STAR of the honest client must take less than 100 ms. A missed bound is an error.
      """)

  @Option(help: "The --memory-max of the server in MiB.") var memoryMebibytes = 256
  @Option(help: "The seconds of each flood.") var seconds = 8.0
  @Option(help: "The bytes of JSON in /posts.") var postBytes = 15_600_000
  @Option(help: "Run only the floods whose names contain this text.") var only = ""
  @Flag(help: "Store small values instead of posts: many more nodes for the same bytes.")
  var small =
    false

  /// The share of the allowed memory that the allocator and the kernel may take in addition.
  private static let allocatorShare = 0.1
  private static let worstMillisecondsMax = 100.0
  /// The largest ratio of the honest client's 99th percentile during a flood to that of an idle server.
  private static let slowdownMax = 3.0
  /// A percentile below this is noise: one turn of the scheduler with more threads than cores.
  private static let noiseMilliseconds = 3.0
  /// The largest ratio to the percentile beside threads that only compute. The attackers run on the same cores as the
  /// server, and real ones do not.
  private static let computingSlowdownMax = 1.5

  func run() throws {
    let folder = FileManager.default.temporaryDirectory
      .appendingPathComponent("canopy-flood-\(ProcessInfo.processInfo.processIdentifier)").path
    defer { try? FileManager.default.removeItem(atPath: folder) }
    let server = try Server(
      folder: folder, arguments: ["--memory-max", "\(memoryMebibytes * 1024 * 1024)"])
    let administrator = try LineSocket(port: server.port)
    let token = try String(contentsOfFile: folder + "/admin-token", encoding: .utf8)
    _ = try administrator.success("AUTH \(token.trimmingCharacters(in: .whitespacesAndNewlines))")
    try fill(administrator)
    let honest = try LineSocket(port: server.port)
    _ = try honest.signUp("honest")
    guard let post = try honest.success("POST Honest \"star me\"")["id"]?.string else {
      throw BenchFailure("no post")
    }
    let idle = try stars(honest, post, while: nil, server)
    print(idle.line("idle"))
    let busy = try stars(honest, post, while: FloodKind.computing, server)
    print(busy.line(FloodKind.computing.name) + " (for comparison: it sends nothing)")
    var missed: [String] = []
    for flood in FloodKind.all where only.isEmpty || flood.name.contains(only) {
      let before = server.memoryKibibytes("VmRSS") ?? 0
      server.forgetPeakMemory()
      let result = try stars(honest, post, while: flood, server)
      let grown = ((server.memoryKibibytes("VmHWM") ?? 0) - before) / 1024
      print(result.line(flood.name) + ", memory +\(grown) MiB")
      let grownMax = Int(Double(memoryMebibytes) * (1 + Flood.allocatorShare))
      if grown > grownMax { missed.append("\(flood.name): +\(grown) MiB, at most \(grownMax)") }
      if result.worst >= Flood.worstMillisecondsMax {
        missed.append("\(flood.name): a STAR took \(result.worst) ms")
      }
      let p99Max = max(
        Flood.slowdownMax * idle.p99, Flood.computingSlowdownMax * busy.p99,
        Flood.noiseMilliseconds)
      if result.p99 > p99Max {
        missed.append("\(flood.name): p99 is \(result.p99) ms, at most \(p99Max)")
      }
    }
    server.kill()
    for text in missed { print("MISSED \(text)") }
    if !missed.isEmpty { throw ExitCode(1) }
  }

  private func fill(_ administrator: LineSocket) throws {
    let text = String(repeating: "words ", count: 150)
    var (left, number) = (postBytes, 0)
    while left > 0 {
      let members = (0..<400).map { _ -> String in
        number += 1
        let values =
          small
          ? (0..<60).map { "\"\($0)k\":[\($0),\(number)]" }.joined(separator: ",")
          : "\"title\":\"Post \(number)\",\"body\":\"\(text)\",\"starCount\":\(number % 97)"
        return "\"-Mfl\(String(1_000_000_000_000_000 + number))\":{\"uid\":\"u\",\(values)}"
      }.joined(separator: ",")
      _ = try administrator.success("UPDATE /posts {\(members)}")
      left -= members.utf8.count
    }
    let users = (0..<5_000).map { "\"u\($0)\":{\"username\":\"name\($0)\",\"uid\":\"u\($0)\"}" }
    _ = try administrator.success("UPDATE /users {\(users.joined(separator: ","))}")
    for number in 0..<300 { _ = try administrator.success("SET /ticks \(number)") }
  }

  /// The latencies that an honest client has measured.
  private struct Latencies {
    var p50 = 0.0
    var p99 = 0.0
    var worst = 0.0
    var count = 0
    /// The cores that the server and the attackers have used.
    var cores = (server: 0.0, attackers: 0.0)

    func line(_ name: String) -> String {
      name.padding(toLength: 44, withPad: " ", startingAt: 0)
        + String(
          format: "p50 %.2f  p99 %.2f  worst %.2f ms of %d STAR, cores %.2f, attackers %.2f", p50,
          p99, worst, count, cores.server, cores.attackers)
    }
  }

  /// Stars a post up to two hundred times a second during a flood.
  private func stars(
    _ socket: LineSocket, _ post: String, while flood: FloodKind?, _ server: Server
  ) throws -> Latencies {
    let attackers = try flood.map { try FloodAttackers(of: $0, port: server.port) }
    defer { attackers?.end() }
    var latencies = Histogram<UInt64>(
      highestTrackableValue: 60_000_000_000, numberOfSignificantValueDigits: .three)
    let use = Usage(processID: server.processID)
    let before = try use.cpuSeconds()
    let end = monotonicNanoseconds() + Int64(seconds * 1e9)
    var failure: String?
    while monotonicNanoseconds() < end {
      let start = monotonicNanoseconds()
      let reply = socket.request("STAR \(post)")
      latencies.record(UInt64(monotonicNanoseconds() - start))
      guard let reply, reply.hasPrefix("+") else {
        failure = "\(flood?.name ?? "idle"): the honest client got \(reply ?? "no reply")"
        break
      }
      Thread.sleep(forTimeInterval: 0.005)
    }
    if let failure { throw BenchFailure(failure) }
    let cores = (
      server: (try use.cpuSeconds() - before) / seconds,
      attackers: (try attackers?.use.cpuSeconds() ?? 0) / seconds
    )
    return Latencies(
      p50: Double(latencies.valueAtPercentile(50)) / 1e6,
      p99: Double(latencies.valueAtPercentile(99)) / 1e6,
      worst: Double(latencies.max) / 1e6, count: Int(latencies.totalCount),
      cores: cores)
  }
}
