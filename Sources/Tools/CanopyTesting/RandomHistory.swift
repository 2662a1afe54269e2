package import CanopyEngine
internal import CanopyTree
internal import Testing

extension Journal {
  /// Makes random commits. Each has a before-image.
  package func makeRandomCommits(_ count: Int, _ random: SeededGenerator) async throws {
    try await withEngine(self) { engine in
      var random = random
      var writes = RandomWrites()
      writes.keysMax = 5
      // Otherwise the before-image of a removal may be too large to be stored.
      writes.bigOnceIn = .max
      for _ in 0..<count {
        let write = writes.next(&random)
        _ = try await engine.transact { _ in Decision(write, ()) }
      }
    }
  }
}

/// Checks that each commit leads to the next version, and its before-image back to the previous one.
///
/// - Parameter commits: all commits since the empty tree.
package func checkBeforeImages(of commits: [Commit]) throws {
  var tree = Tree()
  for commit in commits {
    let old = tree.root
    tree.apply(commit.assignments)
    var undone = tree
    undone.apply(try #require(commit.beforeImage, "commit \(commit.sequence)"))
    #expect(undone.root == old, "commit \(commit.sequence)")
  }
  for commit in commits.reversed() { tree.apply(commit.beforeImage ?? []) }
  #expect(tree.root.isAbsent)
}
