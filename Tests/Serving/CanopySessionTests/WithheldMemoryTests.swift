import CanopyTesting
import Testing

@testable import CanopyEngine
@testable import CanopyTree

/// The charge of withheld commits, and the memory that they keep.
struct WithheldMemoryTests {
  /// The shapes of branches in whose children one small value changes.
  enum Shape: String, CaseIterable {
    case packed, unpacked, prioritized, indexed, leaves, nested, newChildren

    /// Returns a child of the branch.
    func child(_ number: Int) throws -> Node {
      let text = { (count: Int) in String(repeating: "x", count: count) }
      switch self {
      case .packed: return try Node(json: #"{"b":"\#(text(1_850))","n":0}"#)
      case .unpacked: return try Node(json: #"{"b":"\#(text(3_000))","n":0}"#)
      case .prioritized:
        return try Node(json: #"{".priority":\#(number),"b":"\#(text(100))","n":0}"#)
      case .indexed: return try Node(json: #"{"b":"\#(text(500))","n":\#(number)}"#)
      case .leaves, .newChildren: return Node(Int64(number))
      case .nested: return try Node(json: #"{"b":{"b":"\#(text(1_000))"},"n":0}"#)
      }
    }

    /// Returns the path of the value that changes, from the child.
    var place: String {
      switch self {
      case .packed, .unpacked, .prioritized, .indexed, .nested: "/n"
      case .leaves: ""
      case .newChildren: "x"
      }
    }
  }

  /// Withholds commits that change a value in some children of a branch. Returns the bytes that are charged for them, and
  /// those of the allocator for the memory that the old version holds alone.
  private static func measure(
    _ shape: Shape, changed: some Sequence<Int>, ofChildren count: Int
  ) throws -> (charged: Int, kept: Int) {
    let listening = Listening(try Path("a"))
    let children = try (0..<count).map {
      (try Key("k\(100_000 + $0)"), try shape.child($0))
    }
    var plan = IndexPlan()
    if shape == .indexed { plan.declare(.child(Path.root.child("n")), at: ["a"]) }
    var tree = Tree(
      root: Node(children: [("a", Node(children: children))]), indexPlan: plan)
    let old = tree.root
    var withheld: WithheldChanges?
    var charged = 0
    var rest = Array(changed)[...]
    var sequence: Int64 = 0
    while !rest.isEmpty {
      sequence += 1
      let assignments = try rest.prefix(400).map {
        Assignment(
          try Location("a/k\(100_000 + $0)\(shape.place)"), Node(Int64(1_000_000 + $0)))
      }
      rest = rest.dropFirst(400)
      let before = tree.root
      tree.apply(assignments)
      let commit = Commit(sequence: sequence, time: 1, assignments: assignments)
      let change = CommittedChange(
        Change(commit: commit, views: ConcernedViews(), before: before, after: tree.root),
        bytes: 100)
      if withheld == nil { withheld = WithheldChanges(before: change, for: listening) }
      charged += withheld?.append(change) ?? 0
    }
    let kept = old.child("a").measuredBytes(besides: tree.root.child("a"))
    return (charged, kept)
  }

  @Test(
    .disabled(if: Sanitizer.isPresent, "a sanitizer has an allocator of its own"),
    arguments: Shape.allCases, [1, 7])
  func `withheld commits are charged with the memory that the old version holds alone`(
    _ shape: Shape, _ step: Int
  ) throws {
    let count = 8_100
    let (charged, kept) = try Self.measure(
      shape, changed: stride(from: 0, to: count, by: step), ofChildren: count)
    #expect(kept > 40_000)
    #expect(
      Double(charged) >= 0.9 * Double(kept), "\(shape): \(charged) of \(kept) bytes are charged")
    // Each location takes some hundred bytes besides, and a page for its next position in an index.
    let bound = kept * (shape == .indexed ? 36 : 11) / 10 + (count / step + 1) * 400 + 100_000
    #expect(charged <= bound, "\(shape): \(charged) bytes are charged for \(kept)")
  }

  @Test
  func `the pages that a write copies around a value count once, and not for its own list`() throws
  {
    let record = try Node(json: #"{"b":"\#(String(repeating: "x", count: 1_000))","c":1,"d":2}"#)
    #expect(record.isPacked)
    let node = Node(children: (0..<20).map { (Key(index: $0), record) })
    var memory = ReplacedMemory()
    func count(_ path: String, isPriority: Bool = false, isList: Bool = false) throws -> Int {
      memory.count(
        try Path(path), isPriority: isPriority, in: node, isList: isList, atMost: .max)
    }
    // All children are the same packed branch.
    #expect(try (1_000..<1_100).contains(count("3/c", isList: true)))
    #expect(try count("3/d", isList: true) == 0)
    #expect(try count("4/d", isList: true) == 0)
    let pages = try count("3/d")
    #expect((300..<1_000).contains(pages))
    #expect(try count("3/c") == 0)
    #expect(try count("3", isPriority: true) == 0)
    #expect(try count("3") == record.heldBytes(atMost: .max))
    #expect(try (100..<pages).contains(count("19/d")))
    #expect(try count("none/d") == 0)
  }
}
