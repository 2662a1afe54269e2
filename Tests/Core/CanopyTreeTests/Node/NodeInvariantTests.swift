import Testing

@testable import CanopyTree

/// The check of invariants finds violations.
struct NodeInvariantTests {
  private func branch(_ children: Child...) -> Node {
    Node(storage: .branch(Children(unchecked: children)))
  }

  private func indexed(_ node: Node, _ indexes: OrderIndex...) -> Node {
    Node(storage: .indexed(IndexedBranch(children: node.children ?? Children(), indexes: indexes)))
  }

  @Test func `a valid node violates no invariant`() {
    for node: Node in [.absent, 1, "x", true, .of(["a": 1]), Node(1).withPriority(2)] {
      #expect(node.brokenInvariant() == nil)
    }
  }

  @Test func `each violation is described`() throws {
    let prioritized = Node(1).withPriority(2)
    let (a, b) = (branch(Child(key: "a", node: 1)), branch(Child(key: "b", node: 1)))
    let broken: [(Node, String)] = [
      (Node(storage: .branch(Children())), "a branch is empty"),
      (indexed(.absent), "a branch is empty"),
      (branch(Child(key: "a", node: .absent)), "a child is absent"),
      (branch(Child(key: "b", node: 1), Child(key: "a", node: 1)), "keys do not ascend"),
      (Node(storage: .double(1)), "an integer is a double"),
      (Node(storage: .double(.infinity)), "not finite"),
      (
        Node(storage: .prioritized(Prioritized(node: .absent, priority: 1))),
        "a priority of an absent node"
      ),
      (Node(storage: .prioritized(Prioritized(node: prioritized, priority: 1))), "two priorities"),
      (Node(storage: .prioritized(Prioritized(node: 1, priority: true))), "neither a number"),
      (branch(Child(key: "a", node: prioritized)), "there is no index for it"),
      (indexed(a, OrderIndex(.value, of: try #require(b.children))), "stale position"),
      (indexed(a, OrderIndex(.value, of: Children())), "lacks a child"),
      (
        indexed(
          branch(Child(key: "a", node: prioritized)), OrderIndex(.priority, of: Children())),
        "lacks a child"
      ),
      (branch(Child(key: "x", node: Node(storage: .branch(Children())))), "a branch is empty"),
    ]
    for (node, problem) in broken {
      #expect(node.brokenInvariant()?.contains(problem) == true, "\(problem)")
    }
  }
}
