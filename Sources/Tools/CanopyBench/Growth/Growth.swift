import ArgumentParser
import Foundation

struct Growth: ParsableCommand {
  static let configuration = CommandConfiguration(
    abstract:
      "Measure how times and memory grow with the posts, the listeners, and the children of a location.",
    discussion: """
      Each measure is a curve: its values at sizes that grow tenfold. A curve of the slope 0 does not grow, one of the \
      slope 1 grows with the size. Redis and nats-server are measured beside Canopy where they do the same. The exit \
      code is 1 if a reply was wrong.
      """)

  enum Part: String, CaseIterable, ExpressibleByArgument {
    case posts, listeners, children
  }

  @Option(help: "Measure only this part; may be repeated: posts, listeners, children.")
  var only: [Part] = []
  @Option(help: "The greatest number of posts.") var posts = 1_000_000
  @Option(help: "The greatest number of listeners.") var listeners = 20_000
  @Option(help: "The greatest number of children of one location.") var children = 1_000_000
  @Option(help: "The rounds of each value, of which the median counts.") var rounds = 3
  @Option(help: "The measured seconds of each round.") var seconds = 1.0
  @Option(help: "The seed of all random numbers; 0 draws one.") var seed: UInt64 = 0
  @OptionGroup var files: ReportFiles
  @Option(help: "The folder to write the drawings to, as SVG.") var drawings: String?

  func validate() throws {
    guard posts >= 1_000, listeners >= 10, children >= 1_000 else {
      throw ValidationError("--posts and --children must be at least 1000, --listeners 10")
    }
    guard rounds > 0, seconds > 0 else {
      throw ValidationError("--rounds and --seconds must be above 0")
    }
  }

  func run() throws {
    let signals = Children.endAllOnSignals()
    defer {
      Children.endAll()
      withExtendedLifetime(signals) {}
    }
    let listeners = listeners(openFiles: raiseFileLimit(to: 65_536))
    let seed = seed == 0 ? UInt64.random(in: 1...UInt64.max >> 16) : seed
    say("seed \(seed)")
    let run = try GrowthRun(rounds: rounds, seconds: seconds, seed: seed)
    let parts = only.isEmpty ? Part.allCases : only
    if parts.contains(.posts) {
      for posts in sizes(from: 1_000, to: posts) { try run.measurePosts(posts) }
    }
    if parts.contains(.listeners) {
      for listeners in sizes(from: 10, to: listeners) { try run.measureListeners(listeners) }
    }
    if parts.contains(.children) {
      for children in sizes(from: 1_000, to: children) { try run.measureChildren(children) }
    }
    let report = run.report
    try files.write(report.markdown, report)
    if let drawings {
      try FileManager.default.createDirectory(
        atPath: drawings, withIntermediateDirectories: true)
      for (name, chart) in report.charts {
        try chart.svg.write(toFile: "\(drawings)/\(name).svg", atomically: true, encoding: .utf8)
      }
    }
    if !report.failures.isEmpty { throw ExitCode(1) }
  }

  /// Returns the greatest number of listeners for which the limit on open files leaves room.
  private func listeners(openFiles: Int) -> Int {
    let most = max(10, openFiles - Growth.otherFiles)
    guard listeners > most else { return listeners }
    say("a process may open \(openFiles) files here, so there are at most \(most) listeners")
    return most
  }

  /// The files that a server opens for other things than its listeners, with those of its namespaces.
  private static let otherFiles = 2_000

  /// The sizes of a curve: tenfold each time, and the greatest one.
  private func sizes(from least: Int, to greatest: Int) -> [Int] {
    var sizes: [Int] = []
    var size = least
    while size < greatest {
      sizes.append(size)
      size *= 10
    }
    return sizes + [greatest]
  }
}
