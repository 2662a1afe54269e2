import Testing

@testable import CanopyTree

/// Applying a run of commits again leads to the same tree.
struct ReplayTests {
  /// Without priorities: that of a branch goes when the branch is empty for a moment, and a run that
  /// is applied to a later version may empty it where it was not empty the first time.
  @Test func `a run applied to any version along it leads to its end`() throws {
    try withSeed { random in
      for _ in 0..<150 {
        let root = random.tree(height: 3, priorities: false).node
        var tree = Tree(root: root, indexPlan: ApplyModelTests.plan)
        var versions = [tree]
        var commits: [[Assignment]] = []
        for _ in 0..<8 {
          commits.append(
            try tree.carryOut(random.changes(1 + random.below(4), priorities: false)))
          versions.append(tree)
        }
        for (k, version) in versions.enumerated() {
          var again = version
          for commit in commits { again.apply(commit) }
          try #require(again.root == tree.root, "from version \(k)")
          try #require(again.root.brokenInvariant() == nil)
        }
      }
    }
  }

  @Test func `the rest of a run, priorities and all, leads from each version to its end`() throws {
    try withSeed { random in
      for _ in 0..<100 {
        var tree = Tree(root: random.tree(height: 3).node)
        var versions = [tree]
        var commits: [[UInt8]] = []
        for _ in 0..<8 {
          var output = JSONOutput()
          AssignmentCodec.encode(
            try tree.carryOut(random.changes(1 + random.below(4))), to: &output)
          commits.append(output.bytes)
          versions.append(tree)
        }
        for (k, version) in versions.enumerated() {
          var again = version
          for commit in commits[k...] {
            again.apply(try commit.withUnsafeBytes { try AssignmentCodec.decode($0) })
          }
          try #require(again.root == tree.root, "from version \(k)")
        }
      }
    }
  }

  @Test func `one commit applied twice is as applied once`() throws {
    try withSeed { random in
      for _ in 0..<300 {
        var tree = Tree(root: random.tree(height: 3).node)
        let commit = try tree.carryOut(random.changes(4))
        var twice = tree
        twice.apply(commit)
        try #require(twice.root == tree.root, "\(commit)")
      }
    }
  }
}
