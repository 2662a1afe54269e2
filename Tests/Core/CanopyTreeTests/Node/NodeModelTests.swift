import CanopyTesting
import Testing

@testable import CanopyTree

/// A node behaves like the naive tree.
struct NodeModelTests {
  @Test func `random sets and removals`() throws {
    try withSeed { random in
      for _ in 0..<60 {
        var model = random.tree(height: 3)
        var node = model.node
        try #require(node.brokenInvariant() == nil)
        for _ in 0..<40 {
          let path = random.path(0...4)
          let value = random.oneIn(3) ? NaiveTree() : random.tree(height: 2)
          let (oldNode, oldModel) = (node, model)
          model.set(path, value)
          node.set(value.node, at: Path(path))
          try #require(node.brokenInvariant() == nil)
          try #require(NaiveTree(node) == model)
          try #require(NaiveTree(oldNode) == oldModel)
          try #require(NaiveTree(node.at(Path(path))) == model[path])
        }
      }
    }
  }

  @Test func `equality compares contents`() throws {
    try withSeed { random in
      for _ in 0..<2000 {
        let a = random.tree(height: 2)
        let b = random.oneIn(3) ? a : random.tree(height: 2)
        try #require((a.node == b.node) == (a == b), "\(a.json) == \(b.json)")
      }
    }
  }

  @Test func `height and children equal the model's`() throws {
    try withSeed { random in
      for _ in 0..<500 {
        let model = random.tree(height: 4)
        let node = model.node
        try #require(node.height == model.height)
        try #require(node.childCount == model.keys.count)
        try #require(node.isAbsent == model.isAbsent)
        try #require(node.isBranch == model.isBranch)
        try #require(node.isLeaf == (model.leaf != nil))
        var keys: [NaiveKey] = []
        node.forEachChild { key, _ in
          keys.append(NaiveKey(key))
          return true
        }
        try #require(keys == model.keys)
      }
    }
  }
}
