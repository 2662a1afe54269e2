import ArgumentParser
import Foundation

struct Compare: ParsableCommand {
  static let configuration = CommandConfiguration(
    abstract:
      "Compare Canopy with Redis, PostgreSQL and servers of HTTP at the same work, durable before each reply.",
    discussion: """
      The command starts all servers on this machine, fills them with the same posts, and loads one after \
      the other in each round. The exit code is 1 if a reply was wrong, but not if a goal is missed.
      """)

  @Flag(help: "Run for about two minutes instead of ten.") var quick = false
  @Flag(help: "Compare nodes on PostgreSQL with Canopy on SQLite and with PostgreSQL.")
  var postgres = false
  @Option(
    help: "Run only this work; may be repeated. \(Work.names.joined(separator: ", ")).")
  var only: [String] = []
  @Option(help: "Measure only this system; may be repeated. \(PeerName.list).")
  var system: [String] = []
  @Option(help: "The number of connections, each with its own user.") var connections = 50
  @Option(help: "The number of posts at the start.") var posts = 100_000
  @Option(help: "The number of authors of these posts.") var users = 1_000
  @Option(help: "The number of listening connections in fan-out.") var listeners = 1_000
  @Option(help: "The number of rounds of each work, instead of the default.") var rounds: Int?
  @Option(help: "The measured seconds of each round, instead of the default.") var seconds: Double?
  @Option(help: "The seed of all random numbers; 0 draws one.") var seed: UInt64 = 0
  @OptionGroup var files: ReportFiles

  func validate() throws {
    for name in only where !Work.names.contains(name) {
      throw ValidationError("\(name) is no work; there are \(Work.names.joined(separator: ", "))")
    }
    for name in system where !PeerName.named.contains(where: { $0.matches(name) }) {
      throw ValidationError("\(name) is no system; there are \(PeerName.list)")
    }
    if postgres, !system.isEmpty {
      throw ValidationError("--postgres chooses the systems, so --system cannot be used with it")
    }
    guard 1...users ~= connections else {
      throw ValidationError("--connections must be 1 to the number of users")
    }
    guard posts >= BlogRequest.topCount * users else {
      throw ValidationError("there must be at least \(BlogRequest.topCount) posts for each user")
    }
  }

  func run() throws {
    let started = monotonicNanoseconds()
    let signals = Children.endAllOnSignals()
    defer {
      Children.endAll()
      withExtendedLifetime(signals) {}
    }
    raiseFileLimit()
    var plan = quick ? Plan.quick : Plan.full
    if let rounds { plan.rounds = max(1, rounds) }
    if let seconds { plan.seconds = seconds }
    let comparison = try Comparison(
      plan, connections: connections, listeners: listeners,
      seed: seed == 0 ? UInt64.random(in: 1...UInt64.max >> 16) : seed,
      data: DataSet(posts: posts, users: users),
      works: Set(only.isEmpty ? postgres ? Work.postgres : Work.names : only), systems: systems)
    try comparison.run()
    var report = comparison.report
    let elapsed = Double(monotonicNanoseconds() - started) / 1e9
    report.setting.append("took \(Int(elapsed)) s")
    try files.write(report.markdown, report)
    if !report.failures.isEmpty { throw ExitCode(1) }
  }

  private var systems: Set<PeerName> {
    if postgres { return [.canopy, .canopyOnPostgres, .postgres] }
    return Set(
      PeerName.named.filter { name in system.isEmpty || system.contains(where: name.matches) })
  }
}

/// Raises the limit on open files, as far as this user may: a thousand listeners need two thousand.
///
/// - Parameter count: the wanted number, of which only root gets more than the hard limit; otherwise that limit is set.
/// - Returns: the new limit; the wanted number if the system has none to report.
@discardableResult
func raiseFileLimit(to count: Int = 0) -> Int {
  let resource = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
  var limit = rlimit()
  guard getrlimit(resource, &limit) == 0 else { return count }
  if count > limit.rlim_max {
    var wanted = rlimit(rlim_cur: rlim_t(count), rlim_max: rlim_t(count))
    if setrlimit(resource, &wanted) == 0 { return count }
  }
  let present = limit.rlim_cur
  limit.rlim_cur = limit.rlim_max
  return Int(clamping: setrlimit(resource, &limit) == 0 ? limit.rlim_max : present)
}

extension PeerName {
  /// The systems that `--system` can name.
  fileprivate static let named = allCases.filter { $0 != .canopyOnPostgres && $0 != .nats }
  fileprivate static let list = named.map { $0.rawValue.lowercased() }.joined(separator: ", ")

  func matches(_ name: String) -> Bool {
    rawValue.lowercased() == name.lowercased()
  }
}

/// The amount and the time of the measurements.
struct Plan {
  /// The number of rounds of each work. Each round measures all systems, so that a slow moment of the machine affects
  /// one round of each system and not all rounds of one.
  var rounds: Int
  var warmUpSeconds: Double
  var seconds: Double
  /// The number of posts for the work "start-up with 1,000,000 posts".
  var manyPosts: Int
  var fewPosts = 1_000
  var startUps: Int

  /// The default, which takes about ten minutes.
  static let full = Plan(
    rounds: 7, warmUpSeconds: 0.4, seconds: 1.4, manyPosts: 1_000_000, startUps: 3)
  /// A short run of about two minutes. It shows large differences only.
  static let quick = Plan(
    rounds: 3, warmUpSeconds: 0.15, seconds: 0.45, manyPosts: 200_000, startUps: 1)
}
