import CanopyTesting
import Testing

@testable import CanopyTree

/// Applying a run of commits again leads to the same tree.
struct ReplayTests {
  @Test func `a run applied to any of its versions leads to its end`() throws {
    try withSeed { random in
      for _ in 0..<300 {
        var tree = Tree(root: random.tree(height: 3).node, indexPlan: ApplyModelTests.plan)
        var versions = [tree]
        var commits: [[Assignment]] = []
        for _ in 0..<8 {
          commits.append(try tree.carryOut(random.changes(1 + random.below(4))))
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

  /// Simulates an interrupted checkpoint: some locations are as before the run, others as after it.
  @Test func `a run applied to a mixture of its start and its end leads to its end`() throws {
    try withSeed { random in
      for _ in 0..<300 {
        let start = Tree(root: random.tree(height: 3).node)
        var tree = start
        var commits: [[Assignment]] = []
        for _ in 0..<8 {
          commits.append(try tree.carryOut(random.changes(1 + random.below(4))))
        }
        var mixed = start
        let written = Set(commits.joined().map(\.location)).sorted()
        for location in written where random.below(2) == 0 {
          let node = tree.root.at(location.path)
          mixed.apply([Assignment(location, location.isPriority ? node.priority : node)])
        }
        for commit in commits { mixed.apply(commit) }
        try #require(mixed.root == tree.root)
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

  @Test func `a commit applied twice has the effect of one`() throws {
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
