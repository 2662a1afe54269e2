import CanopyEngine
import CanopyTesting
import CanopyTree
import Logging
import Testing

/// Some engines on one journal.
struct Nodes: Sendable {
  let memory: SharedMemory
  let journals: [NodeJournal]
  let engines: [Engine]
  let clocks: [ManualClock]

  /// Waits until all engines have the last commit.
  func waitUntilQuiet() async throws {
    let last = memory.sequence
    for engine in engines { try await engine.wait(for: last, atMost: .seconds(60)) }
  }
}

/// Runs engines on one journal during `body`, then stops them.
///
/// - Parameters:
///   - offsets: the milliseconds by which the clock of each node differs.
///   - waits: the clock of all waits.
func withNodes(
  _ memory: SharedMemory = SharedMemory(), offsets: [Int64] = [0, 0, 0],
  waits: any Clock<Duration> = ContinuousClock(),
  faults: NodeJournal.Faults = NodeJournal.Faults(), followAfter: Duration = .milliseconds(20),
  wrapping wrap: (NodeJournal) -> any SharedJournal = { $0 },
  _ body: @escaping @Sendable (Nodes) async throws -> Void
) async throws {
  var (journals, engines, clocks): ([NodeJournal], [Engine], [ManualClock]) = ([], [], [])
  for (node, offset) in offsets.enumerated() {
    let journal = NodeJournal(
      memory, node: node, clock: waits, faults: faults, seed: UInt64(node + 1))
    let clock = ManualClock()
    clock.advance(offset)
    journals.append(journal)
    clocks.append(clock)
    engines.append(
      try await .onNode(
        wrap(journal), seed: UInt64(node + 1), clock: clock, waits: waits, followAfter: followAfter)
    )
  }
  let nodes = Nodes(memory: memory, journals: journals, engines: engines, clocks: clocks)
  try await withThrowingTaskGroup(of: Void.self) { group in
    for engine in engines { group.addTask { await engine.run() } }
    let result: Result<Void, any Error>
    do { result = .success(try await body(nodes)) } catch { result = .failure(error) }
    for engine in nodes.engines { engine.stop() }
    try await group.waitForAll()
    try result.get()
  }
}

/// Runs engines that lose every message about a commit of another one.
///
/// When `body` begins, all have looked for commits, and look again only after `followAfter`.
func withDeafNodes(
  _ memory: SharedMemory = SharedMemory(), offsets: [Int64] = [0, 0],
  waits: StepClock = StepClock(), followAfter: Duration = .seconds(1_000_000),
  _ body: @escaping @Sendable (Nodes) async throws -> Void
) async throws {
  var faults = NodeJournal.Faults()
  faults.bells = 1
  try await withNodes(
    memory, offsets: offsets, waits: waits, faults: faults, followAfter: followAfter
  ) { nodes in
    try await eventually { waits.sleeps.count { $0 == followAfter } == nodes.engines.count }
    try await body(nodes)
  }
}

extension Engine {
  /// Creates the engine of a node, which does not run yet.
  static func onNode(
    _ journal: any SharedJournal, seed: UInt64, clock: ManualClock = ManualClock(),
    waits: any Clock<Duration> = ContinuousClock(), followAfter: Duration = .milliseconds(20)
  ) async throws -> Engine {
    var configuration = Engine.Configuration.forTests
    configuration.followAfter = followAfter
    let random = SeededBytes(seed: seed)
    return try await Engine(
      journal: journal, configuration: configuration, now: { clock.now }, clock: waits,
      random: { random.word() }, logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
  }
}
