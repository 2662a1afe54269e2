package import CanopyEngine
package import CanopyTree
internal import Synchronization
internal import Testing

/// A kind of journal that several nodes share, as ``SharedJournalContract`` opens it.
///
/// A fixture is one journal.
package protocol SharedFixture: Sendable {
  /// The part of a node.
  associatedtype Store: SharedJournal & SharedDisconnectStore
  /// Creates an empty journal.
  init() async throws
  /// Opens the journal as a node.
  func open(_ node: Int) async throws -> Store
  /// Closes the journal of a node.
  func close(_ store: Store, _ node: Int) async
  /// Folds all commits, and removes those up to a number.
  ///
  /// - Parameter root: the tree after all commits.
  func forget(through sequence: Int64, _ root: Node, of last: Int64, on store: Store) async throws
  /// Lets the lease of a node run out.
  func endLease(of node: Int) async throws
}

/// A requirement of a shared journal, as a test with a name.
package struct SharedCheck<Fixture: SharedFixture>: Sendable, CustomTestStringConvertible {
  /// The requirement as a sentence.
  package let testDescription: String
  private let body: @Sendable (Fixture, [Fixture.Store]) async throws -> Void

  init(
    _ sentence: String, _ body: @escaping @Sendable (Fixture, [Fixture.Store]) async throws -> Void
  ) {
    testDescription = sentence
    self.body = body
  }

  /// Checks the requirement with three nodes on an empty journal.
  package func run() async throws {
    let fixture = try await Fixture()
    var stores: [Fixture.Store] = []
    for node in 0..<3 { stores.append(try await fixture.open(node)) }
    let result: Result<Void, any Error>
    do { result = .success(try await body(fixture, stores)) } catch { result = .failure(error) }
    for (node, store) in stores.enumerated() { await fixture.close(store, node) }
    try result.get()
  }
}

/// The requirements of a ``SharedJournal`` and of its ``SharedDisconnectStore``, the same for every store.
package enum SharedJournalContract<Fixture: SharedFixture> {
  package typealias Store = Fixture.Store

  /// The checks.
  package static var checks: [SharedCheck<Fixture>] {
    [
      SharedCheck("commits are read with their origins and notes", checkNotes),
      SharedCheck("a page has at least one commit, and the pages have all of them", checkPages),
      SharedCheck("the loser of a race gets the commits with their notes", checkConflict),
      SharedCheck("a wait ends when another node appends, and when it is cancelled", checkBell),
      SharedCheck("a node behind the retention loads again", checkForgotten),
      SharedCheck("the last rules are those of the journal, on all nodes", checkRules),
      SharedCheck("nodes that append at once each get their own numbers", checkRaces),
      SharedCheck("while a node has the turn, the appends of the others wait", checkTurn),
      SharedCheck("the turn ends with an append of its node", checkTurnEnd),
      SharedCheck("a lease that was renewed in time has not run out", checkLease),
      SharedCheck(
        "the writes of a node that is gone are taken over once, in groups", checkTakeOver),
      SharedCheck("a node that was only slow cannot make a write that was taken over", checkSlow),
      SharedCheck("a page of writes that are taken over ends with a whole group", checkGroups),
    ]
  }

  private static func commit(
    _ sequence: Int64, writer: Int64 = 1, mark: CommitMark? = nil, keyTime: Int64? = nil
  ) throws -> Commit {
    var commit = try contractCommit(sequence, "n/\(sequence)", Node(sequence))
    commit.note = CommitNote(writer: writer, keyTime: keyTime, mark: mark)
    return commit
  }

  private static func checkNotes(_ fixture: Fixture, _ stores: [Store]) async throws {
    var commits: [Commit] = []
    let marks: [CommitMark?] = [
      nil, .rules("{\"rules\":{}}"), .rules(nil), .account(uid: "é \u{0}\""), nil,
    ]
    for (index, mark) in marks.enumerated() {
      var commit = try commit(
        Int64(index + 1), writer: index == 0 ? .min : .max, mark: mark, keyTime: Int64(index) * 7)
      if index == 2 { commit.origin = try WriteOrigin(client: "c", number: 5, seen: 2) }
      if index == 3 { commit.assignments = [] }
      commits.append(commit)
    }
    try await stores[0].append(commits, after: 0)
    for store in stores {
      let read = try await store.commits(after: 0, bytesMax: 1_000_000)
      #expect(read.map(\.sequence) == [1, 2, 3, 4, 5])
      #expect(read.map(\.note) == commits.map(\.note))
      #expect(read.map(\.origin) == commits.map(\.origin))
      #expect(read.map(\.time) == commits.map(\.time))
      #expect(read.map(\.assignments.count) == [1, 1, 1, 0, 1])
      #expect(read.folded() == commits.folded())
      #expect(try await store.commits(after: 5, bytesMax: 1_000).isEmpty)
    }
  }

  private static func checkPages(_ fixture: Fixture, _ stores: [Store]) async throws {
    let commits = try (1...40).map { try commit($0) }
    try await stores[0].append(commits, after: 0)
    for bytesMax in [1, 50, 200, 1_000_000] {
      var read: [Commit] = []
      while true {
        let page = try await stores[1].commits(
          after: read.last?.sequence ?? 0, bytesMax: bytesMax)
        if page.isEmpty { break }
        read += page
      }
      #expect(read.map(\.sequence) == Array(1...40), "\(bytesMax)")
    }
  }

  private static func checkConflict(_ fixture: Fixture, _ stores: [Store]) async throws {
    let first = [try commit(1, writer: 7), try commit(2, writer: 7, mark: .account(uid: "u"))]
    try await stores[0].append(first, after: 0)
    do {
      try await stores[1].append([commit(1, writer: 8)], after: 0)
      Issue.record("the append has succeeded")
    } catch JournalError.conflict(let missed) {
      #expect(missed.map(\.note) == first.map(\.note))
    }
    #expect(try await stores[1].resolveAppend(after: 0).map(\.note) == first.map(\.note))
    try await stores[1].append([commit(3, writer: 8)], after: 2)
    #expect(try await stores[0].commits(after: 2, bytesMax: 1_000).map(\.note?.writer) == [8])
  }

  private static func checkBell(_ fixture: Fixture, _ stores: [Store]) async throws {
    async let waited: Void = stores[1].waitForCommits(after: 0, atMost: .seconds(600))
    try await stores[0].append([commit(1)], after: 0)
    await waited
    // The last message may have come before this wait.
    await stores[1].waitForCommits(after: 0, atMost: .milliseconds(1))
    let store = stores[2]
    let wait = Task { await store.waitForCommits(after: 10, atMost: .seconds(600)) }
    wait.cancel()
    await wait.value
  }

  private static func checkForgotten(_ fixture: Fixture, _ stores: [Store]) async throws {
    let commits = try (1...9).map { try commit($0) }
    try await stores[0].append(commits, after: 0)
    try await fixture.forget(through: 6, commits.folded(), of: 9, on: stores[0])
    for sequence: Int64 in [0, 5] {
      do {
        _ = try await stores[1].commits(after: sequence, bytesMax: 1_000)
        Issue.record("commit \(sequence + 1) was removed")
      } catch JournalError.forgotten {}
    }
    #expect(
      try await stores[1].commits(after: 6, bytesMax: 1_000_000).map(\.sequence) == [7, 8, 9])
    let state = try await stores[1].load(keeping: IndexPlan())
    #expect(state.sequence == 9)
    #expect(state.tree.root == commits.folded())
    // A node that is too far behind to lose the race must load, too.
    do {
      try await stores[2].append([commit(1)], after: 0)
      Issue.record("the append has succeeded")
    } catch JournalError.forgotten {
    } catch JournalError.conflict {
      Issue.record("the missed commits do not exist any more")
    }
  }

  private static func checkRules(_ fixture: Fixture, _ stores: [Store]) async throws {
    #expect(try await stores[1].load(keeping: IndexPlan()).rules == nil)
    try await stores[0].append(
      [commit(1), commit(2, mark: .rules("a")), commit(3, mark: .rules("b")), commit(4)], after: 0)
    for store in stores {
      let rules = try await store.load(keeping: IndexPlan()).rules
      #expect(rules == JournaledRules(text: "b", sequence: 3))
    }
    // Another append after the same number changes no rules.
    do {
      try await stores[1].append([commit(4, mark: .rules("lost"))], after: 3)
      Issue.record("the append has succeeded")
    } catch JournalError.conflict {}
    try await stores[2].append([commit(5, mark: .rules(nil))], after: 4)
    let rules = try await stores[0].load(keeping: IndexPlan()).rules
    #expect(rules == JournaledRules(text: nil, sequence: 5))
  }

  private static func checkRaces(_ fixture: Fixture, _ stores: [Store]) async throws {
    try await withThrowingTaskGroup(of: Void.self) { group in
      for (node, store) in stores.enumerated() {
        group.addTask {
          var (last, made): (Int64, Int) = (0, 0)
          while made < 20 {
            do {
              try await store.append([commit(last + 1, writer: Int64(node))], after: last)
              last += 1
              made += 1
            } catch JournalError.conflict(let missed) {
              #expect(missed.first?.sequence == last + 1)
              last = missed.last?.sequence ?? last
            }
          }
        }
      }
      try await group.waitForAll()
    }
    let all = try await stores[0].commits(after: 0, bytesMax: 1_000_000)
    #expect(all.map(\.sequence) == Array(1...60))
    for node in 0..<3 { #expect(all.count { $0.note?.writer == Int64(node) } == 20) }
  }

  private static func checkTurn(_ fixture: Fixture, _ stores: [Store]) async throws {
    #expect(try await stores[0].takeTurn())
    let hasAppended = Mutex(false)
    let other = stores[1]
    let append = Task {
      try await other.append([commit(1, writer: 2)], after: 0)
      hasAppended.withLock { $0 = true }
    }
    // Reads do not wait.
    for _ in 0..<20 {
      #expect(try await stores[0].commits(after: 0, bytesMax: 1_000).isEmpty)
      #expect(try await stores[2].commits(after: 0, bytesMax: 1_000).isEmpty)
    }
    #expect(!hasAppended.withLock { $0 })
    await stores[0].endTurn()
    try await append.value
    #expect(try await stores[0].commits(after: 0, bytesMax: 1_000).map(\.note?.writer) == [2])
  }

  private static func checkTurnEnd(_ fixture: Fixture, _ stores: [Store]) async throws {
    #expect(try await stores[0].takeTurn())
    let other = stores[1]
    let second = Task { try await other.takeTurn() }
    try await stores[0].append([commit(1)], after: 0)
    await stores[0].endTurn()
    #expect(try await second.value)
    try await other.append([commit(2)], after: 1)
    await other.endTurn()
    // An end without a turn does nothing.
    await other.endTurn()
    try await stores[2].append([commit(3)], after: 2)
  }

  // MARK: Leases and on-disconnect writes

  private static func add(
    _ store: Store, _ request: String, to group: DisconnectWriteID? = nil
  ) async throws -> DisconnectWriteID {
    try #require(
      try await store.changeDisconnectWrites(
        adding: ("u", request), to: group, exceptions: [:], removing: []))
  }

  private static func takeOver(_ store: Store) async throws -> [DisconnectWrite] {
    var all: [DisconnectWrite] = []
    while true {
      let page = try await store.takeOverDisconnectWrites(countMax: 1_000, bytesMax: 1_000_000)
      if page.isEmpty { return all }
      all += page
    }
  }

  private static func checkLease(_ fixture: Fixture, _ stores: [Store]) async throws {
    for store in stores { #expect(try await store.renewLease()) }
    #expect(try await stores[0].renewLease())
    try await fixture.endLease(of: 0)
    #expect(try await !stores[0].renewLease())
    #expect(try await stores[0].renewLease())
    #expect(try await stores[1].renewLease())
  }

  private static func checkTakeOver(_ fixture: Fixture, _ stores: [Store]) async throws {
    for store in stores { _ = try await store.renewLease() }
    var ids: [DisconnectWriteID] = []
    for number in 0..<10 {
      let first = try await add(stores[0], "r\(number)")
      ids += [first, try await add(stores[0], "s\(number)", to: first)]
    }
    try await stores[0].changeDisconnectWrites(
      adding: nil, exceptions: [ids[3]: ["a/b"]], removing: [])
    let own = try await add(stores[1], "own")
    #expect(try await takeOver(stores[1]).isEmpty)
    try await fixture.endLease(of: 0)
    let taken = try await withThrowingTaskGroup(of: [DisconnectWrite].self) { group in
      for store in stores[1...] { group.addTask { try await takeOver(store) } }
      return try await group.reduce(into: []) { $0.append($1) }
    }
    #expect(taken.flatMap { $0.map(\.id) }.sorted() == ids)
    for writes in taken {
      #expect(writes.map(\.id) == writes.map(\.id).sorted())
      for group in Set(writes.map(\.group)) {
        #expect(writes.count { $0.group == group } == 2, "a group has one owner")
      }
    }
    #expect(taken.joined().first { $0.id == ids[3] }?.exceptions == ["a/b"])
    #expect(try await stores[0].disconnectWriteIDs().isEmpty)
    let kept = try await stores[1].disconnectWriteIDs().union(stores[2].disconnectWriteIDs())
    #expect(kept == Set(ids + [own]))
    for store in stores { #expect(try await takeOver(store).isEmpty) }
  }

  private static func checkSlow(_ fixture: Fixture, _ stores: [Store]) async throws {
    for store in stores { _ = try await store.renewLease() }
    let ids = [try await add(stores[0], "a"), try await add(stores[0], "b")]
    try await fixture.endLease(of: 0)
    #expect(try await takeOver(stores[1]).map(\.id) == ids)
    #expect(try await !stores[0].renewLease())
    var completing = try commit(1)
    completing.completedDisconnectWrites = [ids[1], ids[0]]
    do {
      try await stores[0].append([completing], after: 0)
      Issue.record("the append has succeeded")
    } catch JournalError.disconnectWritesTaken(let taken) {
      #expect(taken.sorted() == ids)
    }
    // Its other appends succeed, and the new owner makes the write.
    try await stores[0].append([commit(1)], after: 0)
    completing = try commit(2)
    completing.completedDisconnectWrites = [ids[0]]
    try await stores[1].append([completing], after: 1)
    #expect(try await stores[1].disconnectWriteIDs() == [ids[1]])
    #expect(try await takeOver(stores[0]).isEmpty)
  }

  private static func checkGroups(_ fixture: Fixture, _ stores: [Store]) async throws {
    for store in stores { _ = try await store.renewLease() }
    let first = try await add(stores[0], "1")
    let second = try await add(stores[0], "2")
    let ids = [first, try await add(stores[0], "3", to: first), second]
    try await fixture.endLease(of: 0)
    var page = try await stores[1].takeOverDisconnectWrites(countMax: 1, bytesMax: 1_000)
    #expect(page.map(\.id) == [ids[0], ids[1]])
    page = try await stores[2].takeOverDisconnectWrites(countMax: 1_000, bytesMax: 1)
    #expect(page.map(\.id) == [second])
    #expect(try await takeOver(stores[1]).isEmpty)
  }
}
