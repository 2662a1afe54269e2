import CanopyEngine
import CanopyTesting
import CanopyTree
import CanopyWire
import Foundation
import GRDB
import Testing

@testable import CanopyBackup
@testable import CanopySQLite

/// The scrub of a running server.
@Suite(.timeLimit(.minutes(20))) struct ScrubberTests {
  private let server: Server
  private let log = LineLog()

  init() throws {
    server = try Server()
  }

  private func scrubber(
    every: Duration = .seconds(1_000),
    fileProblems: @escaping @Sendable (NamespaceName, String) -> [String] = { _, _ in [] }
  ) throws -> Scrubber {
    let shop = try NamespaceName("shop")
    return Scrubber(
      every: every,
      namespaces: { [folder = server.folder.path, shopFolder = server.shopFolder] in
        [(.default, folder), (shop, shopFolder)]
      }, fileProblems: fileProblems, now: { [clock = server.clock] in clock.now },
      logger: log.logger)
  }

  @Test func `a pass reads the rows of all namespaces and rests after each step`() async throws {
    try await server.withStore { store in
      try store.append([commit(1, "a", Node(1))], after: 0)
      let scrubber = try scrubber()
      let clock = EagerClock()
      try await scrubber.pass(clock: clock)
      // One commit in each namespace.
      #expect(scrubber.counts.rows == 2 && scrubber.counts.bytes > 0)
      #expect(scrubber.counts.passes == 1 && scrubber.counts.lastProblems == 0)
      #expect(scrubber.counts.lastEnd == server.clock.now)
      #expect(clock.sleeps.allSatisfy { $0 >= Scrubber.pauseMin })
    }
  }

  @Test func `a lost database is damage, and a removed folder is not`() async throws {
    try FileManager.default.removeItem(atPath: server.shopFolder + "/canopy.sqlite")
    let scrubber = try scrubber()
    try await scrubber.pass(clock: EagerClock())
    #expect(scrubber.counts.lastProblems == 1)
    #expect(
      log.lines.contains { $0.contains("the scrub has found damage") && $0.contains("missing") })
    try FileManager.default.removeItem(atPath: server.shopFolder)
    try await scrubber.pass(clock: EagerClock())
    #expect(scrubber.counts.lastProblems == 0)
  }

  @Test func `lost rules are damage, and rules that there never were are not`() async throws {
    try FileManager.default.removeItem(atPath: server.folder.file("rules.json"))
    for (origin, problems) in [(RulesRecord.Origin.initial, 0), (.file, 1)] {
      try await server.withStore { store in
        try await store.setRulesRecord(RulesRecord(origin, checksum: "abc", sequence: 0))
      }
      let scrubber = try scrubber()
      try await scrubber.pass(clock: EagerClock())
      #expect(scrubber.counts.lastProblems == problems)
    }
    #expect(log.lines.contains { $0.contains("rules.json is missing") }, "\(log.lines)")
  }

  @Test func `a namespace of an older version is counted and logged, and is no damage`()
    async throws
  {
    let path = server.shopFolder + "/canopy.sqlite"
    for suffix in ["", "-wal", "-shm"] {
      try? FileManager.default.removeItem(atPath: path + suffix)
    }
    let queue = try DatabaseQueue(path: path)
    try Schema.migrator.migrate(queue, upTo: "1")
    try queue.close()
    let scrubber = try scrubber()
    try await scrubber.pass(clock: EagerClock())
    #expect(scrubber.counts.passes == 1 && scrubber.counts.lastProblems == 0)
    #expect(scrubber.counts.lastOlder == 1)
    let older = log.lines.filter { $0.contains("a database of an older version") }
    #expect(older.count == 1 && older.allSatisfy { $0.contains("shop") }, "\(log.lines)")
    #expect(!log.lines.contains { $0.contains("has read all rows") })
  }

  @Test func `the rules and the secrets of each namespace are checked in each pass`() async throws {
    let scrubber = try scrubber { ["\($0): \($1)/rules.json is damaged"] }
    for pass in 1...2 {
      try await scrubber.pass(clock: EagerClock())
      #expect(scrubber.counts.lastProblems == 2 && scrubber.counts.passes == pass)
    }
    for text in ["default: \(server.folder.path)", "shop: \(server.shopFolder)"] {
      #expect(log.lines.contains { $0.contains("\(text)/rules.json is damaged") }, "\(log.lines)")
    }
  }

  @Test func `damage is logged with its namespace, and counted`() async throws {
    let queue = try DatabaseQueue(path: server.shopFolder + "/canopy.sqlite")
    try await queue.write { try $0.execute(sql: "UPDATE commits SET time = 5") }
    try queue.close()
    let scrubber = try scrubber()
    let clock = EagerClock()
    try await scrubber.pass(clock: clock)
    #expect(scrubber.counts.lastProblems == 1)
    #expect(log.lines.contains { $0.contains("the scrub has found damage") && $0.contains("shop") })
  }

  @Test
  func `a pass begins when its time has come, and a long one is followed by the next at once`()
    async throws
  {
    for (every, rest) in [(1_000, 1_000), (0, 0)] as [(Int64, Int64)] {
      let scrubber = try scrubber(every: .seconds(every))
      let clock = StepClock()
      let task = Task { await scrubber.run(clock: clock) }
      var passed = Duration.zero
      for count in 1... {
        await clock.slept(count)
        let sleep = try #require(clock.sleeps.last)
        if scrubber.counts.passes == 1 {
          #expect(sleep == max(Scrubber.pauseMin, .seconds(rest) - passed))
          break
        }
        passed += sleep
        clock.advance(by: sleep)
      }
      task.cancel()
      await task.value
    }
  }

  @Test func `a namespace that was removed is no damage`() async throws {
    try FileManager.default.removeItem(atPath: server.shopFolder)
    let scrubber = try scrubber()
    let clock = EagerClock()
    try await scrubber.pass(clock: clock)
    #expect(scrubber.counts.passes == 1 && scrubber.counts.lastProblems == 0)
  }
}
