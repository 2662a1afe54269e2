import CanopyEngine
import CanopyTesting
import CanopyTree
import Testing

@testable import CanopySQLite

@Suite(.timeLimit(.minutes(20))) struct ReplaceTests {
  @Test func `an import replaces its path and keeps all other data, including recent commits`()
    async throws
  {
    var random = SeededGenerator(printingSeedFor: "ReplaceTests")
    for _ in 0..<40 {
      let folder = try Folder()
      var writes = RandomWrites()
      writes.keysMax = 3
      writes.bigOnceIn = 4
      let first = (0..<6).map { _ in writes.next(&random) }
      let second = (0..<random.pick([0, 3])).map { _ in writes.next(&random) }
      let path = (0..<random.pick([0, 1, 2, 3])).reduce(Path.root) { path, _ in
        path.child(random.pick(RandomWrites.keys.prefix(3)))
      }
      let node = random.oneIn(6) ? .absent : writes.value(&random, depth: 3)
      try await folder.withStore { store in
        let before = try await withEngine(store) { engine in
          for write in first { _ = try await engine.transact { _ in Decision(write, ()) } }
          let snapshot = engine.snapshot
          let (root, sequence) = (snapshot.root, snapshot.sequence)
          try await store.checkpoint(root, through: sequence)
          for write in second { _ = try await engine.transact { _ in Decision(write, ()) } }
          return engine.snapshot
        }
        try await store.replace(path, with: node) { _ in }
        let expected = before.root.setting(node, at: path)
        let state = try await store.load()
        #expect(state.tree.root == expected)
        #expect(state.sequence == before.sequence + 1)
        #expect(state.checkpoint == before.sequence + 1)
        #expect(try await store.problems().isEmpty)
      }
      // An engine continues from it.
      let more = writes.next(&random)
      try await folder.withStore { store in
        let after = try await withEngine(store) { engine in
          _ = try await engine.transact { _ in Decision(more, ()) }
          let snapshot = engine.snapshot
          let (root, sequence) = (snapshot.root, snapshot.sequence)
          try await store.checkpoint(root, through: sequence)
          return root
        }
        #expect(try await store.checkpointRoot() == after)
        #expect(try await store.problems().isEmpty)
      }
    }
  }

  @Test func `an import below a row changes only that row`() async throws {
    let folder = try Folder()
    try await folder.withStore { store in
      try await store.replace(.root, with: json(#"{"a":{"b":{"c":1,"d":2}},"e":3}"#)) { _ in }
      #expect(try await store.leaves().keys.sorted() == [""])
      try await store.replace(Path("a/b/c"), with: json(#"{"x":5}"#)) { _ in }
      #expect(try await store.checkpointRoot() == json(#"{"a":{"b":{"c":{"x":5},"d":2}},"e":3}"#))
      #expect(try await store.leaves().count == 1)
      try await store.replace(Path("e/f"), with: 1) { _ in }
      #expect(
        try await store.checkpointRoot() == json(#"{"a":{"b":{"c":{"x":5},"d":2}},"e":{"f":1}}"#))
    }
  }

  @Test func `an import of null removes the branches that become empty, and their priorities`()
    async throws
  {
    let folder = try Folder()
    let text = Node(String(repeating: "x", count: 9_000))
    let branch = Node(children: [("b" as Key, Node(children: [("c" as Key, text)]))])
    try await folder.withStore { store in
      let root = Node(children: [
        ("a" as Key, branch.withPriority(5)), ("e" as Key, Node(Int64(1))),
      ])
      try await store.replace(.root, with: root) { _ in }
      #expect(try await store.leaves().keys.sorted() == ["a/.priority", "a/b/c", "e"])
      try await store.replace(Path("a/b/c"), with: .absent) { _ in }
      #expect(try await store.leaves() == ["e": "1"])
      try await store.replace(Path("a/b"), with: 2) { _ in }
      #expect(try await store.checkpointRoot() == json(#"{"a":{"b":2},"e":1}"#))
    }
  }

  @Test func `an interrupted import changes nothing`() async throws {
    let folder = try Folder()
    let text = Node(String(repeating: "x", count: 9_000))
    let many = Node(children: (0..<12_000).map { (Key(index: $0), $0 % 6_000 == 0 ? text : 1) })
    let crashed = try await folder.withStore { store async throws in
      try store.append([commit(1, "a", 1)], after: 0)
      try await store.checkpoint(json(#"{"a":1}"#), through: 1)
      try store.append([commit(2, "b", 2)], after: 1)
      // Cancelled after the first rows are written.
      let task = Cancellation().start { cancellation in
        try await store.replace(.root, with: many) { rows in
          #expect(rows == 10_000)
          cancellation.cancel()
        }
      }
      await #expect(throws: CancellationError.self) { try await task.value }
      #expect(try await store.tree().root == json(#"{"a":1,"b":2}"#))
      #expect(try await store.problems().isEmpty)
      return try folder.crashed()
    }
    try await crashed.withStore { store async throws in
      #expect(try await store.tree().root == json(#"{"a":1,"b":2}"#))
      let state = try await store.load()
      #expect(state.checkpoint == 1)
      #expect(state.sequence == 2)
    }
  }
}
