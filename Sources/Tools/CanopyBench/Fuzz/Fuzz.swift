import ArgumentParser
import Foundation

struct Fuzz: ParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Send malformed requests, frames and messages to the HTTP port of a server.",
    discussion: """
      A client that uses the server as it is meant runs beside the fuzzer. The command fails if the server ends, if \
      this client gets a wrong answer or none in time, if the server reports a mistake of its own, if its memory, its \
      open files or its connections do not return to the start, or if data changed that the fuzzer may not change.
      """)

  @Option(help: "The number of requests, frames and messages.") var requests = 1_000_000
  @Option(help: "The seed of all random numbers; 0 draws one.") var seed: UInt64 = 0
  @Option(help: "The number of connections at one time.") var connections = 8
  @Option(help: "The number of requests of each connection.") var batch = 100
  @Option(help: "Send only the script of this connection.") var only: Int?
  @Option(help: "The MiB by which the memory of the server may grow.") var growthMebibytes = 64
  @Option(help: "The seconds in which the honest client must have each answer.") var secondsMax = 5

  func run() throws {
    let signals = Children.endAllOnSignals()
    defer {
      Children.endAll()
      withExtendedLifetime(signals) {}
    }
    let seed = self.seed == 0 ? UInt64.random(in: 1...UInt64.max >> 16) : self.seed
    say("seed \(seed)")
    let folder = FileManager.default.temporaryDirectory
      .appendingPathComponent("canopy-fuzz-\(ProcessInfo.processInfo.processIdentifier)").path
    defer { try? FileManager.default.removeItem(atPath: folder) }
    var run = FuzzRun(seed: seed, requests: requests, folder: folder)
    run.connections = connections
    run.batch = batch
    run.only = only
    run.growthBytesMax = growthMebibytes << 20
    run.secondsMax = secondsMax
    let problems = try run.run { say($0) }.problems
    for problem in problems { say("WRONG \(problem)") }
    if !problems.isEmpty { throw ExitCode(1) }
  }
}
