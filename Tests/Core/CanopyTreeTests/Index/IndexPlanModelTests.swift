import CanopyTesting
import Testing

@testable import CanopyTree

/// Random plans and random writes: every branch that a pattern matches has the index.
struct IndexPlanModelTests {
  private typealias Declaration = (order: Order, pattern: [NaiveKey?])

  private func declaration(_ random: inout SeededRandom) -> Declaration {
    let pattern = (0..<random.below(4)).map { _ in random.oneIn(2) ? nil : random.key() }
    let order = random.pick([
      Order.value, .priority, .child("a"), .child("b/c"), .child("0"), .child("é"),
    ])
    return (order, pattern)
  }

  private func check(_ node: Node, at path: [NaiveKey], _ declarations: [Declaration]) throws {
    guard node.isBranch else { return }
    for (order, pattern) in declarations where pattern.count == path.count {
      let matches = zip(pattern, path).allSatisfy { $0 == nil || $0 == $1 }
      if matches {
        try #require(node.indexes.contains { $0.order == order }, "\(order) at \(path)")
      }
    }
    var children: [(Key, Node)] = []
    node.forEachChild {
      children.append(($0, $1))
      return true
    }
    for (key, child) in children { try check(child, at: path + [NaiveKey(key)], declarations) }
  }

  @Test func `random plans, some declared between writes`() throws {
    try withSeed { random in
      for _ in 0..<40 {
        var declarations = (0..<random.below(5)).map { _ in declaration(&random) }
        var plan = IndexPlan()
        for (order, pattern) in declarations {
          plan.declare(order, at: pattern.map { $0.map { Key.of($0.description) } })
        }
        var tree = Tree(root: random.tree(height: 3).node, indexPlan: plan)
        for _ in 0..<15 {
          if random.oneIn(8) {
            let added = declaration(&random)
            declarations.append(added)
            tree.keepIndex(added.order, at: added.pattern.map { $0.map { .of($0.description) } })
          }
          try tree.carryOut(random.changes(1 + random.below(3)))
          try check(tree.root, at: [], declarations)
          try #require(tree.root.brokenInvariant() == nil)
        }
      }
    }
  }
}
