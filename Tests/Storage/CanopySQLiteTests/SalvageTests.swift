import CanopyAccounts
import CanopyEngine
import CanopyTesting
import CanopyTree
import Foundation
import GRDB
import Testing

@testable import CanopySQLite

/// Folders with damaged pages.
@Suite(.timeLimit(.minutes(20))) struct SalvageTests {
  private static let commits: Int64 = 4_000
  private static let checkpoint: Int64 = 3_000

  /// A page, and how it is damaged.
  private struct Damage: CustomStringConvertible {
    var page: DatabasePages.Page
    /// The byte that replaces all bytes.
    var byte: UInt8

    var description: String {
      "page \(page.number) (\(page.kind.rawValue) of \(page.tree)) with bytes \(byte)"
    }
  }

  /// The rows of each table.
  private typealias Rows = [String: Set<String>]

  /// Fills a folder with trees of three levels, rows that take several pages, and free pages.
  private func fill(_ folder: Folder, _ random: inout SeededGenerator) async throws {
    var configuration = SQLiteStore.Configuration()
    configuration.retainedCommits = 100_000
    try await folder.withStore(configuration) { store in
      var commits: [Commit] = []
      for number in 1...Self.commits {
        let length = number % 500 == 0 ? 3_000 : Int.random(in: 60...90, using: &random)
        let text = String(repeating: "t\(random.next() % 1_000) ", count: length)
        var commit = try commit(number, "n/k\(random.next() % 1_000)x\(number)", Node(text))
        if number % 4 == 0 {
          commit.origin = try WriteOrigin(client: "c\(number % 7)", number: number, seen: 0)
        }
        commits.append(commit)
        guard number % 500 == 0 else { continue }
        try store.append(commits, after: number - Int64(commits.count))
        commits = []
        guard number == Self.checkpoint else { continue }
        try await store.checkpoint(try await store.tree().root, through: number)
      }
      for number in 0..<60 {
        _ = try await store.insert(
          Account(
            uid: "u\(number)", email: "e\(number)", emailNormalized: "e\(number)",
            username: "n\(number)", passwordHash: String(repeating: "h", count: 90),
            createdAt: 1, isDisabled: false, isPending: number % 2 == 0))
      }
      try await store.damage(
        "CREATE TABLE other(x); INSERT INTO other VALUES (zeroblob(40000)); DROP TABLE other",
        isSealed: false)
    }
  }

  private func rows(_ db: Database) throws -> Rows {
    let names = try String.fetchAll(db, sql: "SELECT name FROM sqlite_schema WHERE type = 'table'")
    return try names.reduce(into: [:]) { rows, name in
      let all = try Row.fetchAll(db, sql: "SELECT * FROM \(name)")
      rows[name] = Set(all.map { "\($0.databaseValues)" })
    }
  }

  private func damaged(_ folder: Folder, _ damages: [Damage]) throws -> Folder {
    let copy = try folder.crashed()
    let file = try FileHandle(forUpdating: URL(filePath: copy.database))
    for damage in damages {
      try file.seek(toOffset: UInt64((damage.page.number - 1) * DatabasePages.bytes))
      try file.write(contentsOf: Data(repeating: damage.byte, count: DatabasePages.bytes))
    }
    try file.close()
    return copy
  }

  /// Copies the rows that can be read into memory.
  private func salvage(_ folder: Folder) throws -> (rows: Rows, lost: [String], scans: Int) {
    let target = try DatabaseQueue()
    return try folder.read { source in
      try target.writeWithoutTransaction { target in
        var salvage = Salvage(path: folder.database, from: source, to: target)
        let lost = try salvage.run()
        return (try rows(target), lost, salvage.scans)
      }
    }
  }

  /// Accepts the losses of a folder. Expects a sound folder whose tree has no other values than `root`.
  private func accept(_ folder: Folder, _ root: Node, _ damage: Damage) async throws -> Losses {
    var configuration = SQLiteStore.Configuration()
    configuration.acceptsLoss = true
    let losses = try await folder.withStore(configuration) { try await $0.acceptLosses() }
    try await folder.withStore { store in
      #expect(try await store.problems().isEmpty, "\(damage)")
      let found = try await store.tree().root.child("n")
      var isSame = true
      found.forEachChild { key, node in
        if root.child("n").child(key) != node { isSame = false }
        return true
      }
      #expect(isSame, "\(damage)")
      if losses.notes.isEmpty { #expect(found == root.child("n"), "\(damage)") }
    }
    return losses
  }

  @Test func `a damaged page of any kind costs only the rows that need it, and they are listed`()
    async throws
  {
    var random = SeededGenerator(printingSeedFor: "SalvageTests")
    let folder = try Folder()
    try await fill(folder, &random)
    let root = try await folder.withStore { try await $0.tree().root }
    let whole = try folder.read { try rows($0) }
    let groups = Dictionary(grouping: try DatabasePages(folder).pages) {
      "\($0.kind.rawValue) of \($0.tree.isEmpty ? "free pages" : $0.tree)"
    }
    for name in [
      "interior of commits", "leaf of commits", "overflow of commits", "interior of leaves",
      "leaf of leaves", "overflow of leaves", "leaf of meta", "leaf of accounts",
      "leaf of client_writes", "listTrunk of free pages", "listLeaf of free pages",
    ] { #expect(groups[name] != nil, "\(name) is missing") }
    for (name, pages) in groups.sorted(by: { $0.key < $1.key }) {
      // The first page is checked before all others.
      let candidates = pages.filter { $0.number > 1 }
      guard !candidates.isEmpty else { continue }
      let damage = Damage(page: random.pick(candidates), byte: random.pick([0x00, 0xFF, 0x55]))
      let copy = try damaged(folder, [damage])
      let served = try? await copy.crashed().withStore { try await $0.tree().root }
      #expect(served == nil || served == root, "\(damage)")
      guard !damage.page.tree.hasSameBytes(as: "sqlite_schema") else {
        var configuration = SQLiteStore.Configuration()
        configuration.acceptsLoss = true
        let before = try Data(contentsOf: URL(filePath: copy.database))
        let error = await #expect(throws: StoreError.self) {
          try await copy.withStore(configuration) { _ in }
        }
        expectAdvice(error, mentions: "is damaged", "backup")
        #expect(try Data(contentsOf: URL(filePath: copy.database)) == before)
        continue
      }
      let (found, lost, scans) = try salvage(copy)
      #expect(scans <= 2 * (Salvage.rangesMax + whole.count), "\(damage)")
      for (table, rows) in whole {
        let expected = damage.page.tree.hasSameBytes(as: table) ? damage.page.rows : 0
        let kept = found[table, default: []]
        #expect(rows.subtracting(kept).count == expected, "\(table) after \(damage)")
        // The last page of a large row has content only, which is compared with its checksum later.
        let altered = kept.subtracting(rows).count
        #expect(altered == 0 || damage.page.kind == .overflow && altered == 1, "\(damage)")
        let isListed = lost.contains { $0.contains("of the table \(table),") }
        #expect(isListed || expected <= altered, "\(table) after \(damage): \(lost)")
        // Whether the page of an empty table had rows cannot be known.
        let isDamaged = damage.page.tree.hasSameBytes(as: table)
        #expect(!isListed || isDamaged, "\(table) after \(damage): \(lost)")
      }
      guard whole[damage.page.tree]?.count ?? 1 > 0 else { continue }
      let losses = try await accept(copy, root, damage)
      #expect(losses.notes.isEmpty == (damage.page.rows == 0), "\(damage): \(losses.notes)")
      print("\(name): \(damage.page.rows) rows, \(scans) scans, \(losses.notes)")
    }
  }

  /// Expects that all rows outside of some pages are found, or at least half of them if the keys are texts: their number
  /// of possible cuts has no bound, but that of the attempts has.
  private func expectFew(
    _ lost: Int, of rows: Set<String>?, on pages: [DatabasePages.Page], _ comment: String
  ) {
    let least = pages.reduce(0) { $0 + $1.rows }
    print("\(comment): \(lost) rows lost, \(least) on the pages, of \(rows?.count ?? 0)")
    #expect(lost >= least, "\(comment)")
    let hasNumbers = pages.first?.tree.hasSameBytes(as: "commits") ?? false
    #expect(lost <= (hasNumbers ? least : (rows?.count ?? 0) / 2), "\(comment)")
  }

  @Test func `rows between several damaged pages are found`() async throws {
    var random = SeededGenerator(printingSeedFor: "SalvageTests.several")
    let folder = try Folder()
    try await fill(folder, &random)
    let whole = try folder.read { try rows($0) }
    let pages = try DatabasePages(folder).pages
    for table in ["commits", "leaves"] {
      let leaves = pages.filter { $0.kind == .leaf && $0.tree.hasSameBytes(as: table) }
      for count in [2, 5] {
        let chosen = leaves.shuffled(using: &random).prefix(count)
        let copy = try damaged(folder, chosen.map { Damage(page: $0, byte: 0xFF) })
        let (found, _, scans) = try salvage(copy)
        let lost = whole[table, default: []].subtracting(found[table, default: []]).count
        expectFew(lost, of: whole[table], on: Array(chosen), "\(table), \(count) pages")
        #expect(scans <= 2 * (Salvage.rangesMax + whole.count))
      }
      // The first and the last page are damaged too, so no bound is known.
      let ends = [leaves.first, leaves.last, random.pick(leaves.dropFirst().dropLast())]
      let copy = try damaged(folder, ends.compactMap(\.self).map { Damage(page: $0, byte: 0xFF) })
      let kept = try salvage(copy).rows[table, default: []]
      let lost = whole[table, default: []].subtracting(kept).count
      expectFew(lost, of: whole[table], on: ends.compactMap(\.self), "\(table), both ends")
    }
  }

  @Test func `the damaged file and its log stay beside the new one`() async throws {
    var random = SeededGenerator(printingSeedFor: "SalvageTests.beside")
    let folder = try Folder()
    try await fill(folder, &random)
    let page = try #require(
      try DatabasePages(folder).pages.first {
        $0.kind == .leaf && $0.tree.hasSameBytes(as: "leaves")
      })
    let copy = try await folder.withStore { store in
      try store.append([commit(Self.commits + 1, "last", 1)], after: Self.commits)
      return try folder.crashed()
    }
    let damage = Damage(page: page, byte: 0xFF)
    let left = try damaged(copy, [damage])
    let before = try ["", "-wal"].map { try Data(contentsOf: URL(filePath: left.database + $0)) }
    let root = try await folder.withStore { try await $0.tree().root }
    let losses = try await accept(left, root, damage)
    #expect(!losses.notes.isEmpty)
    let kept = try ["", "-wal"].map {
      try Data(contentsOf: URL(filePath: left.path + "/damaged-1.sqlite" + $0))
    }
    #expect(kept == before)
    #expect(try await left.withStore { try await $0.tree().root.child("last") } == 1)
  }

  @Test func `a range is cut in the middle, and at growing distances from one known bound`() {
    let least: SalvageKey = [.number(.min)]
    func cuts(_ low: Int64?, _ high: Int64?) -> [SalvageKey] {
      SalvageKey.cuts(
        after: low.map { [.number($0)] }, before: high.map { [.number($0)] }, least: least)
    }
    #expect(cuts(4, 8) == [[.number(6)]])
    #expect(cuts(4, 6) == [[.number(5)]])
    #expect(cuts(4, 5).isEmpty)
    #expect(cuts(.min, .max).count == 1)
    #expect(cuts(.max - 1, nil) == [[.number(.max)]])
    #expect(cuts(.max, nil).isEmpty)
    #expect(cuts(1, nil).prefix(3) == [[.number(2)], [.number(3)], [.number(5)]])
    #expect(cuts(nil, 1).suffix(2) == [[.number(-1)], [.number(0)]])
    func texts(_ low: String?, _ high: String?) -> [SalvageKey] {
      SalvageKey.cuts(
        after: low.map { [.text(Array($0.utf8))] }, before: high.map { [.text(Array($0.utf8))] },
        least: [.text([])])
    }
    #expect(texts("n/b", nil) == ["n/c", "n0", "o"].map { [.text(Array($0.utf8))] })
    #expect(texts(nil, "n/b") == ["", "n", "n/"].map { [.text(Array($0.utf8))] })
    #expect(texts("n/a", "n/c").count == 1)
    let pair: SalvageKey = [.text([]), .number(.min)]
    let cut = SalvageKey.cuts(
      after: [.text([1]), .number(4)], before: [.text([1]), .number(8)], least: pair)
    #expect(cut == [[.text([1]), .number(6)]])
  }
}
