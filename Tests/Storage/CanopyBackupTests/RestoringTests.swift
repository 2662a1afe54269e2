import CanopyEngine
import CanopySQLite
import CanopyTesting
import CanopyTree
import CanopyWire
import Foundation
import Testing

@testable import CanopyBackup

/// The restoring of a backup into a new folder.
@Suite(.timeLimit(.minutes(20))) struct RestoringTests {
  private let server: Server
  /// The time of the restores: one day after the beginning of 2020.
  private let now: Int64 = 1_577_923_200_000
  private var target: String { server.place.file("new") }

  init() async throws {
    server = try Server()
    server.clock.advance(100_000)
    try await server.withStore { store in
      for number in 1...6 as ClosedRange<Int64> {
        try store.append([commit(number, "n/\(number)", Node(number))], after: number - 1)
      }
    }
  }

  private func restore(
    _ path: String, older: String? = nil, to point: RestorePoint = .last,
    into folder: String? = nil,
    check: (String) async throws -> Void = { _ in }
  ) async throws -> [Restoring.Outcome] {
    let restoring = Restoring(
      BackupFile(path), older: older.map { BackupFile($0) }, now: { [now] in now }
    ) {
      $0 == .default ? point : .last
    }
    let folder = folder ?? target
    let works = restoring.workFolders(for: folder, number: 1)
    return try await restoring.run(to: folder, through: works) { _, _ in
    } check: { folder, _ in
      try await check(folder)
    }
  }

  private func tree(_ folder: String) async throws -> Node {
    let store = try SQLiteStore(folder: folder)
    let root = try await store.tree().root
    try store.close()
    return root
  }

  @Test func `a restored folder has each namespace up to its commit`() async throws {
    let path = try server.backUp()
    let outcomes = try await restore(path, to: .sequence(4))
    #expect(outcomes.map(\.sequence) == [4, 1])
    #expect(outcomes.map(\.isEarlier) == [true, false])
    #expect(outcomes.map(\.time) == [4_000, .max])
    #expect(try await tree(target).at(Path("n")).childCount == 4)
    #expect(try await tree(target + "/namespaces/shop").at(Path("item")) == Node("hat"))
    #expect(try server.place.files() == ["a.tar", "new"])
  }

  @Test func `a folder that is not empty is refused, and an empty one is filled`() async throws {
    let path = try server.backUp()
    try FileManager.default.createDirectory(atPath: target, withIntermediateDirectories: false)
    try Data("mine".utf8).write(to: URL(filePath: target + "/file"))
    await #expect(throws: BackupError.self) { try await restore(path) }
    #expect(try FileManager.default.contentsOfDirectory(atPath: target) == ["file"])
    try FileManager.default.removeItem(atPath: target + "/file")
    _ = try await restore(path)
    #expect(try await tree(target).at(Path("n")).childCount == 6)
    await #expect(throws: BackupError.self) { try await restore(path) }
    #expect(try server.place.files() == ["a.tar", "new"])
  }

  @Test(arguments: [false, true])
  func `an empty folder with lost+found is filled and not replaced, also through a link`(
    isLink: Bool
  )
    async throws
  {
    let path = try server.backUp()
    let disk = server.place.file("disk")
    try FileManager.default.createDirectory(
      atPath: disk + "/lost+found", withIntermediateDirectories: true)
    if isLink {
      try FileManager.default.createSymbolicLink(atPath: target, withDestinationPath: disk)
    }
    let folder = isLink ? target : disk
    func inode() throws -> Int? {
      try FileManager.default.attributesOfItem(atPath: disk)[.systemFileNumber] as? Int
    }
    let before = try #require(try inode())
    _ = try await restore(path, into: folder)
    #expect(try inode() == before)
    #expect(try await tree(disk).at(Path("n")).childCount == 6)
    let names = try FileManager.default.contentsOfDirectory(atPath: disk)
    #expect(names.contains("lost+found") && names.allSatisfy { !$0.hasPrefix(".") }, "\(names)")
  }

  @Test(arguments: [false, true])
  func `a folder with the name of a temporary one stays, also if it appears only now`(isLate: Bool)
    async throws
  {
    let (path, older) = (try server.backUp(), try server.backUp("older.tar"))
    let taken = [target + ".restoring-1", target + ".older-1"]
    func take(_ folder: String) throws {
      try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: false)
      try Data("mine".utf8).write(to: URL(filePath: folder + "/file"))
    }
    if !isLate { for folder in taken { try take(folder) } }
    let restoring = Restoring(
      BackupFile(path), older: BackupFile(older), now: { [now] in now }, to: { _ in .last })
    let works = restoring.workFolders(for: target, number: 1)
    #expect(works == (isLate ? taken : taken.map { $0 + "-2" }))
    if isLate { try take(taken[1]) }
    func run() async throws -> [Int64] {
      try await restoring.run(to: target, through: works) { _, _ in
      } check: { _, _ in
      }.map(\.sequence)
    }
    if isLate {
      await #expect(throws: BackupError.self) { try await run() }
    } else {
      #expect(try await run() == [6, 1])
    }
    let kept = isLate ? ["new.older-1"] : ["new", "new.older-1", "new.restoring-1"]
    #expect(try server.place.files() == ["a.tar"] + kept + ["older.tar"])
    let mine = FileManager.default.contents(atPath: taken[1] + "/file")
    #expect(mine == Data("mine".utf8))
  }

  @Test func `a restore that fails leaves nothing`() async throws {
    struct Stop: Error {}
    let path = try server.backUp()
    await #expect(throws: Stop.self) { try await restore(path) { _ in throw Stop() } }
    await #expect(throws: StoreError.self) { try await restore(path, to: .sequence(7)) }
    var data = try Data(contentsOf: URL(filePath: path))
    data[data.count / 2] ^= 1
    try data.write(to: URL(filePath: path))
    await #expect(throws: BackupError.self) { try await restore(path) }
    #expect(try server.place.files() == ["a.tar"])
  }

  @Test func `the tree of an older backup begins the restored one`() async throws {
    let older = try server.backUp("older.tar")
    try await server.withStore { store in
      var large = try commit(7, "n", Node("all gone"))
      large.beforeImage = nil
      try store.append([large], after: 6)
      try store.append([commit(8, "m", Node(8))], after: 7)
    }
    let newer = try server.backUp("newer.tar")
    await #expect(throws: StoreError.self) { try await restore(newer, to: .sequence(6)) }
    let outcomes = try await restore(newer, older: older, to: .time(6_999))
    #expect(outcomes.first?.sequence == 6)
    #expect(try await tree(target).at(Path("n")).childCount == 6)
    #expect(try server.place.files() == ["new", "newer.tar", "older.tar"])
  }

  @Test func `a login of the future in a backup is lowered, and does not make it unusable`()
    async throws
  {
    try await server.withStore { store in
      try await store.insertDeleted([], latestLogin: now / 1_000 + 100 * 86_400)
    }
    let outcomes = try await restore(try server.backUp())
    let store = try SQLiteStore(folder: target)
    #expect(try await store.latestDeletedLogin() == now / 1_000)
    #expect(try await store.problems(at: now).isEmpty)
    try store.close()
    #expect(outcomes.map(\.hadFutureLogin) == [true, false])
  }

  @Test func `a restored server goes on, and its next backup can be restored`() async throws {
    _ = try await restore(try server.backUp())
    let store = try SQLiteStore(folder: target)
    let last = try await store.tree().sequence
    #expect(last == 86_400_000_000)
    let next = Commit(
      sequence: last + 1, time: 7_000, assignments: [Assignment(try Location("n/7"), Node(7))])
    try store.append([next], after: last)
    try store.close()
    let maker = BackupMaker(
      folder: target, isServed: false, namespaces: { [] }, program: "canopy test",
      now: { 500_000_000 }, pace: .unlimited)
    let second = server.place.file("second.tar")
    _ = try maker.make(in: server.place.file(".work")) { _ in second }
    try FileManager.default.removeItem(atPath: target)
    _ = try await restore(second)
    #expect(try await tree(target).at(Path("n")).childCount == 7)
  }
}
