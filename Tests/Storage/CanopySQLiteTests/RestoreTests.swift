import CanopyEngine
import CanopyRows
import CanopyTesting
import CanopyTree
import Foundation
import GRDB
import Testing

@testable import CanopySQLite

/// The restoring of a database up to a commit.
@Suite(.timeLimit(.minutes(20))) struct RestoreTests {
  /// A history of random commits with before-images, and the tree after each of them.
  private struct History {
    var commits: [Commit] = []
    var trees: [Tree] = [Tree()]

    init(_ count: Int) async throws {
      let journal = InMemoryJournal()
      try await journal.makeRandomCommits(count, SeededGenerator(seed: 7))
      for commit in try await journal.wholeHistory() {
        commits.append(
          Commit(
            sequence: commit.sequence, time: 1_000 * commit.sequence,
            assignments: commit.assignments, beforeImage: commit.beforeImage))
        var tree = trees[trees.count - 1]
        tree.apply(commit.assignments)
        trees.append(tree)
      }
      try #require(commits.count == count)
    }
  }

  let folder: Folder
  /// The time of the restores: one day after the beginning of 2020.
  private let now: Int64 = 1_577_923_200_000

  init() throws {
    folder = try Folder()
  }

  private func fill(_ history: History, checkpointAt checkpoint: Int?) async throws {
    try await folder.withStore { store in
      for (index, commit) in history.commits.enumerated() {
        try store.append([commit], after: Int64(index))
        if index + 1 == checkpoint {
          try await store.checkpoint(history.trees[index + 1].root, through: Int64(index + 1))
        }
      }
    }
  }

  private func copied(_ folder: Folder? = nil) throws -> Folder {
    let copy = try Folder()
    _ = try SQLiteStore.copyDatabase(
      of: (folder ?? self.folder).path, isServed: false, to: copy.path)
    return copy
  }

  @Test func `the time of a point is that of its last commit, also if the clock was set back`()
    async throws
  {
    try await folder.withStore { store in
      for (index, time) in [1_000, 5_000, 3_000, 6_000].enumerated() {
        let commit = Commit(
          sequence: Int64(index + 1), time: Int64(time),
          assignments: [Assignment(try Location("n"), Node(Int64(time)))])
        try store.append([commit], after: Int64(index))
      }
      for (point, time) in [
        (.sequence(1), 1_000), (.sequence(2), 5_000), (.sequence(3), 5_000), (.sequence(4), 6_000),
        (.time(2_000), 2_000), (.last, .max),
        // No commit is before the first one.
        (.sequence(0), 1_000),
      ] as [(RestorePoint, Int64)] {
        #expect(try await store.time(of: point) == time, "\(point)")
      }
    }
  }

  @Test(arguments: [nil, 5, 30] as [Int?])
  func `each retained commit can be reached, and the tree is the one of that time`(
    checkpoint: Int?
  ) async throws {
    let history = try await History(30)
    try await fill(history, checkpointAt: checkpoint)
    for sequence in 0...30 as ClosedRange<Int64> {
      let copy = try copied()
      try await copy.withStore { store in
        let reached = try await store.restore(to: .sequence(sequence), copyTime: 50_000, at: now)
        #expect(reached == sequence)
      }
      try await copy.withStore { store in
        let (root, last) = try await store.tree()
        #expect(root == history.trees[Int(sequence)].root, "commit \(sequence)")
        #expect(last == NewNumbers.start(after: 30, at: now))
        #expect(try await store.problems().isEmpty)
        try store.append([commit(last + 1, "new", Node(1))], after: last)
      }
    }
  }

  @Test func `a restore up to the last commit keeps the tree, and begins other numbers`()
    async throws
  {
    let history = try await History(10)
    try await fill(history, checkpointAt: 4)
    let copy = try copied()
    try await copy.withStore { store in
      #expect(try await store.restore(to: .last, copyTime: 50_000, at: now) == 10)
      #expect(try await store.wholeHistory().isEmpty)
      let (root, last) = try await store.tree()
      #expect(root == history.trees[10].root && last == NewNumbers.start(after: 10, at: now))
    }
  }

  @Test func `a number before the first retained commit or after the last one is refused`()
    async throws
  {
    var configuration = SQLiteStore.Configuration()
    configuration.retainedCommits = 5
    let history = try await History(20)
    try await folder.withStore(configuration) { store in
      for commit in history.commits { try store.append([commit], after: commit.sequence - 1) }
      try await store.checkpoint(history.trees[20].root, through: 20)
    }
    for (sequence, isReached) in [(14, false), (15, true), (20, true), (21, false)]
      as [(Int64, Bool)]
    {
      let copy = try copied()
      try await copy.withStore { store in
        if isReached {
          _ = try await store.restore(to: .sequence(sequence), copyTime: 50_000, at: now)
          #expect(try await store.tree().root == history.trees[Int(sequence)].root)
        } else {
          let before = try await store.tree()
          let error = await #expect(throws: StoreError.self) {
            try await store.restore(to: .sequence(sequence), copyTime: 50_000, at: now)
          }
          expectAdvice(error, mentions: "\(sequence)", "from 15 to 20")
          #expect(try await store.tree() == before)
        }
      }
    }
  }

  @Test func `a time reaches the last commit up to it`() async throws {
    let history = try await History(10)
    try await fill(history, checkpointAt: nil)
    let cases: [(time: Int64, sequence: Int64?)] = [
      (0, nil), (999, nil), (1_000, 1), (4_999, 4), (5_000, 5), (10_000, 10), (20_000, 10),
      (20_001, nil),
    ]
    for (time, sequence) in cases {
      let copy = try copied()
      try await copy.withStore { store async throws in
        if let sequence {
          #expect(try await store.restore(to: .time(time), copyTime: 20_000, at: now) == sequence)
          #expect(try await store.tree().root == history.trees[Int(sequence)].root)
        } else {
          let error = await #expect(throws: StoreError.self) {
            try await store.restore(to: .time(time), copyTime: 20_000, at: now)
          }
          expectAdvice(
            error, mentions: time < 1_000 ? "1970-01-01T00:00:01" : "1970-01-01T00:00:20")
        }
      }
    }
  }

  @Test func `where the clock was ahead of the backup, a number is advised in place of a time`()
    async throws
  {
    let history = try await History(10)
    try await fill(history, checkpointAt: nil)
    let copy = try copied()
    try await copy.withStore { store in
      let error = await #expect(throws: StoreError.self) {
        try await store.restore(to: .time(500), copyTime: 700, at: now)
      }
      expectAdvice(error, mentions: "from 0 on with --up-to-sequence")
      #expect(error?.sentence.contains("choose a time") == false)
    }
  }

  @Test func `a time before the first retained commit is refused`() async throws {
    var configuration = SQLiteStore.Configuration()
    configuration.retainedCommits = 5
    let history = try await History(20)
    try await folder.withStore(configuration) { store in
      for commit in history.commits { try store.append([commit], after: commit.sequence - 1) }
      try await store.checkpoint(history.trees[20].root, through: 20)
    }
    // The time of commit 15 is not known any more.
    for (time, sequence) in [(15_999, nil), (16_000, 16)] as [(Int64, Int64?)] {
      let copy = try copied()
      try await copy.withStore { store async throws in
        if let sequence {
          #expect(try await store.restore(to: .time(time), copyTime: 50_000, at: now) == sequence)
        } else {
          let error = await #expect(throws: StoreError.self) {
            try await store.restore(to: .time(time), copyTime: 50_000, at: now)
          }
          expectAdvice(error, mentions: "1970-01-01T00:00:16", "--older")
        }
      }
    }
  }

  /// Expects that a time reaches a commit of a copy; nil for an error that mentions a text, after which nothing is changed.
  private func expect(
    _ time: Int64, reaches sequence: Int64?, of folder: Folder, from older: Folder? = nil,
    mentions words: String = ""
  ) async throws {
    let begin = try older.map { try SQLiteStore.reading($0.path) }
    try await copied(folder).withStore { store in
      guard let sequence else {
        let before = try await store.tree()
        let error = await #expect(throws: StoreError.self, "\(time)") {
          try await store.restore(to: .time(time), from: begin, copyTime: 50_000, at: now)
        }
        expectAdvice(error, mentions: words)
        return #expect(try await store.tree() == before)
      }
      let reached = try await store.restore(
        to: .time(time), from: begin, copyTime: 50_000, at: now)
      #expect(reached == sequence, "\(time)")
    }
    try begin?.close()
  }

  @Test func `a time before the import with which the journal begins is refused`() async throws {
    try await folder.withStore { store in
      try await store.replace(.root, with: Node("old"), at: 1_000) { _ in }
      try await store.replace(.root, with: Node("new"), at: 3_000) { _ in }
    }
    for (time, sequence) in [(2_000, nil), (2_999, nil), (3_000, 2), (50_000, 2)]
      as [(Int64, Int64?)]
    {
      try await expect(time, reaches: sequence, of: folder, mentions: "1970-01-01T00:00:03")
    }
    try await folder.withStore { try $0.append([commit(3, "n", Node(1))], after: 2) }
    // This commit is of 1.003 seconds: the clock was set back. So no time after the import is before it.
    for (time, sequence) in [(2_999, nil), (3_000, 3)] as [(Int64, Int64?)] {
      try await expect(time, reaches: sequence, of: folder, mentions: "1970-01-01T00:00:03")
    }
  }

  @Test func `a time between an import and the first commit after it reaches the import`()
    async throws
  {
    try await folder.withStore { store in
      try await store.replace(.root, with: json(#"{"m":"old"}"#), at: 1_001) { _ in }
      var next = try commit(2, "n", Node(1))
      next.beforeImage = [Assignment(try Location("n"), .absent)]
      try store.append([next], after: 1)
    }
    for (time, sequence) in [(1_000, nil), (1_001, 1), (1_002, 2)] as [(Int64, Int64?)] {
      try await expect(time, reaches: sequence, of: folder, mentions: "1970-01-01T00:00:01.001")
    }
  }

  @Test func `a tree of an unknown time is reached by its number, or with a commit after it`()
    async throws
  {
    // As an earlier version stores it.
    try await folder.withStore { try await $0.replace(.root, with: Node("a")) { _ in } }
    try await expect(50_000, reaches: nil, of: folder, mentions: "choose commit 1")
    try await copied(folder).withStore { store async throws in
      #expect(try await store.restore(to: .sequence(1), copyTime: 50_000, at: now) == 1)
    }
    try await folder.withStore { try $0.append([commit(2, "n", Node(1))], after: 1) }
    try await expect(1_001, reaches: nil, of: folder, mentions: "1970-01-01T00:00:01.002")
    try await expect(1_002, reaches: 2, of: folder)
  }

  @Test(arguments: ["base_time", "base_time_sum", "base_checksum"])
  func `an altered time of the tree with which the journal begins counts as unknown`(
    name: String
  ) async throws {
    try await folder.withStore { try await $0.replace(.root, with: Node("a"), at: 1_000) { _ in } }
    try await expect(2_000, reaches: 1, of: folder)
    try await folder.withStore { store in
      try await store.pool.write { db in
        var meta = try Meta.read(db)
        #expect(meta.baseTime == 1_000)
        if name == "base_checksum" {
          // A later base of a program that does not know the time.
          meta[.baseChecksum] += 1
          try meta.write(db)
        } else {
          try db.execute(
            sql: "UPDATE meta SET value = value - 1 WHERE name = ?", arguments: [name])
        }
        #expect(try Meta.read(db).baseTime == nil)
      }
    }
    if name != "base_checksum" {
      try await expect(2_000, reaches: nil, of: folder, mentions: "choose commit 1")
    }
  }

  @Test func `an older copy that ends after the time is refused, also if no commit follows it`()
    async throws
  {
    let history = try await History(3)
    try await fill(history, checkpointAt: nil)
    let (older, newer) = (try copied(), try copied())
    try await expect(2_500, reaches: 2, of: newer)
    for (time, sequence) in [(2_500, nil), (2_999, nil), (3_000, 3), (4_000, 3)]
      as [(Int64, Int64?)]
    {
      try await expect(
        time, reaches: sequence, of: newer, from: older, mentions: "1970-01-01T00:00:03")
    }
  }

  @Test func `a restored folder and new numbers begin at their time`() async throws {
    var configuration = SQLiteStore.Configuration()
    configuration.currentTime = 40_000
    try await folder.withStore { try $0.append([commit(1, "n", Node(1))], after: 0) }
    for isRestored in [true, false] {
      let copy = try copied()
      let last = try await copy.withStore(isRestored ? .init() : configuration) { store in
        if isRestored {
          _ = try await store.restore(to: .last, copyTime: 50_000, at: 40_000)
        } else {
          try await store.beginNewNumbersIfNeeded(at: 40_001)
        }
        return try await store.tree().sequence
      }
      try await expect(39_999, reaches: nil, of: copy, mentions: "1970-01-01T00:00:40")
      try await expect(40_000, reaches: last, of: copy)
    }
  }

  @Test func `a folder without any commit is empty at each time`() async throws {
    try await folder.withStore { _ in }
    try await expect(1, reaches: 0, of: folder)
  }

  /// The ways in which a folder gets a tree without commits.
  enum Beginning: CaseIterable {
    case replacement, newNumbers, move
  }

  private func folder(with value: String, by beginning: Beginning) async throws -> Folder {
    let folder = try Folder()
    return try await folder.withStore { store in
      try await store.replace(.root, with: Node(value)) { _ in }
      let state = try await store.load(keeping: IndexPlan())
      switch beginning {
      case .replacement: return folder
      case .newNumbers:
        try await store.beginNewNumbers(
          state, state.tree.root, replacing: LocationSet(), after: 1, at: now)
        return folder
      case .move:
        let moved = try Folder()
        try await moved.withStore { try await $0.begin(with: state) }
        return moved
      }
    }
  }

  @Test(arguments: Beginning.allCases)
  func `an older copy of another folder is refused, though both began with the same number`(
    beginning: Beginning
  ) async throws {
    let own = try await folder(with: "production", by: beginning)
    let older = try copied(own)
    let foreign = try await folder(with: "staging", by: beginning)
    let first = try await own.withStore { store in
      let first = try await store.tree().sequence
      for number in first + 1...first + 3 {
        try store.append([commit(number, "n/\(number)", Node(number))], after: number - 1)
      }
      return first
    }
    #expect(try await foreign.withStore { try await $0.tree().sequence } == first)
    try await copied(own).withStore { copy in
      try await foreign.withStore { foreign in
        let error = await #expect(throws: StoreError.self) {
          try await copy.restore(
            to: .sequence(first + 2), from: foreign, copyTime: 50_000, at: now)
        }
        expectAdvice(error, mentions: "of another history")
      }
      try await older.withStore { older in
        let reached = try await copy.restore(
          to: .sequence(first + 2), from: older, copyTime: 50_000, at: now)
        #expect(reached == first + 2)
      }
    }
  }

  @Test func `a large commit cannot be undone, but made again on an older copy`() async throws {
    var history = try await History(10)
    // A commit whose before-image is too large has none.
    history.commits[5].beforeImage = nil
    let older: Folder
    do {
      let store = try SQLiteStore(folder: folder.path)
      for commit in history.commits[..<3] { try store.append([commit], after: commit.sequence - 1) }
      try store.close()
      older = try copied()
      let again = try SQLiteStore(folder: folder.path)
      for commit in history.commits[3...] { try again.append([commit], after: commit.sequence - 1) }
      try again.close()
    }
    for sequence in 2...11 as ClosedRange<Int64> {
      let copy = try copied()
      try await copy.withStore { store in
        if sequence == 5 {
          let error = await #expect(throws: StoreError.self) {
            try await store.restore(to: .sequence(sequence), copyTime: 50_000, at: now)
          }
          expectAdvice(error, mentions: "commit 6", "--older")
        }
        try await older.withStore { older in
          if 3...10 ~= sequence {
            _ = try await store.restore(
              to: .sequence(sequence), from: older, copyTime: 50_000, at: now)
            #expect(try await store.tree().root == history.trees[Int(sequence)].root)
            #expect(try await store.problems().isEmpty)
          } else {
            let error = await #expect(throws: StoreError.self) {
              try await store.restore(
                to: .sequence(sequence), from: older, copyTime: 50_000, at: now)
            }
            expectAdvice(error, mentions: "from 3 to 10")
          }
        }
      }
    }
  }

  @Test func `an older copy of another history is refused`() async throws {
    try await fill(try await History(10), checkpointAt: nil)
    let other = try Folder()
    try await other.withStore { try $0.append([commit(1, "a", Node("other"))], after: 0) }
    let copy = try copied()
    try await other.withStore { older in
      try await copy.withStore { store in
        let error = await #expect(throws: StoreError.self) {
          try await store.restore(to: .sequence(5), from: older, copyTime: 50_000, at: now)
        }
        expectAdvice(error, mentions: "another history")
      }
    }
  }

  @Test func `a write with ONCE is forgotten if its commit is undone`() async throws {
    try await folder.withStore { store in
      for number in 1...4 as ClosedRange<Int64> {
        var next = try commit(number, "a", Node(number))
        next.beforeImage = [Assignment(try Location("a"), number == 1 ? .absent : Node(number - 1))]
        next.origin = try WriteOrigin(client: "c\(number)", number: 1, seen: 0)
        try store.append([next], after: number - 1)
      }
    }
    let copy = try copied()
    try await copy.withStore { store in
      _ = try await store.restore(to: .sequence(2), copyTime: 50_000, at: now)
      #expect(try await store.load().clientWrites.map(\.sequence) == [1, 2])
    }
  }
}
