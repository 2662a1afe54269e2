import CanopyAccounts
import CanopyEngine
import CanopyTesting
import CanopyTree
import Foundation
import Synchronization
import Testing

@testable import CanopySQLite

/// Planted defects, each of which the runs of `FaultyDiskTests` must find. So no check of them passes in any case.
@Suite(.serialized, .timeLimit(.minutes(20))) struct PlantedDefectTests {
  private func run(
    _ fault: DiskFault? = nil, at number: Int = 0, losesAll: Bool = true,
    _ change: (inout DiskRun) -> Void
  ) async throws -> DiskRun.Outcome {
    var random = SeededGenerator(printingSeedFor: "PlantedDefectTests")
    var run = DiskRun(fault: fault, number: number, seed: random.next())
    run.losesAll = losesAll
    change(&run)
    return try await run.run()
  }

  @Test func `a store that acknowledges before the disk has the commit loses writes`()
    async throws
  {
    let outcome = try await run { $0.configure = { $0.durability = .relaxed } }
    #expect(outcome.acknowledged > 25)
    #expect(!outcome.findings.lost.isEmpty)
  }

  @Test func `a disk that reports success without synchronizing loses writes`() async throws {
    let outcome = try await run { $0.ignoresSync = true }
    #expect(!outcome.findings.lost.isEmpty)
  }

  @Test func `without repairs, a failed synchronization loses or tears later writes`()
    async throws
  {
    var random = SeededGenerator(printingSeedFor: "PlantedDefectTests.repairs")
    let points = try await DiskRun(seed: 1).run().counts[.syncDropped] ?? 0
    let runs = stride(from: 4, to: points, by: 1).map { number in
      var run = DiskRun(fault: .syncDropped, number: number, seed: random.next())
      run.losesAll = true
      run.configure = { $0.repairsLog = false }
      return run
    }
    let found = try await withThrowingTaskGroup(of: [String].self) { group in
      var found: [String] = []
      var left = runs[...]
      for run in left.prefix(4) { group.addTask { try await run.run().findings.all } }
      left = left.dropFirst(4)
      while let findings = try await group.next() {
        found += findings
        guard found.isEmpty, let run = left.popFirst() else { continue }
        group.addTask { try await run.run().findings.all }
      }
      return found
    }
    #expect(!found.isEmpty)
  }

  @Test func `a post without its copy is torn`() async throws {
    let outcome = try await run {
      $0.change = { server in
        let author = server.engine.root.at(try Path("user-posts")).children(after: nil, limit: 1)
        let user = try #require(author.first)
        let post = try #require(user.node.children(after: nil, limit: 1).first)
        try await server.write("user-posts/\(user.key)/\(post.key)", .absent)
      }
    }
    #expect(outcome.findings.torn.contains { $0.contains("is not in /user-posts/") })
  }

  @Test func `a star that counts twice is torn`() async throws {
    let outcome = try await run {
      $0.change = { server in
        let post = try #require(
          server.engine.root.at(try Path("posts")).children(after: nil, limit: 1).first)
        for place in ["posts", "user-posts/\(post.node.at(try Path("uid")).stringValue ?? "")"] {
          try await server.write("\(place)/\(post.key)/starCount", 2)
        }
      }
    }
    #expect(outcome.findings.torn.contains { $0.contains("another starCount") })
  }

  @Test func `writes that are made twice are found`() async throws {
    let outcome = try await run {
      $0.change = { server in
        let root = server.engine.root
        let count = root.at(try Path("count")).integerValue ?? 0
        try await server.write("count", Node(count + 1))
        let gone = root.at(try Path("gone")).children(after: nil, limit: .max)
        for (key, _) in gone { try await server.write("gone/\(key)", 2) }
        let post = try #require(
          root.at(try Path("posts")).children(after: nil, limit: 1).first)
        try await server.write("posts/copy", post.node)
      }
    }
    let doubled = outcome.findings.doubled
    #expect(doubled.contains("1 increments"))
    #expect(doubled.count { $0.contains("was made 2 times") } == 4)
    #expect(doubled.contains { $0.contains("post Post") && $0.contains("exists 2 times") })
  }

  @Test func `a store that denies a commit which it has stored is found`() async throws {
    let outcome = try await run {
      $0.journal = { DefectiveJournal(base: $0, defect: .deniesStored) }
    }
    #expect(outcome.findings.doubled.contains { $0.contains("the reply denied it") })
  }

  @Test func `a store that does not recover from an error is found`() async throws {
    let outcome = try await run {
      $0.journal = { DefectiveJournal(base: $0, defect: .staysBroken) }
    }
    #expect(outcome.findings.stuck.contains { $0.contains("is refused again and again") })
  }

  @Test func `an account that disappears is lost`() async throws {
    let outcome = try await run {
      $0.change = { server in
        let account = try #require(try await server.accounts.accounts(limit: 1).first)
        try await server.accounts.deleteAccount(uid: account.uid)
      }
    }
    #expect(outcome.findings.lost.contains { $0.contains("the account ada") })
    #expect(outcome.findings.lost.contains { $0.contains("the session of ada") })
  }

  @Test func `altered bytes are found by canopy verify`() async throws {
    let outcome = try await run {
      $0.damage = { folder in
        for name in ["canopy.sqlite", "canopy.sqlite-wal"] {
          let url = folder.url.appending(path: name)
          guard var data = try? Data(contentsOf: url), data.count > 8_192 else { continue }
          for offset in stride(from: 4_196, to: data.count, by: 4_096) { data[offset] ^= 0x55 }
          try data.write(to: url)
        }
      }
    }
    #expect(!outcome.findings.all.isEmpty)
  }

  @Test(
    arguments: [
      ("rules.json", "rules.json"), ("admin-token", "admin-token"),
      ("identity-keys", "identity-keys"), ("namespaces/shop/canopy.tail", "namespace shop"),
    ])
  func `damage beside the database is found by canopy verify`(
    name: String, expected: String
  ) async throws {
    let outcome = try await run {
      $0.damage = { folder in
        let file = folder.url.appending(path: name)
        try FileManager.default.createDirectory(
          at: file.deletingLastPathComponent(), withIntermediateDirectories: true)
        try Data("damaged".utf8).write(to: file)
      }
    }
    #expect(outcome.findings.torn.contains { $0.contains(expected) }, "\(outcome.findings.all)")
  }
}

extension DiskServer {
  /// Sets a location, whatever the rules say.
  fileprivate func write(_ path: String, _ value: Node) async throws {
    let location = try Path(path)
    _ = try await engine.transact { _ in Decision(try Write([.init(location, value)]), ()) }
  }
}

/// A journal with a defect in front of a store.
private struct DefectiveJournal: ForwardingJournal {
  enum Defect { case deniesStored, staysBroken }

  let base: SQLiteStore
  let defect: Defect
  private let appends = Counter()

  init(base: SQLiteStore, defect: Defect) {
    self.base = base
    self.defect = defect
  }

  private final class Counter: Sendable {
    private let count = Mutex(0)
    func next() -> Int {
      count.withLock {
        $0 += 1
        return $0
      }
    }
  }

  func append(_ commits: [Commit], after last: Int64) async throws {
    let number = appends.next()
    if defect == .staysBroken, number > 12 { throw PlannedFailure() }
    try base.append(commits, after: last)
    if defect == .deniesStored, number % 5 == 0 { throw PlannedFailure() }
  }

  func resolveAppend(after last: Int64) async throws -> [Commit] {
    defect == .deniesStored ? [] : try base.resolveAppend(after: last)
  }
}
