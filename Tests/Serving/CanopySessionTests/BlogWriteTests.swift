import CanopyEngine
import CanopySession
import CanopySocial
import CanopyTesting
import CanopyTree
import CanopyWire
import Testing

/// Writes of the blog before and in the queue of the engine.
@Suite(.timeLimit(.minutes(20))) struct BlogWriteTests {
  /// Writes whose text has the longest length, or one character more.
  private func writes(longerBy extra: Int) -> [BlogWrite] {
    func text(_ max: Int) -> String { String(repeating: "a", count: max + extra) }
    return [
      .post(title: text(Texts.titleMax), body: "b"), .post(title: "t", body: text(Texts.bodyMax)),
      .edit(id: "p", title: text(Texts.titleMax), body: "b"),
      .edit(id: "p", title: "t", body: text(Texts.bodyMax)),
      .comment(id: "p", text: text(Texts.commentMax)), .rename(username: text(Texts.usernameMax)),
    ]
  }

  @Test func `a text that is too long is refused before its request waits for the engine`()
    async throws
  {
    let parts = try await LineParts()
    let codes = ReplyCodes()
    let ada = Identity.described(auth: Node(children: [("uid", "ada")]))
    func submit(_ write: BlogWrite) {
      parts.operations.write(.blog(write), as: ada, from: "10.0.0.1") { codes.add($0) }
    }
    // The engine does not run, so an answer did not need it.
    writes(longerBy: 1).forEach(submit)
    #expect(codes.all == Array(repeating: .invalidData, count: 6))
    #expect(!parts.engine.hasCommitsUnderWay)
    writes(longerBy: 0).forEach(submit)
    #expect(codes.all.count == 6, "the others wait")
    await withTaskGroup(of: Void.self) { group in
      group.addTask { await parts.run() }
      _ = try? await parts.engine.transact { _ in Decision(nil, ()) }
      parts.engine.stop()
    }
    // Ada has no user name until the last one, and there is no such post.
    #expect(codes.all.dropFirst(6) == Array(repeating: .notFound, count: 5) + [nil])
    #expect(parts.engine.root.child("usernames").childCount == 1)
  }
}
