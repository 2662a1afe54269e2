import CanopyTesting
import CanopyTree
import Foundation
import Logging
import Synchronization
import Testing

@testable import CanopyEngine

/// Three nodes on one journal with faults: lost races, appends with an unknown outcome, late and lost messages, nodes
/// that are killed and start again, and clocks that differ by minutes.
///
/// `CANOPY_DISTURBANCES=200` makes a longer run.
@Suite(.timeLimit(.minutes(20))) struct SeveralNodesTests {
  private static let disturbances =
    ProcessInfo.processInfo.environment["CANOPY_DISTURBANCES"].flatMap { Int($0) } ?? 12

  @Test func `all nodes agree after every disturbance, and no write is lost or made twice`()
    async throws
  {
    let random = SeededGenerator(printingSeedFor: "SeveralNodesTests")
    let cluster = try await Cluster(random)
    let generators = Self.generators(8 + 50, random)
    let replicas = try generators[8...].map { random in
      var random = random
      return Replica(try .random(&random))
    }
    let records = try await withThrowingTaskGroup(of: Void.self) {
      group -> [Writer.Record] in
      group.addTask { await cluster.run() }
      let records = try await withThrowingTaskGroup(of: Writer.Record?.self) {
        work -> [Writer.Record] in
        for (number, random) in generators[..<8].enumerated() {
          work.addTask {
            var writer = Writer(number: number, random: random)
            return try await writer.write(until: { cluster.isOver }, on: cluster)
          }
        }
        for (replica, random) in zip(replicas, generators[8...]) {
          work.addTask {
            try await Self.listen(replica, random, cluster)
            return nil
          }
        }
        work.addTask {
          try await cluster.disturb(Self.disturbances)
          return nil
        }
        return try await work.reduce(into: [Writer.Record]()) {
          if let record = $1 { $0.append(record) }
        }
      }
      await cluster.stop()
      try await group.waitForAll()
      return records
    }
    check(records, cluster)
  }

  private static func generators(_ count: Int, _ random: SeededGenerator) -> [SeededGenerator] {
    var random = random
    return (0..<count).map { _ in SeededGenerator(seed: random.next()) }
  }

  /// Listens on one node, and on another one when that is killed, until the end.
  private static func listen(
    _ replica: Replica, _ random: SeededGenerator, _ cluster: Cluster
  ) async throws {
    var random = random
    var hasStarted = false
    while true {
      let life = cluster.life(Int.random(in: 0..<3, using: &random))
      let isLast = cluster.isQuiet
      var id: ListenerID?
      if hasStarted {
        do {
          // A client that comes to a node that is behind would get older data: it waits as a reader does.
          let since = replica.sequences.last ?? 0
          try await life.engine.wait(for: since, atMost: .milliseconds(100))
          id = try await replica.resume(life.engine)?.id
        } catch {}
      } else {
        id = await replica.start(life.engine)
      }
      guard let id else {
        await Task.yield()
        continue
      }
      hasStarted = true
      if isLast {
        let snapshot = life.engine.snapshot
        #expect(snapshot.sequence == cluster.memory.sequence)
        if let problem = replica.problem(snapshot.root) { Issue.record("\(problem)") }
        replica.leave(life.engine, id)
        return
      }
      // Until the node is killed, or for some time.
      let end = life.engine.snapshot.sequence + Int64.random(in: 1...400, using: &random)
      try await eventually {
        life.engine.isStopping || cluster.isQuiet || life.engine.snapshot.sequence >= end
      }
      replica.leave(life.engine, id)
    }
  }

  private func check(_ records: [Writer.Record], _ cluster: Cluster) {
    let commits = cluster.memory.commits
    #expect(commits.map(\.sequence) == Array(1...Int64(commits.count)))
    let root = commits.folded()
    for engine in cluster.engines {
      #expect(engine.snapshot.sequence == Int64(commits.count))
      #expect(engine.root == root)
      #expect(engine.root.hash == root.hash)
      #expect(engine.root.brokenInvariant() == nil)
    }
    // Each write leaves a key in `/log`.
    var journaled: [Key: [Int64]] = [:]
    for commit in commits {
      for assignment in commit.assignments where assignment.location.path.keys.first == "log" {
        if let key = assignment.location.path.last {
          journaled[key, default: []].append(commit.sequence)
        }
      }
    }
    var (acknowledged, lost, doubled, torn) = (0, 0, 0, 0)
    for record in records {
      for (key, sequence) in record.committed {
        acknowledged += 1
        if journaled[key]?.contains(sequence) != true { lost += 1 }
      }
      for key in record.refused where journaled[key] != nil { torn += 1 }
    }
    doubled = journaled.values.count { $0.count > 1 }
    let counter = Path.root.child("counter")
    let counted = commits.count { $0.assignments.contains { $0.location.path == counter } }
    let races = cluster.races
    print(
      """
      SeveralNodesTests: \(commits.count) commits, \(acknowledged) acknowledged, lost \(lost), doubled \
      \(doubled), made though refused \(torn); \(cluster.kills) nodes killed; \(races.lost) races lost, at \
      most \(races.mostInARow) in a row
      """)
    #expect(lost == 0 && doubled == 0 && torn == 0)
    #expect(acknowledged > 100)
    #expect(root.child("counter") == Node(Int64(counted)), "no increment was lost")
    // Keys that the nodes made ascend with the commits.
    let keys = commits.flatMap { commit in
      commit.assignments.map(\.location.path).filter { $0.keys.first == "pushed" }
        .compactMap(\.last)
    }
    #expect(keys == keys.sorted() && Set(keys).count == keys.count)
  }
}

/// The three nodes.
private final class Cluster: Sendable {
  /// The time from a start of a node to its end.
  struct Life: Sendable {
    let engine: Engine
    let journal: NodeJournal
  }

  private struct State {
    var lives: [Life] = []
    var random: SeededGenerator
    var isOver = false
    var isQuiet = false
    var kills = 0
    var races = Engine.Races()
  }

  let memory = SharedMemory()
  private let clocks: [ManualClock]
  private let state: Mutex<State>
  private let started: AsyncStream<Engine>
  private let starts: AsyncStream<Engine>.Continuation

  init(_ random: SeededGenerator) async throws {
    clocks = [0, 180_000, -240_000].map { offset in
      let clock = ManualClock()
      clock.advance(Int64(offset))
      return clock
    }
    state = Mutex(State(random: random))
    (started, starts) = AsyncStream.makeStream()
    for node in 0..<3 {
      let life = try await begin(node)
      state.withLock { $0.lives.append(life) }
    }
  }

  private func begin(_ node: Int) async throws -> Life {
    let (seed, other) = state.withLock { ($0.random.next(), $0.random.next()) }
    var faults = NodeJournal.Faults()
    faults.appends = 25
    faults.reads = 60
    faults.bells = 4
    faults.delays = 3
    let journal = NodeJournal(memory, node: node, faults: faults, seed: seed)
    let engine = try await Engine.onNode(
      journal, seed: other, clock: clocks[node], followAfter: .milliseconds(5))
    starts.yield(engine)
    return Life(engine: engine, journal: journal)
  }

  /// Runs all engines until `stop`.
  func run() async {
    await withTaskGroup(of: Void.self) { group in
      for await engine in started { group.addTask { await engine.run() } }
    }
  }

  func stop() async {
    for life in state.withLock({ $0.lives }) { end(life) }
    starts.finish()
  }

  private func end(_ life: Life) {
    life.engine.stop()
    let races = life.engine.races
    state.withLock {
      $0.races.lost += races.lost
      $0.races.mostInARow = max($0.races.mostInARow, races.mostInARow)
    }
  }

  func life(_ node: Int) -> Life { state.withLock { $0.lives[node] } }
  var engines: [Engine] { state.withLock { $0.lives.map(\.engine) } }
  /// Whether no more writes begin.
  var isOver: Bool { state.withLock { $0.isOver } }
  /// Whether all nodes have all commits.
  var isQuiet: Bool { state.withLock { $0.isQuiet } }
  var kills: Int { state.withLock { $0.kills } }
  var races: Engine.Races { state.withLock { $0.races } }

  /// Kills nodes and changes clocks, then lets all nodes catch up.
  func disturb(_ count: Int) async throws {
    for _ in 0..<count {
      let next = memory.sequence + state.withLock { Int64.random(in: 5...60, using: &$0.random) }
      try await eventually { memory.sequence >= next }
      let (node, kills, change) = state.withLock { state in
        (
          Int.random(in: 0..<3, using: &state.random), state.random.oneIn(2),
          Int64.random(in: -90_000...90_000, using: &state.random)
        )
      }
      clocks[node].advance(change)
      guard kills else { continue }
      let old = life(node)
      old.journal.cut()
      end(old)
      let new = try await begin(node)
      state.withLock {
        $0.lives[node] = new
        $0.kills += 1
      }
    }
    state.withLock { $0.isOver = true }
    for life in state.withLock({ $0.lives }) { life.journal.setFaults(NodeJournal.Faults()) }
    // All writes that are under way end before this one, or are given up.
    for engine in engines {
      try await eventually { (try? await engine.increment("counter")) != nil }
    }
    let last = memory.sequence
    for engine in engines { try await engine.wait(for: last, atMost: .seconds(60)) }
    try await eventually { engines.allSatisfy { !$0.hasCommitsUnderWay } }
    let end = memory.sequence
    for engine in engines { try await engine.wait(for: end, atMost: .seconds(60)) }
    state.withLock { $0.isQuiet = true }
  }
}

/// A client that writes on any node.
private struct Writer: Sendable {
  /// The outcomes of its writes, by their keys in `/log`.
  struct Record: Sendable {
    var committed: [Key: Int64] = [:]
    /// The writes of which a node said that they were not made.
    var refused: Set<Key> = []
  }

  let number: Int
  var random: SeededGenerator
  private var record = Record()
  private var onceNumber: Int64 = 0

  init(number: Int, random: SeededGenerator) {
    self.number = number
    self.random = random
  }

  mutating func write(
    until isOver: @Sendable () -> Bool, on cluster: Cluster
  ) async throws -> Record {
    var writes = RandomWrites()
    writes.bigOnceIn = 10_000
    writes.keysMax = 4
    var count = 0
    while !isOver() {
      count += 1
      let key = try Key("\(number)-\(count)")
      let log = Write.Item(Path.root.child("log").child(key), Node(Int64(count)))
      let engine = cluster.life(Int.random(in: 0..<3, using: &random)).engine
      switch random.next() % 4 {
      case 0: await once(key, log, cluster)
      case 1:
        await note(key) {
          try await engine.transact { proposal in
            let sum = (proposal.root.child("counter").integerValue ?? 0) + 1
            let counter = Write.Item(Path.root.child("counter"), Node(sum))
            return Decision(try Write([counter, log]), ())
          }.sequence
        }
      case 2:
        await note(key) {
          try await engine.transact { proposal in
            let pushed = Path.root.child("pushed").child(proposal.nextKey())
            return Decision(try Write([Write.Item(pushed, true), log]), ())
          }.sequence
        }
      default:
        guard let write = try? Write(writes.next(&random).items + [log]) else { continue }
        await note(key) { try await engine.transact { _ in Decision(write, ()) }.sequence }
      }
    }
    return record
  }

  private mutating func note(_ key: Key, _ body: () async throws -> Int64) async {
    do {
      record.committed[key] = try await body()
    } catch EngineError.outcomeUnknown {
      // It may have been made or not.
    } catch {
      record.refused.insert(key)
    }
  }

  /// Sends a write until a node says that it is made.
  private mutating func once(_ key: Key, _ log: Write.Item, _ cluster: Cluster) async {
    onceNumber += 1
    guard
      let origin = try? WriteOrigin(
        client: "writer-\(number)-abcdefghijkl", number: onceNumber, seen: onceNumber - 1)
    else { return }
    while true {
      let engine = cluster.life(Int.random(in: 0..<3, using: &random)).engine
      let result: Result<Committed<Void>, any Error> = await withCheckedContinuation { next in
        engine.submit({ _ in Decision(try Write([log]), ()) }, once: origin) {
          next.resume(returning: $0)
        }
      }
      switch result {
      case .success(let committed):
        record.committed[key] = committed.sequence
        return
      case .failure(let made as RepeatedWrite):
        record.committed[key] = made.sequence
        return
      case .failure: await Task.yield()
      }
    }
  }
}

/// The journal in memory, with which the tests of several engines run, satisfies the requirements of a shared journal.
@Suite(.timeLimit(.minutes(20))) struct SharedJournalContractTests {
  @Test(arguments: SharedJournalContract<MemoryNodes>.checks)
  func `the journal of several nodes satisfies the contract`(
    check: SharedCheck<MemoryNodes>
  ) async throws {
    try await check.run()
  }
}
