import ArgumentParser
import Foundation

struct Steady: ParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Compare how steady Canopy, Redis and PostgreSQL are while they make checkpoints.",
    discussion: """
      Each system gets the same posts, and then posts and stars from 50 connections: at full speed, which gives its \
      peak, and then for minutes at a share of this peak, sent at fixed times. Checkpoints, rewrites of files and the \
      removal of old commits happen as each system does them by default. The command ends with a table and a drawing. \
      The exit code is 1 if a reply was wrong.
      """)

  @Option(help: "The minutes at the share of the peak.") var minutes = 10.0
  @Option(help: "The seconds at full speed.") var peakSeconds = 60.0
  @Option(help: "The share of the peak.") var share = 0.7
  @Option(help: "Measure only this system; may be repeated: canopy, redis, postgresql.")
  var system: [String] = []
  @Option(help: "The number of connections, each with its own user.") var connections = 50
  @Option(help: "The number of posts at the start.") var posts = 100_000
  @Option(help: "The number of authors of these posts.") var users = 1_000
  @Option(help: "The seed of all random numbers; 0 draws one.") var seed: UInt64 = 0
  @OptionGroup var files: ReportFiles
  @Option(help: "The file to write the drawing of the throughput to, as SVG.") var drawing: String?

  private static let systems = [PeerName.canopy, .redis, .postgres]

  func validate() throws {
    for name in system where !Self.systems.contains(where: { $0.matches(name) }) {
      throw ValidationError("\(name) is no system of this command")
    }
    guard share > 0, share <= 1, minutes > 0, peakSeconds > 0 else {
      throw ValidationError("the share must be above 0 and at most 1, and the times above 0")
    }
    guard 1...users ~= connections, posts >= users else {
      throw ValidationError("--connections must be 1 to the number of users, and --posts as many")
    }
  }

  func run() throws {
    let signals = Children.endAllOnSignals()
    defer {
      Children.endAll()
      withExtendedLifetime(signals) {}
    }
    let plan = SteadyRun.Plan(
      peakSeconds: peakSeconds, seconds: minutes * 60, share: share, connections: connections,
      seed: seed == 0 ? UInt64.random(in: 1...UInt64.max >> 16) : seed)
    say("seed \(plan.seed)")
    let run = try SteadyRun(plan, data: DataSet(posts: posts, users: users))
    for name in Self.systems
    where system.isEmpty || system.contains(where: { name.matches($0) }) {
      try run.measure(name)
    }
    try files.write(run.report.markdown, run.report)
    if let drawing {
      try run.report.drawing.svg.write(toFile: drawing, atomically: true, encoding: .utf8)
    }
    if run.report.systems.contains(where: { $0.wrong > 0 }) { throw ExitCode(1) }
  }
}
