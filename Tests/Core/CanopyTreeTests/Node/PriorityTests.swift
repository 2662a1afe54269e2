import Testing

@testable import CanopyTree

struct PriorityTests {
  private func hasPriorityIndex(_ node: Node) -> Bool {
    node.indexes.contains { $0.order == .priority }
  }

  @Test func `an absent node has no priority`() {
    #expect(Node.absent.withPriority(1).isAbsent)
    #expect(Node.absent.withPriority(1).priority.isAbsent)
  }

  @Test func `a priority is stored beside the value and can be removed`() {
    for node: Node in [1, "x", true, Node.of(["a": 1])] {
      let prioritized = node.withPriority(5)
      #expect(prioritized.priority == 5)
      #expect(prioritized != node)
      #expect(prioritized.withoutPriority == node)
      #expect(prioritized.withPriority("p").priority == "p")
      #expect(prioritized.withPriority(.absent) == node)
      #expect(prioritized.brokenInvariant() == nil)
    }
  }

  @Test func `a priority has no priority of its own`() throws {
    let node = Node("x").withPriority(Node(1).withPriority(2))
    #expect(node == Node("x").withPriority(1))
    #expect(try Node(json: node.json(.export)) == node)
    let write = try Write.set(
      "a/.priority", WriteValue(json: #"{".value":1,".priority":2}"#))
    var tree = Tree(root: Node.of(["a": "x"]))
    tree.apply(write.resolved(in: tree.root, at: 0))
    #expect(try Node(json: tree.root.json(.export)) == tree.root)
  }

  @Test func `a set drops the priority of the old node`() {
    var node = Node.of(["a": Node(1).withPriority(5)])
    node.set(2, at: "a")
    #expect(node.child("a").priority.isAbsent)
  }

  @Test func `a branch keeps its priority while its children change and loses it with the last`() {
    var node = Node.of(["a": 1]).withPriority(5)
    node.set(2, at: "b/c")
    #expect(node.priority == 5)
    node.set(.absent, at: "a")
    #expect(node.priority == 5)
    node.set(.absent, at: "b/c")
    #expect(node.isAbsent && node.priority.isAbsent)
  }

  @Test func `a leaf that a child replaces keeps its priority`() {
    var node = Node(1).withPriority(5)
    node.set(.absent, at: "a/b")
    #expect(node == Node(1).withPriority(5))
    node.set(2, at: "a/b")
    #expect(node.priority == 5)
    #expect(node.at("a/b") == 2)
  }

  @Test func `a branch with a child that has a priority keeps an index by priority`() throws {
    let leaf = Node(1).withPriority(5)
    let built = Node.of(["a": leaf, "b": 2])
    #expect(hasPriorityIndex(built))
    #expect(hasPriorityIndex(try Node(json: built.json(.export))))
    var node = Node.of(["b": 2])
    #expect(!hasPriorityIndex(node))
    node.set(leaf, at: "a")
    #expect(hasPriorityIndex(node))
    var deep = Node.absent
    deep.set(leaf, at: "x/y/z")
    #expect(hasPriorityIndex(deep.at("x/y")) && !hasPriorityIndex(deep.at("x")))
    var prioritized = Node.of(["b": 2]).withPriority(1)
    prioritized.set(leaf, at: "a")
    #expect(hasPriorityIndex(prioritized))
    for node in [built, node, deep, prioritized] { #expect(node.brokenInvariant() == nil) }
  }

  @Test func `the index by priority holds the children that have one`() throws {
    var node = Node(children: (0..<500).map { (Key(index: $0), Node(Int64($0))) })
    node.addIndex(.value)
    func held() -> [Int32?] {
      var keys: [Int32?] = []
      node.indexes.first { $0.order == .priority }?.positions.forEach {
        keys.append($0.key.integer)
        return true
      }
      return keys
    }
    for (key, priority, expected): (Path, Node, [Int32]) in [
      ("7", 2, [7]), ("400", 1, [400, 7]), ("9", "p", [400, 7, 9]), ("400", 3, [7, 400, 9]),
      ("7", .absent, [400, 9]), ("9", .absent, [400]), ("400", .absent, []), ("8", 1, [8]),
    ] {
      node.set(node.at(key).withPriority(priority), at: key)
      #expect(held() == expected)
      #expect(node.brokenInvariant() == nil)
      #expect(
        Query.all.children(of: node).suffix(expected.count).map(\.key.integer) == expected)
    }
    node.set(.absent, at: "8")
    #expect(held() == [])
    #expect(node.brokenInvariant() == nil)
  }

  @Test func `an array element may have a priority`() throws {
    let node = try Node(json: #"[1,{".value":2,".priority":0}]"#)
    #expect(hasPriorityIndex(node))
    #expect(node.json() == "[1,2]")
    #expect(node.json(.export) == #"{"0":1,"1":{".value":2,".priority":0}}"#)
  }
}
