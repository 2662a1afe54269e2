import CanopyTesting
import Testing

@testable import CanopyTree

struct TreeBuilderTests {
  private func build(_ rows: [(String, String)]) throws -> (node: Node, read: Int, found: Int) {
    var builder = TreeBuilder()
    for (location, json) in rows {
      try Array(json.utf8).withUnsafeBytes { json in
        try Array(location.utf8).withUnsafeBytes { try builder.add(json: json, at: $0) }
      }
    }
    let counts = builder.counts
    return (try builder.finish(), counts.read + counts.copied, counts.found)
  }

  @Test func `a copy is recognised by its text and shares its memory without parsing`() throws {
    let post = #"{".priority":2,"body":"some text","stars":{"a":true}}"#
    let built = try build([
      ("posts/-OaBcDeFgHiJkLmNoPqR", post), ("user-posts/u/-OaBcDeFgHiJkLmNoPqR", post),
    ])
    #expect(built.read == 1 && built.found == 1)
    let (a, b) = (
      built.node.at(Path("posts/-OaBcDeFgHiJkLmNoPqR")),
      built.node.at(Path("user-posts/u/-OaBcDeFgHiJkLmNoPqR"))
    )
    #expect(a.isIdentical(to: b))
    #expect(a == (try Node(json: post)))
  }

  @Test(arguments: [
    #"{"a":1,"b":3}"#, #"{"a":1}"#, #"{"b":2,"a":1}"#, #"{"a":1,"b":2.0}"#, #"{"a":1,"b":2} "#, "1",
    #"{"a":1,"b":2,".priority":0}"#,
  ])
  func `a different text under the same push id is parsed`(_ text: String) throws {
    let built = try build([
      ("a/-OaBcDeFgHiJkLmNoPqR", #"{"a":1,"b":2}"#), ("b/-OaBcDeFgHiJkLmNoPqR", text),
    ])
    #expect(built.read == 2 && built.found == 0)
    #expect(built.node.at(Path("b/-OaBcDeFgHiJkLmNoPqR")) == (try Node(json: text)))
  }

  @Test func `a repeated row is an error, recognised by its text or not`() throws {
    let row = ("a/-OaBcDeFgHiJkLmNoPqR", #"{"a":1}"#)
    #expect(throws: TreeError.self) { try build([row, row]) }
    #expect(throws: TreeError.self) { try build([row, ("a/-OaBcDeFgHiJkLmNoPqR", "1")]) }
  }

  @Test func `planned indexes exist when the tree is built`() throws {
    var plan = IndexPlan()
    let order = Order.child("n")
    plan.declare(order, at: ["posts"])
    plan.declare(order, at: ["user-posts", nil])
    plan.declare(.value, at: ["posts"])
    try withSeed { random in
      var expected = Tree(indexPlan: plan)
      var builder = TreeBuilder(indexes: plan)
      var rows: [(String, Node)] = []
      for i in 100..<160 {
        let post: Node = .of([
          "n": Node(Int64(random.below(9))),
          "t": Node(String(repeating: "x", count: random.below(60))),
        ])
        rows.append(("posts/k\(i)", post))
        // In one row, or in several rows.
        rows.append(("user-posts/u\(i % 7)/k\(i)", post))
        if random.oneIn(5) { rows.append(("posts/m\(i)/n", 3)) }
      }
      rows.append(("user-posts/v", .of(["k": .of(["n": 1])])))
      rows.append(("posts/.priority", 1))
      rows.sort { $0.0.utf8.lexicographicallyPrecedes($1.0.utf8) }
      for (location, node) in rows {
        if location != "posts/.priority" { expected.apply([.at(try Location(location), node)]) }
        try Array(node.json(.export).utf8).withUnsafeBytes { json in
          try Array(location.utf8).withUnsafeBytes { try builder.add(json: json, at: $0) }
        }
      }
      expected.apply([.at("posts/.priority", 1)])
      let root = try builder.finish()
      #expect(root.child("posts").indexes.count == 2)
      #expect(root.at("user-posts/u3").indexes.count == 1)
      #expect(root.brokenInvariant() == nil)
      // The tree builds the indexes inside a row.
      let tree = Tree(root: root, indexPlan: plan)
      #expect(tree.root.at("user-posts/v").indexes.count == 1)
      #expect(tree.root == expected.root && tree.root.brokenInvariant() == nil)
      let query = try Query(order: order, limit: .last(10))
      #expect(
        query.children(of: tree.root.child("posts")).map(\.key)
          == query.children(of: expected.root.child("posts")).map(\.key))
    }
  }

  @Test(arguments: [
    ["a", "a/b"], ["a", "a!", "a/b"], ["x/a", "x/a/b"], ["x/a", "x/a!", "x/a/b"],
  ])
  func `a row below another is an error, also at the root`(locations: [String]) throws {
    #expect(throws: TreeError.self) { try build(locations.map { ($0, "1") }) }
  }

  @Test(arguments: [[0xFF], [0x61, 0x2F, 0xC3], [0xED, 0xA0, 0x80, 0x2F, 0x61]] as [[UInt8]])
  func `a location with invalid UTF-8 is refused`(location: [UInt8]) {
    #expect(throws: TreeError.self) {
      var builder = TreeBuilder()
      try location.withUnsafeBytes { try builder.add(1, at: $0) }
    }
  }

  /// Returns a push id for a number; they ascend.
  private func id(_ number: Int) -> String {
    let text = String(number)
    return "-OaBcDeFgHiJk" + String(repeating: "0", count: 7 - text.count) + text
  }

  // Pages begin with the first post, or when a packed branch is full.
  @Test(arguments: [1, 8, 9, 64, 65, 400], [true, false])
  func `children of any number and order become a branch`(count: Int, arePosts: Bool) throws {
    for isReversed in [false, true] {
      var numbers = Array(0..<count)
      if isReversed { numbers.swapAt(0, count - 1) }
      let rows = numbers.map { number -> (String, String) in
        arePosts
          ? ("a/\(id(number))", #"{"n":\#(number % 5),"t":"text"}"#)
          : ("a/k\(1_000 + number)", String(number))
      }
      var expected = Node.absent
      for (location, json) in rows {
        expected.set(try Node(json: json), at: try Path(location))
      }
      let node = try build(rows).node
      #expect(node == expected && node.brokenInvariant() == nil)
      #expect(node.child("a").childCount == count)
      #expect(throws: TreeError.self) { try build(rows + [rows[count - 1]]) }
      #expect(throws: TreeError.self) { try build(rows + [("a/~", "null")]) }
      #expect(throws: TreeError.self) { try build([("a/!", "null")] + rows) }
    }
  }

  @Test func `numbers among the keys, and priorities of children, are kept in many children`()
    throws
  {
    try withSeed { random in
      var texts: [String: String] = [:]
      for number in 0..<500 {
        let key = random.oneIn(2) ? id(number) : String(random.below(2_000))
        let priority = random.oneIn(9) ? #"".priority":\#(number),"# : ""
        texts["a/\(key)"] = #"{\#(priority)"n":1,"t":"text"}"#
      }
      let rows = texts.sorted { $0.key.utf8.lexicographicallyPrecedes($1.key.utf8) }
        .map { ($0.key, $0.value) }
      var expected = Node.absent
      for (location, json) in rows {
        expected.set(try Node(json: json), at: try Path(location))
      }
      let node = try build(rows).node
      #expect(node == expected && node.brokenInvariant() == nil)
      let query = try Query(order: .priority, limit: .last(20))
      #expect(
        query.children(of: node.child("a")).map(\.key)
          == query.children(of: expected.child("a")).map(\.key))
    }
  }

  // A page of positions has 32.
  @Test(arguments: [31, 32, 33, 300], [0, 1, 299])
  func `an index is right whether its positions ascend or not`(count: Int, lower: Int) throws {
    var plan = IndexPlan()
    let orders = [Order.child("n"), .priority, .value]
    for order in orders { plan.declare(order, at: ["a"]) }
    var builder = TreeBuilder(indexes: plan)
    var expected = Node.absent
    for number in 0..<count {
      // One position is below all others.
      let n = number == lower ? -1 : number / 7
      let text = #"{".priority":\#(n),"n":\#(n),"t":"text"}"#
      let location = "a/\(id(number))"
      try Array(text.utf8).withUnsafeBytes { json in
        try Array(location.utf8).withUnsafeBytes { try builder.add(json: json, at: $0) }
      }
      expected.set(try Node(json: text), at: try Path(location))
    }
    let root = try builder.finish()
    #expect(root.child("a").indexes.count == 3 && root.brokenInvariant() == nil)
    for order in orders {
      let query = try Query(order: order, limit: .first(count))
      #expect(
        query.children(of: root.child("a")).map(\.key)
          == query.children(of: expected.child("a")).map(\.key))
    }
  }

  @Test func `the shortest text of a branch is recognised under the same push id`() throws {
    // It is read, and not packed, because of its numbers.
    let (text, shorter) = (#"{"0":1,"1":2,"2":3}"#, #"{"0":1,"1":2}"#)
    let stored = try Node(json: text).json(.export)
    let built = try build([
      ("a/\(id(1))", stored), ("b/\(id(1))", stored), ("c/\(id(1))", shorter),
    ])
    #expect(built.read == 2 && built.found == 1)
    #expect(built.node.at(try Path("c/\(id(1))")) == (try Node(json: shorter)))
  }

  @Test func `a row after one that was refused does not get into another branch`() throws {
    func add(_ location: String, _ json: String, to builder: inout TreeBuilder) throws {
      try Array(json.utf8).withUnsafeBytes { json in
        try Array(location.utf8).withUnsafeBytes { try builder.add(json: json, at: $0) }
      }
    }
    var builder = TreeBuilder()
    try add("a/\(id(1))", "1", to: &builder)
    do {
      try add("b/\(id(2))", "{", to: &builder)
      Issue.record("the row was not refused")
    } catch {}
    try add("b/\(id(3))", "3", to: &builder)
    let node = try builder.finish()
    #expect(node.at(try Path("b/\(id(3))")) == 3 && node.child("a").childCount == 1)
  }

  @Test func `nodes that were packed elsewhere make the same tree, with the same copies`() throws {
    let texts = [#"{"n":1,"t":"text"}"#, #"{"n":2}"#, "5", #"{"b":1,"a":2}"#]
    var rows: [(String, String)] = []
    for place in ["a", "b/c", "d"] {
      for (number, text) in texts.enumerated() { rows.append(("\(place)/\(id(number))", text)) }
    }
    let expected = try build(rows).node
    for odd in [0, 1, 2] {
      var builder = TreeBuilder()
      for (i, (location, text)) in rows.enumerated() {
        try Array(text.utf8).withUnsafeBytes { json in
          try Array(location.utf8).withUnsafeBytes {
            if odd == 2 || i % 2 == odd, let node = TreeBuilder.packedNode(json: json) {
              try builder.add(node, at: $0)
            } else {
              try builder.add(json: json, at: $0)
            }
          }
        }
      }
      let copies = builder.foundCopies
      #expect(copies == 4)
      let node = try builder.finish()
      #expect(node == expected)
      let (first, last) = (try Path("a/\(id(0))"), try Path("d/\(id(0))"))
      #expect(node.at(first).isIdentical(to: node.at(last)))
    }
    for text in ["5", #"{"b":1,"a":2}"#, "[1]", "{", ""] {
      #expect(Array(text.utf8).withUnsafeBytes { TreeBuilder.packedNode(json: $0) } == nil)
    }
  }

  @Test func `locations need no common prefix`() throws {
    let rows = [
      ("a", "1"), ("b/c/d", "2"), ("b/c/e", "3"), ("b/c/f/g", "4"), ("b/c2/d", "5"), ("b/cc", "6"),
      ("c/.priority", "7"), ("c/d", "8"), ("c/d2/e", "9"), ("d/e/f/g/h", "10"), ("e", "11"),
    ]
    var expected = Node.absent
    for (location, json) in rows where location != "c/.priority" {
      expected.set(try Node(json: json), at: try Path(location))
    }
    expected.set(expected.child("c").withPriority(7), at: "c")
    #expect(try build(rows).node == expected)
  }

  @Test(arguments: [
    ["b/c/d", "x/", "b/c/e"], ["b/c/d", "", "b/c/e"], ["b/c/d", "/", "b/c/e"],
    ["b/c/", "b/c/e", "b/c/"],
    ["b//c", "b//d"], ["b/c/d", ".priority", "b/c/e"], ["b/c/.priority", "b/c/.priority", "b/c"],
    ["b/c/d", "b/c/", "b/c/e"], ["b/c/d", "b/c", "b/c/e"],
  ])
  func `invalid locations do not trap`(locations: [String]) throws {
    // They may be refused or not; `canopy verify` checks more closely.
    _ = try? build(locations.map { ($0, "1") })
  }

  @Test func `random trees with copies are rebuilt unchanged`() throws {
    var random = SeededRandom(printingSeedFor: "TreeBuilderTests")
    for _ in 0..<500 {
      let copies = (0..<4).map { _ in random.tree(height: 3).node }
      // There are no rows of absent values.
      let rows = copies.enumerated().filter { !$1.isAbsent }.map { index, node in
        var output = JSONOutput()
        output.append(copies[0].isAbsent || random.oneIn(2) ? node : copies[0], style: .export)
        return ("\(index)/-OaBcDeFgHiJkLmNoPqR", output.text)
      }
      var expected = Node.absent
      for (location, json) in rows {
        expected.set(try Node(json: json), at: try Path(location))
      }
      #expect(try build(rows).node == expected)
    }
  }
}
