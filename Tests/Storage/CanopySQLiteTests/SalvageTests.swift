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
  private func salvage(
    _ folder: Folder, hasLog: Bool = false
  ) throws -> (rows: Rows, lost: [String], scans: Int) {
    let target = try DatabaseQueue()
    return try folder.read(hasLog: hasLog) { source in
      try target.writeWithoutTransaction { target in
        var salvage = Salvage(path: folder.database, from: source, to: target)
        let lost = try salvage.run()
        return (try AllTables.rows(target), lost, salvage.scans)
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

  /// Accepts the losses of a folder with a damaged page of definitions. The text of a table is needed: without it the file
  /// is refused and stays as it was. Without texts of indexes, nothing is lost.
  private func acceptDefinitions(
    _ folder: Folder, _ copy: Folder, _ root: Node, _ damage: Damage
  ) async throws {
    let file = try FileHandle(forReadingFrom: URL(filePath: folder.database))
    try file.seek(toOffset: UInt64((damage.page.number - 1) * DatabasePages.bytes))
    let page = try file.read(upToCount: DatabasePages.bytes) ?? Data()
    let served = try? await copy.crashed().withStore { try await $0.tree().root }
    #expect(served == nil || served == root, "\(damage)")
    guard page.firstRange(of: Data("CREATE TABLE".utf8)) != nil else {
      #expect(try await accept(copy, root, damage).notes == [], "\(damage)")
      return
    }
    let before = try Data(contentsOf: URL(filePath: copy.database))
    let error = await #expect(throws: StoreError.self, "\(damage)") {
      try await accept(copy, root, damage)
    }
    expectAdvice(error, mentions: "the definitions of the tables", "backup")
    #expect(try Data(contentsOf: URL(filePath: copy.database)) == before)
  }

  @Test func `a damaged page of any kind costs only the rows that need it, and they are listed`()
    async throws
  {
    var random = SeededGenerator(printingSeedFor: "SalvageTests")
    let folder = try Folder()
    try await fill(folder, &random)
    let root = try await folder.withStore { try await $0.tree().root }
    let whole = try folder.read { try AllTables.rows($0) }
    let groups = Dictionary(grouping: try DatabasePages(folder).pages) {
      let kind = $0.isRoot && $0.kind == .interior ? "root" : $0.kind.rawValue
      return "\(kind) of \($0.tree.isEmpty ? "free pages" : $0.tree)"
    }
    for name in [
      "root of commits", "leaf of commits", "overflow of commits", "root of leaves",
      "interior of leaves", "leaf of leaves", "overflow of leaves", "leaf of meta",
      "leaf of accounts",
      "leaf of client_writes", "listTrunk of free pages", "listLeaf of free pages",
    ] { #expect(groups[name] != nil, "\(name) is missing") }
    for (name, pages) in groups.sorted(by: { $0.key < $1.key }) {
      // The first page is checked before all others.
      let candidates = pages.filter { $0.number > 1 }
      guard !candidates.isEmpty else { continue }
      if name.hasSuffix(" of sqlite_schema") {
        // Some pages have the newest definitions, without which the file looks like one of an older version.
        for page in candidates {
          let damage = Damage(page: page, byte: random.pick([0x00, 0xFF, 0x55]))
          try await acceptDefinitions(folder, try damaged(folder, [damage]), root, damage)
        }
        continue
      }
      let damage = Damage(page: random.pick(candidates), byte: random.pick([0x00, 0xFF, 0x55]))
      let copy = try damaged(folder, [damage])
      let served = try? await copy.crashed().withStore { try await $0.tree().root }
      #expect(served == nil || served == root, "\(damage)")
      let (found, lost, scans) = try salvage(copy)
      // One for each table, one for each page of the damaged one, and those of that page and of the two beside it. For a
      // page that is damaged in part, the bound is the one that `Salvage` states.
      let leaves = groups["leaf of \(damage.page.tree)", default: []]
      let inPart = leaves.count + (leaves.map(\.rows).max() ?? 0)
      #expect(
        scans <= whole.count + leaves.count + (damage.page.kind == .overflow ? inPart : 10),
        "\(damage): \(scans) scans, \(leaves.count) leaf pages")
      for (table, rows) in whole {
        var expected = damage.page.tree.hasSameBytes(as: table) ? damage.page.rows : 0
        // The row that says that all rows have checksums is written again.
        if table.hasSameBytes(as: "meta"), expected > 0 { expected -= 1 }
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

  @Test func `rows between several damaged pages are found`() async throws {
    var random = SeededGenerator(printingSeedFor: "SalvageTests.several")
    let folder = try Folder()
    try await fill(folder, &random)
    let whole = try folder.read { try AllTables.rows($0) }
    let pages = try DatabasePages(folder).pages
    for table in ["commits", "leaves"] {
      let leaves = pages.filter { $0.kind == .leaf && $0.tree.hasSameBytes(as: table) }
      let ends = [leaves.first, leaves.last, random.pick(leaves.dropFirst().dropLast())]
      let choices =
        [2, 5, leaves.count / 2].map { Array(leaves.shuffled(using: &random).prefix($0)) }
        + [ends.compactMap(\.self)]
      for chosen in choices {
        let copy = try damaged(folder, chosen.map { Damage(page: $0, byte: 0xFF) })
        let (found, _, scans) = try salvage(copy)
        let lost = whole[table, default: []].subtracting(found[table, default: []]).count
        // A row of an inner page is found through one of the two leaf pages beside it, if the tree is that of a key.
        let places = leaves.indices.filter { index in
          chosen.contains { $0.number == leaves[index].number }
        }
        let neighbours = zip(places, places.dropFirst()).count { $0 + 1 == $1 }
        let inner = table.hasSameBytes(as: "leaves") ? neighbours : 0
        #expect(
          lost == chosen.reduce(inner) { $0 + $1.rows }, "\(table), \(chosen.map(\.number))")
        #expect(scans <= whole.count + 1 + 2 * leaves.count)
      }
    }
  }

  // With the second seed, a search for the first key of a page begins in the damaged page before it.
  @Test(arguments: [nil, 11_229_249_936_938_968_814])
  func `a page with random bytes costs no rows of other pages`(seed: UInt64?) async throws {
    var random =
      seed.map { SeededGenerator(seed: $0) }
      ?? SeededGenerator(printingSeedFor: "SalvageTests.bytes")
    let folder = try Folder()
    try await fill(folder, &random)
    let whole = try folder.read { try AllTables.rows($0) }
    let pages = try DatabasePages(folder).pages.filter {
      whole[$0.tree] != nil && $0.isTable && [.interior, .leaf].contains($0.kind)
    }
    for kind in [DatabasePages.Kind.interior, .leaf] {
      for round in 0..<2 {
        let page = random.pick(pages.filter { $0.kind == kind && $0.number > 1 })
        let copy = try folder.crashed()
        var data = try Data(contentsOf: URL(filePath: copy.database))
        let start = (page.number - 1) * DatabasePages.bytes
        // The kind of the page stays, and in every other round its head and the places of its rows, too.
        let first = round % 2 == 0 ? 1 : DatabasePages.bytes / 4
        for offset in start + first..<start + DatabasePages.bytes {
          data[offset] = UInt8(truncatingIfNeeded: random.next())
        }
        try data.write(to: URL(filePath: copy.database))
        let (found, _, scans) = try salvage(copy)
        for (table, rows) in whole {
          let lost = rows.subtracting(found[table, default: []]).count
          let most = table.hasSameBytes(as: page.tree) ? page.rows : 0
          #expect(lost <= most, "\(table) after page \(page.number) (\(kind) of \(page.tree))")
        }
        #expect(scans <= whole.count + 1 + 4 * DatabasePages.bytes)
      }
    }
  }

  @Test func `rows that only the log has are found between damaged pages`() async throws {
    var random = SeededGenerator(printingSeedFor: "SalvageTests.log")
    let folder = try Folder()
    try await fill(folder, &random)
    // The pages of the first commit and of those in the middle are in the file, the later ones in the log.
    let leaves = try DatabasePages(folder).pages.filter {
      $0.kind == .leaf && $0.tree.hasSameBytes(as: "commits")
    }
    let copy = try await folder.withStore { store in
      let more = try (Self.commits + 1...Self.commits + 400).map {
        try commit($0, "n/k\($0)", Node(String(repeating: "x", count: 500)))
      }
      try store.append(more, after: Self.commits)
      return try folder.crashed()
    }
    let chosen = [leaves[0], leaves[leaves.count / 2]]
    let left = try damaged(copy, chosen.map { Damage(page: $0, byte: 0xFF) })
    let kept = try salvage(left, hasLog: true).rows["commits", default: []].count
    #expect(kept == Int(Self.commits) + 400 - chosen.reduce(0) { $0 + $1.rows })
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

  @Test func `a crash before the new file has its name loses no commit of the log`() async throws {
    struct Crash: Error {}
    let folder = try Folder()
    let copy = try await folder.withStore { store in
      try store.append(try (1...12).map { try commit($0, "n/\($0)", Node($0)) }, after: 0)
      return try folder.crashed()
    }
    try #require(LogScan.exists(database: copy.database))
    let new = copy.path + "/.salvaged.sqlite"
    try Data("new".utf8).write(to: URL(filePath: new))
    let opening = Opening(folder: copy.path, configuration: .init(), tail: nil)
    #expect(throws: Crash.self) {
      try opening.replace(by: new, hasLog: true) { throw Crash() }
    }
    #expect(!LogScan.exists(database: copy.database))
    try await copy.withStore { store async throws in
      #expect(try await store.tree().sequence == 12)
      #expect(try await store.problems().isEmpty)
    }
  }

  @Test func `two ranges have the keys in common that are in both`() {
    func range(_ low: Int64?, _ high: Int64?) -> SalvageRange {
      SalvageRange(low: low.map { [.number($0)] }, high: high.map { [.number($0)] })
    }
    let all = range(nil, nil)
    #expect(all.common(with: range(1, 9)) == range(1, 9))
    #expect(range(1, 9).common(with: all) == range(1, 9))
    #expect(range(1, 9).common(with: range(2, 8)) == range(2, 8))
    #expect(range(2, 8).common(with: range(1, 9)) == range(2, 8))
    #expect(range(1, 8).common(with: range(2, 9)) == range(2, 8))
    #expect(!all.isEmpty)
    #expect(all.contains([.number(.min)]) && range(1, 2).contains([.number(1)]))
    #expect(!range(1, 2).contains([.number(0)]) && !range(1, 2).contains([.number(2)]))
    #expect(!range(1, 2).isEmpty)
    #expect(range(2, 2).isEmpty)
    #expect(range(3, 2).isEmpty)
    // Damaged pages have values of other kinds.
    let keys: [SalvageKeyPart] = [
      .number(1), .number(2), .text([0]), .text([1]), .blob([]), .blob([0]),
    ]
    for (index, key) in keys.enumerated() {
      for (other, another) in keys.enumerated() { #expect((key < another) == (index < other)) }
    }
  }

  // Otherwise the next start would change the mode of the file, with a rollback journal that no other start takes.
  @Test func `the new file is in WAL mode before it has its name`() async throws {
    let folder = try Folder()
    try await folder.withStore { store in
      for number in 1...200 as ClosedRange<Int64> {
        try store.append([commit(number, "n/\(number)", Node("text"))], after: number - 1)
      }
    }
    let page = try #require(
      try DatabasePages(folder).pages.first {
        $0.kind == .leaf && $0.tree.hasSameBytes(as: "commits") && !$0.isRoot
      })
    let copy = try damaged(folder, [Damage(page: page, byte: 0)])
    var configuration = SQLiteStore.Configuration()
    configuration.acceptsLoss = true
    configuration.keepsFormerFiles = false
    let opening = Opening(folder: copy.path, configuration: configuration, tail: nil)
    var found = FoundFiles(opening)
    #expect(try opening.salvage(hasLog: false, &found)?.isEmpty == false)
    #expect(try DatabaseHead(copy.database).isInLogMode)
    #expect(try copy.files() == ["canopy.sqlite", "canopy.tail"])
  }
}
