import CanopyTesting
import CanopyTree

extension SeededRandom {
  /// Returns one of a few keys of all forms, so that paths often coincide.
  mutating func key() -> NaiveKey {
    NaiveKey(pick(["a", "b", "c", "0", "1", "10", "é", "k\u{600}", "-OaBcDeFgHiJkLmNoPqR"]))
  }

  mutating func path(_ lengths: ClosedRange<Int>) -> NaiveTree.Path {
    (0..<Int.random(in: lengths, using: &self)).map { _ in key() }
  }

  /// Returns one of a few leaves of all kinds, many of them nearly equal.
  mutating func leaf() -> NaiveLeaf {
    switch below(8) {
    case 0: .bool(oneIn(2))
    case 1...2: .integer(Int64(below(4)) - 1)
    case 3: NaiveLeaf(pick([0.5, -0.5, 1e300, -1e-300, 0x1p53, 0x1p53 + 2, 0x1p60, -0x1p63, 1.5]))
    case 4: .integer(pick([.min, .max, 1 << 53, 1 << 53 + 1, 1 << 60, 1 << 60 + 1]))
    default: NaiveLeaf(pick(["", "a", "b", "é", "e\u{301}", "\u{1F333}", "\u{FFFD}", "x\n\"\\\0"]))
    }
  }

  mutating func priority() -> NaiveLeaf {
    oneIn(2) ? .integer(Int64(below(3))) : oneIn(2) ? NaiveLeaf(pick(["", "p"])) : .double(0.5)
  }

  /// Returns an absent tree, a leaf or a branch, often with priorities.
  mutating func tree(height: Int, priorities: Bool = true) -> NaiveTree {
    var tree = NaiveTree()
    if height == 0 || oneIn(3) {
      if !oneIn(6) { tree = NaiveTree(leaf()) }
    } else {
      for _ in 0..<below(4) {
        tree.set([key()], self.tree(height: height - 1, priorities: priorities))
      }
    }
    if priorities, oneIn(4) { tree.update([.priority([], priority())]) }
    return tree
  }
}

extension Path {
  init(_ path: NaiveTree.Path) {
    self = path.reduce(.root) { $0.child(.of($1.description)) }
  }
}
