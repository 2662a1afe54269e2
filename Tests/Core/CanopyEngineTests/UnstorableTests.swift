import CanopyEngine
import CanopyTesting
import CanopyTree
import Testing

/// A commit whose text would not read back is refused alone. (No client can ask for a priority that is a
/// bool; a fault of the server might.)
@Suite(.timeLimit(.minutes(20))) struct UnstorableTests {
  private static let unreadable = Node(1).withPriority(true)

  private func submitUnreadable(
    to path: String, _ engine: Engine, isAuthorized: Bool, _ answers: Answers<Outcome>
  ) {
    engine.submit { _ in
      let policy = isAuthorized ? TestPolicy() : nil
      return Decision(
        try .set(Location(path), WriteValue(Self.unreadable)), (), policy: policy)
    } completion: { result in
      switch result {
      case .success(let committed): answers.add(.committed(committed.sequence))
      case .failure(let error as EngineError): answers.add(.failed(error))
      case .failure: answers.add(.refused)
      }
    }
  }

  @Test(arguments: [true, false])
  func `a commit that would not read back is refused, and the others of its batch are made`(
    isAuthorized: Bool
  ) async throws {
    let store = InMemoryJournal()
    let journal = FaultyJournal(store)
    try await withEngine(journal) { engine in
      let before = json(#"{"a":{"x":1,"y":{".value":2,".priority":3}},"l":5}"#)
      for (key, node) in [("a", before.child("a")), ("l", before.child("l"))] {
        try await engine.set(key, node)
      }
      let held = journal.holdNextAppend()
      let answers = Answers<Outcome>()
      engine.submitSet("first", 1, answers)
      await held.reached()
      engine.submitSet("second", 2, answers)
      // Over a value, below a leaf, and at an empty place: all of it is undone.
      for path in ["a/x", "a/y", "l/m/n", "o/p"] {
        submitUnreadable(to: path, engine, isAuthorized: isAuthorized, answers)
      }
      engine.submitSet("third", 3, answers)
      held.open()
      var outcomes: [Outcome] = [.committed(3), .committed(4)]
      outcomes += [Outcome](repeating: .failed(.unstorable), count: 4)
      outcomes.append(.committed(5))
      #expect(await answers.wait(for: 7) == outcomes)
      var expected = before
      for (key, value) in [("first", 1), ("second", 2), ("third", 3)] {
        expected.set(Node(Int64(value)), at: try Path(key))
      }
      #expect(engine.root == expected)
      #expect(engine.root.brokenInvariant() == nil)
      #expect(store.commits.folded() == expected)
    }
    #expect(store.groups.last == 2)
  }

  @Test func `a before-image that would not read back is left out, and the commit is made`()
    async throws
  {
    var output = JSONOutput()
    let assignments = [Assignment(try Path("a"), 1)]
    let image = [Assignment(try Path("a"), Self.unreadable)]
    let text = try CommitText(assignments, beforeImage: image, scratch: &output)
    text.withBytes { body, image in
      #expect(String(decoding: body, as: UTF8.self) == #"[[["a"],1]]"#)
      #expect(image == nil)
    }
    #expect(throws: EngineError.unstorable) {
      try CommitText(image, beforeImage: nil, scratch: &output)
    }
  }

  @Test func `a commit has the text that its parts have now`() throws {
    var output = JSONOutput()
    var commit = Commit(sequence: 1, time: 1, assignments: [Assignment(try Path("a"), 1)])
    func body() throws -> String {
      try commit.storedText(scratch: &output).withBytes { body, image in
        String(decoding: body, as: UTF8.self)
          + (image.map { String(decoding: $0, as: UTF8.self) } ?? "")
      }
    }
    #expect(try body() == #"[[["a"],1]]"#)
    commit.assignments = [Assignment(try Path("b"), 2)]
    commit.beforeImage = [Assignment(try Path("b"), 3)]
    #expect(try body() == #"[[["b"],2]][3]"#)
  }
}
