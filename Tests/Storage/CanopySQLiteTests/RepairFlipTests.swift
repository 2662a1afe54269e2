import CanopyEngine
import CanopyTesting
import CanopyTree
import Foundation
import GRDB
import Testing

@testable import CanopySQLite

/// The repair of folders in which one bit of a page is changed.
@Suite(.timeLimit(.minutes(20))) struct RepairFlipTests {
  /// The changes for each tree and kind of page.
  private static let flips = 1
  private static let disconnectTables: Set = [
    "disconnect_writes", "disconnect_exceptions", "disconnect_groups",
  ]
  private static let loginTables: Set = [
    "tokens", "custom_sessions", "account_codes", "account_details",
  ]
  /// Tables that a repair writes again: see `expectTree`.
  private static let journalTables: Set = ["commits", "leaves", "meta", "sqlite_sequence"]

  @Test
  func `a bit of any page costs at most the rows of the page, is reported, and adds no value`()
    async throws
  {
    var random = SeededGenerator(printingSeedFor: "RepairFlipTests")
    let folder = try Folder()
    let tables = try await AllTables(folder, &random)
    let whole = try folder.read { try AllTables.rows($0) }
    for (table, rows) in whole { #expect(!rows.isEmpty, "\(table) has no rows") }
    let pages = try DatabasePages(folder)
    let groups = Dictionary(
      grouping: pages.pages.filter {
        [.leaf, .interior, .overflow].contains($0.kind)
          && !$0.tree.hasSameBytes(as: "sqlite_schema")
      }
    ) { "\($0.tree) \($0.kind.rawValue)" }
    for name in [
      "accounts interior", "tokens_by_expiry leaf", "sqlite_autoindex_grdb_migrations_1 leaf",
      "disconnect_exceptions leaf", "account_codes_by_expiry interior", "commits interior",
    ] { #expect(groups[name] != nil, "\(name) is missing") }
    for (name, group) in groups.sorted(by: { $0.key < $1.key }) {
      for _ in 0..<Self.flips {
        let page = random.pick(group)
        let place = pages.places(in: page).randomElement(using: &random)
        let offset = try #require(place)
        let mask = UInt8(1) << UInt8.random(in: 0..<8, using: &random)
        let damage = "\(name) page \(page.number), byte \(offset % 4_096), mask \(mask)"
        let copy = try folder.crashed()
        try copy.flip(mask, at: offset)
        do {
          let notes = try await copy.acceptLosses()
          try await expectSound(copy, whole, tables, page, notes, damage)
        } catch { Issue.record("\(damage): \(error)") }
      }
    }
  }

  private func expectSound(
    _ copy: Folder, _ whole: [String: Set<String>], _ tables: AllTables,
    _ page: DatabasePages.Page, _ notes: [String], _ damage: String
  ) async throws {
    let what: Comment = "\(damage): \(notes)"
    let root = try await copy.withStore { store in
      let problems = try await store.problems()
      #expect(problems.isEmpty, what)
      return try await store.tree().root
    }
    expectTree(root, tables, page, notes, what)
    let found = try copy.read { try AllTables.rows($0) }
    for (table, rows) in whole where !Self.journalTables.contains(table) {
      let kept = found[table, default: []]
      let (lost, invented) = (rows.subtracting(kept).count, kept.subtracting(rows).count)
      let isExcused =
        notes.contains {
          $0.hasPrefix("all sessions") && Self.loginTables.contains(table)
            || $0.contains("on-disconnect writes") && Self.disconnectTables.contains(table)
            || $0.hasPrefix("the replies to") && table.hasSameBytes(as: "client_writes")
        }
        || notes.contains { $0.contains("tokens") } && table.hasSameBytes(as: "custom_sessions")
      let isNamed = notes.contains { $0.contains("table \(table)") }
      let own = page.tree.hasSameBytes(as: table) ? page.rows : 0
      #expect(lost <= own || isExcused, "\(lost) rows of \(table) are lost; \(what)")
      #expect(lost == 0 || isExcused || isNamed, "\(table) is not named; \(what)")
      // The end of a login, that of deleted accounts, and the record of lost rules are new.
      let isNew = isExcused || ["rules_record", "deleted_accounts"].contains(table)
      #expect(invented == 0 || isNew, "\(invented) rows of \(table) are new; \(what)")
    }
  }

  private func expectTree(
    _ root: Node, _ tables: AllTables, _ page: DatabasePages.Page, _ notes: [String],
    _ what: Comment
  ) {
    if notes.isEmpty || !["commits", "leaves"].contains(page.tree) {
      #expect(root == tables.root, what)
    }
    root.child("n").forEachChild { key, node in
      let isKnown = tables.history["n/\(key)", default: []].contains(node)
      #expect(isKnown, "/n/\(key) is new; \(what)")
      return true
    }
    #expect(root.childCount == 1, what)
  }
}
