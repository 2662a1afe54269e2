import CanopyEngine
import CanopySocial
import CanopySQLite
import CanopyTesting
import CanopyTree
import Foundation
import Testing

@Suite(.timeLimit(.minutes(20))) struct SharingTests {
  /// Returns the posts whose two copies do not share their memory.
  private func unshared(in root: Node) -> [Key] {
    var result: [Key] = []
    root.child("posts").forEachChild { id, post in
      let uid = (try? Key(post.child("uid").stringValue ?? "")) ?? "none"
      if !root.child("user-posts").child(uid).child(id).isIdentical(to: post) { result.append(id) }
      return true
    }
    return result
  }

  /// Makes every kind of change to a post.
  private func useBlog(_ engine: Engine, _ uids: [Key], check: (Node) -> Void) async throws {
    for (number, uid) in uids.enumerated() {
      _ = try await engine.transact { try Users.claim("user\(number)", for: uid, in: &$0) }
    }
    for number in 0..<12 {
      let uid = uids[number % uids.count]
      let id = try await engine.transact {
        try Posts.create(by: uid, title: "t", body: "b", in: &$0)
      }.result
      check(engine.root)
      for other in uids.prefix(number % 4) {
        _ = try await engine.transact { try Posts.toggleStar(id, by: other, in: &$0) }
        check(engine.root)
        _ = try await engine.transact { try Comments.create(on: id, by: other, text: "c", in: &$0) }
        check(engine.root)
      }
      if number % 3 == 0 {
        _ = try await engine.transact {
          try Posts.edit(id, by: uid, title: "other", body: "b", in: &$0)
        }
        check(engine.root)
      }
    }
    _ = try await engine.transact { try Users.rename(uids[0], to: "renamed", in: &$0) }
    check(engine.root)
  }

  private var configuration: Engine.Configuration {
    var configuration = Engine.Configuration()
    configuration.indexPlan = Layout.indexPlan
    return configuration
  }

  /// Short uids, and uids like those of accounts: 20 letters and digits.
  static let uids: [[Key]] = [
    ["ada", "bob", "eve"],
    ["0aZ3456789abcdefghij", "1bY3456789abcdefghij", "zzZ3456789abcdefghij"],
  ]

  @Test(arguments: uids)
  func `both copies of a post share their memory after any change`(uids: [Key]) async throws {
    let journal = InMemoryJournal()
    try await withEngine(journal, configuration: configuration) { engine in
      try await useBlog(engine, uids) { #expect(unshared(in: $0) == []) }
    }
    #expect(unshared(in: journal.commits.folded()) == [], "after a replay, too")
  }

  @Test(arguments: uids)
  func `the copies share their memory after a replay of the journal`(uids: [Key]) async throws {
    try await withFolder { folder in
      let store = try SQLiteStore(folder: folder)
      try await withEngine(store, configuration: configuration) { engine in
        try await useBlog(engine, uids) { _ in }
      }
      #expect(unshared(in: try await store.tree().root) == [])
      try store.close()
    }
  }

  @Test(arguments: uids, [0, 20_000])
  func `the copies share their memory after loading a checkpoint`(uids: [Key], bodyBytes: Int)
    async throws
  {
    try await withFolder { folder in
      let store = try SQLiteStore(folder: folder)
      let root = try await withEngine(store, configuration: configuration) { engine in
        try await useBlog(engine, uids) { _ in }
        if bodyBytes > 0 {
          // Large enough that the checkpoint spreads the posts over rows.
          for uid in uids {
            let body = String(repeating: "b", count: bodyBytes)
            _ = try await engine.transact {
              try Posts.create(by: uid, title: "t", body: body, in: &$0)
            }
          }
        }
        let snapshot = engine.snapshot
        let (root, sequence) = (snapshot.root, snapshot.sequence)
        try await store.checkpoint(root, through: sequence)
        return root
      }
      let loaded = try await store.load()
      #expect(loaded.sequence == loaded.checkpoint)
      #expect(loaded.tree.root == root)
      #expect(unshared(in: loaded.tree.root) == [])
      try store.close()
    }
  }

  private func withFolder(_ body: (String) async throws -> Void) async throws {
    let folder = try TemporaryFolder()
    try await body(folder.path)
  }
}
