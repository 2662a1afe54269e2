import CanopyTesting
import CanopyTree
import Testing

@testable import CanopyEngine
@testable import CanopyEvents

/// The search of an event loop for the views that a commit may have changed.
struct ViewSearchTests {
  /// The views of one loop.
  private struct Views {
    var trie = PathTrie<ViewLevel>()
    var views: [LocalView] = []
    private var nextNumber = 0

    @discardableResult
    mutating func add(_ listening: Listening) -> LocalView {
      if let view = trie[listening.path]?.views[listening] { return view }
      let view = LocalView(listening, Limits(), number: nextNumber)
      nextNumber += 1
      views.append(view)
      trie.modify(at: listening.path) { level in
        let found = level ?? ViewLevel(listening.path)
        found.add(view)
        level = found
      }
      return view
    }

    mutating func remove(_ view: LocalView) {
      views.removeAll { $0 === view }
      trie.modify(at: view.listening.path) { level in
        level?.remove(view)
        if level?.views.isEmpty == true { level = nil }
      }
    }
  }

  private static func commit(
    _ writes: [(String, Node)], to tree: inout Tree, _ sequence: Int64 = 1
  ) throws -> CommittedChange {
    let before = tree.root
    let assignments = try writes.map { Assignment(Location(try Path($0.0)), $0.1) }
    tree.apply(assignments)
    let commit = Commit(sequence: sequence, time: 0, assignments: assignments)
    let change = Change(commit: commit, views: ConcernedViews(), before: before, after: tree.root)
    return CommittedChange(change, bytes: 0)
  }

  private static func query(_ options: String) throws -> Query {
    try Query(options: try JSONValue(json: options))
  }

  /// Returns the bounds of a query by its number.
  private static let bounds: [@Sendable (Int) -> String] = [
    { "\"startAt\":\(1_000_000 + $0)" }, { "\"endAt\":\(-1 - $0)" },
    { "\"startAt\":\(-1_000_000 + 2 * $0),\"endAt\":\(-1_000_000 + 2 * $0 + 1)" },
    { "\"equalTo\":\"text \($0)\",\"limitToLast\":3" },
    { "\"startAt\":\(-$0),\"endBefore\":0" },
  ]

  @Test(arguments: 0..<5)
  func `ten thousand views whose bounds exclude a child cost a commit a few looks`(
    _ kind: Int
  ) throws {
    let bounds = Self.bounds[kind]
    var tree = Tree()
    _ = try Self.commit([("posts/p/starCount", 1)], to: &tree)
    var views = Views()
    let path = try Path("posts")
    for index in 0..<10_000 {
      let query = try Self.query("{\"orderBy\":\"starCount\",\(bounds(index))}")
      views.add(Listening(path, query))
    }
    let shown = views.add(
      Listening(path, try Self.query("{\"orderBy\":\"starCount\",\"startAt\":2}")))
    let change = try Self.commit([("posts/p/starCount", 2)], to: &tree)
    let search = ViewSearch(change, in: views.trie)
    #expect(search.views.map(\.number) == [shown.number])
    #expect(search.lookCount < 200, "\(search.lookCount)")
  }

  @Test func `commits to many children cost no more than a few looks at each view`() throws {
    var tree = Tree()
    var views = Views()
    let path = try Path("posts")
    // Each view has an order of its own, so each child is compared with each view.
    for index in 0..<2_000 {
      views.add(Listening(path, try Self.query("{\"orderBy\":\"x\(index)\",\"startAt\":5}")))
    }
    let many = try Self.commit((0..<1_000).map { ("posts/p\($0)/x", 1) }, to: &tree)
    #expect(ViewSearch(many, in: views.trie).lookCount < 20_000)
  }

  @Test func `the views with events are found, and those that begin and end are found or not`()
    throws
  {
    var random = SeededGenerator(printingSeedFor: "ViewSearchTests")
    var found = 0
    var left = 0
    for round in 0..<10 {
      var writes = RandomWrites()
      writes.keysMax = 4
      writes.depthMax = 3
      var tree = Tree()
      var views = Views()
      for index in 0..<60 {
        let change: CommittedChange
        let before = tree.root
        let assignments = writes.next(&random).resolved(in: tree.root, at: 0)
        tree.apply(assignments)
        change = CommittedChange(
          Change(
            commit: Commit(sequence: Int64(index), time: 0, assignments: assignments),
            views: ConcernedViews(), before: before, after: tree.root), bytes: 0)
        for _ in 0..<4 {
          var listening = try Listening.random(&random)
          listening.path = listening.path.prefix(min(1, listening.path.count))
          views.add(listening)
        }
        if random.oneIn(2), let view = views.views.first { views.remove(view) }
        let numbers = ViewSearch(change, in: views.trie).views.map(\.number)
        #expect(numbers == numbers.sorted(by: >) && Set(numbers).count == numbers.count)
        for view in views.views {
          let events = change.events(for: view.listening)
          #expect(
            events.isEmpty || numbers.contains(view.number),
            "round \(round): \(view.listening) has events")
        }
        found += numbers.count
        left += views.views.count - numbers.count
      }
    }
    #expect(found > 100 && left > 100)
  }
}
