import CanopyEngine
import CanopyTesting
import CanopyTree
import Foundation
import Testing

@testable import CanopySQLite

/// The sequence numbers after an event that may have undone commits.
@Suite(.timeLimit(.minutes(20))) struct NewNumbersTests {
  let folder: Folder
  /// One day after the beginning of 2020.
  private static let day: Int64 = 1_577_923_200_000

  init() throws {
    folder = try Folder()
  }

  @Test func `numbers are above the last one, and grow with the time`() {
    let first = NewNumbers.start(after: 10, at: Self.day)
    #expect(first == 86_400_000_000)
    #expect(NewNumbers.start(after: 10, at: Self.day + 1) == first + 1_000)
    for last in [0, 1, first - 1, first, first + 1, 1 << 61] as [Int64] {
      for now in [.min, -1, 0, 1_577_836_800_000, Self.day, 1 << 48, .max] as [Int64] {
        let next = NewNumbers.start(after: last, at: now)
        #expect(last < next && next <= SequenceRange.max, "after \(last) at \(now)")
      }
    }
    // Another clock was ahead.
    let ahead = 10 * first
    let next = NewNumbers.start(after: ahead, at: Self.day)
    #expect(next >= ahead + NewNumbers.gap)
    #expect(NewNumbers.start(after: ahead, at: Self.day + 1) == next + 1_000)
    #expect(NewNumbers.start(after: SequenceRange.max, at: Self.day) == SequenceRange.max)
  }

  @Test func `the first number of today can be read by JavaScript, and that of 2300 too`() {
    let year2300: Int64 = 10_413_792_000_000
    #expect(NewNumbers.start(after: 0, at: year2300) < 1 << 53)
  }

  /// Appends commits to the location `/n`, after the last one.
  private func append(_ count: Int, to store: SQLiteStore) async throws {
    for _ in 0..<count {
      let last = try await store.load().sequence
      try store.append([commit(last + 1, "n/\(last + 1)", Node(last + 1))], after: last)
    }
  }

  /// Opens a folder as a server does, and expects that all numbers are new. Then opens it again, and expects that they
  /// go on.
  private func expectNewNumbers(
    _ folder: Folder, _ configuration: SQLiteStore.Configuration = .init(), known: Int64,
    children: Int
  ) async throws {
    let last: Int64 = 86_400_000_000
    try await folder.withStore(configuration) { store async throws in
      try await store.beginNewNumbersIfNeeded(at: Self.day)
      let state = try await store.load()
      #expect(state.sequence == last)
      #expect(state.tree.root.child("n").childCount == children)
      try await append(Int(known) + 1, to: store)
      let page = try await store.history(after: known, through: known + 1) { _ in true }
      #expect(page.read == nil, "a client that knows the commit \(known) gets the whole state")
    }
    try await folder.withStore(configuration) { store async throws in
      try await store.beginNewNumbersIfNeeded(at: Self.day + 1)
      #expect(try await store.load().sequence == last + known + 1)
      #expect(try await store.problems().isEmpty)
    }
  }

  @Test func `copies of a folder without commits, without canopy.tail, have numbers of their own`()
    async throws
  {
    try await folder.withStore { _ in }
    let copy = try folder.crashed()
    try FileManager.default.removeItem(atPath: copy.path + "/canopy.tail")
    try await expectNewNumbers(copy, known: 0, children: 0)
    // With the file, the folder is the one that its clients know.
    try await folder.withStore { store async throws in
      try await store.beginNewNumbersIfNeeded(at: Self.day)
      #expect(try await store.load().sequence == 0)
    }
  }

  @Test(arguments: SQLiteStore.Durability.allCases)
  func `after a loss of power with relaxed durability, all numbers are new`(
    next: SQLiteStore.Durability
  ) async throws {
    var configuration = SQLiteStore.Configuration()
    configuration.durability = .relaxed
    let disk = try await folder.withStore(configuration) { store async throws in
      try await append(5, to: store)
      let disk = try folder.crashed()
      try await append(3, to: store)
      return disk
    }
    try disk.restartSystem()
    configuration.durability = next
    // A command that opens the folder before the server leaves the mark.
    try await disk.withStore { store async throws in
      #expect(try await store.load().sequence == 5)
    }
    try await expectNewNumbers(disk, configuration, known: 8, children: 5)
  }

  @Test func `without canopy.tail all numbers are new`() async throws {
    try await folder.withStore { try await append(5, to: $0) }
    try FileManager.default.removeItem(atPath: folder.path + "/canopy.tail")
    try await folder.withStore { store async throws in
      #expect(try await store.load().sequence == 5)
    }
    try await expectNewNumbers(folder, known: 8, children: 5)
  }

  @Test func `a folder that a command creates begins with new numbers`() async throws {
    let path = folder.path + "/new"
    try SQLiteStore.create(folder: path, through: folder.path + "/.new")
    let store = try SQLiteStore(folder: path)
    #expect(try await store.load().sequence == 0)
    try await store.beginNewNumbersIfNeeded(at: Self.day)
    #expect(try await store.load().sequence == 86_400_000_000)
    try store.close()
  }

  @Test(arguments: SQLiteStore.Durability.allCases)
  func `after a crash of the process the numbers go on`(durability: SQLiteStore.Durability)
    async throws
  {
    var configuration = SQLiteStore.Configuration()
    configuration.durability = durability
    let crashed = try await folder.withStore(configuration) { store async throws in
      try await append(5, to: store)
      return try folder.crashed()
    }
    for folder in [crashed, folder] {
      try await folder.withStore(configuration) { store async throws in
        try await store.beginNewNumbersIfNeeded(at: Self.day)
        #expect(try await store.load().sequence == 5)
      }
    }
  }

  @Test func `two restores of one backup continue with different numbers`() async throws {
    try await folder.withStore { try await append(5, to: $0) }
    var bases: [Int64] = []
    for (time, point) in [(Self.day, RestorePoint.last), (Self.day + 1, .last)] {
      let copy = try Folder()
      _ = try SQLiteStore.copyDatabase(of: folder.path, isServed: false, to: copy.path)
      bases.append(
        try await copy.withStore { store async throws in
          _ = try await store.restore(to: point, copyTime: 50_000, at: time)
          return try await store.load().sequence
        })
      // The numbers do not change again at the first start.
      try await copy.withStore { store async throws in
        try await store.beginNewNumbersIfNeeded(at: time + 1_000)
        #expect(try await store.load().sequence == bases.last)
      }
    }
    #expect(bases == [86_400_000_000, 86_400_001_000])
  }
}
