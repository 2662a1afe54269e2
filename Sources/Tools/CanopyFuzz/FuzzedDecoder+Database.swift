internal import CanopyAccounts
internal import CanopyEngine
internal import CanopySQLite
internal import CanopyTesting
internal import CanopyTree
internal import Foundation

/// The rows of a database.
extension FuzzedDecoder {
  /// A data folder with changes. Four bytes are a change: the page, the offset in the page, and the bits that are inverted.
  /// With no bits, the whole page is zero; with all bits, the file ends before the page. The pages of the log are behind
  /// those of the file.
  static let database = FuzzedDecoder(
    name: "database",
    sources: [
      "Storage/CanopySQLite/Opening.swift", "Storage/CanopySQLite/Opening+Checks.swift",
      "Storage/CanopySQLite/Opening+Pages.swift", "Storage/CanopySQLite/Opening+Log.swift",
      "Storage/CanopySQLite/Opening+Definitions.swift",
      "Storage/CanopySQLite/DefinitionRepair.swift", "Storage/CanopySQLite/Meta.swift",
      "Storage/CanopySQLite/CommitRow.swift", "Storage/CanopySQLite/LeafTable.swift",
      "Storage/CanopySQLite/RowCheck.swift", "Storage/CanopySQLite/SealedTable.swift",
      "Storage/CanopySQLite/Repair.swift", "Storage/CanopySQLite/Salvage.swift",
      "Storage/CanopySQLite/SQLiteStore+Journal.swift",
      "Storage/CanopySQLite/SQLiteStore+Disconnect.swift",
      "Storage/CanopySQLite/SQLiteStore+History.swift",
      "Storage/CanopySQLite/SQLiteStore+Accounts.swift",
      "Storage/CanopySQLite/CheckpointBatch+Read.swift", "Storage/CanopySQLite/LogRepair.swift",
      "Storage/CanopySQLite/SQLiteStore+ClientWrites.swift",
      "Storage/CanopySQLite/ClientWriteBound+Read.swift",
      "Storage/CanopyRows/ClientWriteBound.swift", "Storage/CanopyRows/RowPipe.swift",
    ],
    suspendingCheck: { input in
      let base = try await BaseFolder.shared.value
      let folder = try base.copy(changedBy: input)
      let isServed = try await base.isServed(folder.path)
      try await base.checkRepair(of: folder.path)
      return isServed
    })
}

/// A data folder whose copies are changed.
private struct BaseFolder: Sendable {
  private static let pageBytes = 4_096
  private static let name = "canopy.sqlite"
  static let shared = Task { try await BaseFolder() }

  private let database: [UInt8]
  private let log: [UInt8]
  private let tail: [UInt8]
  private let root: Node

  private init() async throws {
    let folder = try TemporaryFolder()
    var configuration = SQLiteStore.Configuration()
    configuration.durability = .relaxed
    var store = try SQLiteStore(folder: folder.path, configuration: configuration)
    let state = try await store.load(keeping: IndexPlan())
    var tree = state.tree
    for number in 1...40 as ClosedRange<Int64> {
      var commit = Commit(
        sequence: number, time: 1_700_000_000_000 + number,
        assignments: [
          Assignment(
            try Location("posts/p\(number % 12)/text"),
            Node(String(repeating: "t\(number)", count: number == 8 ? 2_000 : 9)))
        ])
      commit.beforeImage = [Assignment(commit.assignments[0].location, .absent)]
      commit.origin = try WriteOrigin(client: "c\(number % 3)", number: number, seen: 0)
      try store.append([commit], after: number - 1)
      tree.apply(commit.assignments)
      guard number == 25 else { continue }
      try await store.checkpoint(tree.root, through: number) {}
      // The rest stays in the log.
      try store.close()
      store = try SQLiteStore(folder: folder.path, configuration: configuration)
    }
    for number in 0..<4 {
      _ = try await store.insert(
        Account(
          uid: "u\(number)", email: "u\(number)@example.org",
          emailNormalized: "u\(number)@example.org", username: "user\(number)",
          passwordHash: "", createdAt: 1_700_000_000_000), token: nil, loginTime: nil)
    }
    _ = try await store.changeDisconnectWrites(
      adding: ("administrator", "SET /gone 1"), to: nil, exceptions: [:], removing: [])
    func contents(_ name: String) throws -> [UInt8] {
      Array(try Data(contentsOf: URL(filePath: folder.file(name))))
    }
    root = tree.root
    (tail, database, log) = try (
      contents("canopy.tail"), contents(Self.name), contents(Self.name + "-wal")
    )
    try store.close()
  }

  /// Writes a copy that is changed as the input says.
  func copy(changedBy input: [UInt8]) throws -> TemporaryFolder {
    var files = [database, log]
    let pages = files.map { ($0.count + Self.pageBytes - 1) / Self.pageBytes }
    var rest = input[...]
    while let page = rest.popFirst(), let high = rest.popFirst(), let low = rest.popFirst(),
      let mask = rest.popFirst()
    {
      let number = Int(page) % (pages[0] + pages[1])
      let file = number < pages[0] ? 0 : 1
      let start = (number - file * pages[0]) * Self.pageBytes
      guard start < files[file].count else { continue }
      switch mask {
      case 0:
        let end = min(start + Self.pageBytes, files[file].count)
        files[file].replaceSubrange(start..<end, with: repeatElement(0, count: end - start))
      case 0xFF: files[file].removeSubrange(start...)
      default:
        let offset = start + (Int(high) << 8 | Int(low)) % Self.pageBytes
        if offset < files[file].count { files[file][offset] ^= mask }
      }
    }
    let folder = try TemporaryFolder()
    try Data(files[0]).write(to: URL(filePath: folder.file(Self.name)))
    try Data(files[1]).write(to: URL(filePath: folder.file(Self.name + "-wal")))
    try Data(tail).write(to: URL(filePath: folder.file("canopy.tail")))
    return folder
  }

  private func open(_ folder: String, acceptsLoss: Bool) throws -> SQLiteStore {
    var configuration = SQLiteStore.Configuration()
    // The log that is left is repaired first, if it may not be durable.
    configuration.durability = .full
    configuration.acceptsLoss = acceptsLoss
    configuration.keepsFormerFiles = false
    return try SQLiteStore(folder: folder, configuration: configuration)
  }

  /// Opens the folder and runs `body`. Returns nil if the folder is refused with an error for persons.
  private func withStore<R>(
    _ folder: String, acceptsLoss: Bool = false, _ body: (SQLiteStore) async throws -> R
  ) async throws -> R? {
    do {
      let store = try open(folder, acceptsLoss: acceptsLoss)
      let result: Result<R, any Error>
      do { result = .success(try await body(store)) } catch { result = .failure(error) }
      try store.close()
      return try result.get()
    } catch let error as StoreError {
      try expect(!error.sentence.isEmpty, "an error has no sentence")
      return nil
    } catch {
      // An error of SQLite itself, for a damaged page.
      try expect("\(type(of: error))" == "DatabaseError", "an error without a sentence: \(error)")
      return nil
    }
  }

  /// Whether the folder is opened, and has all data. Damaged data must not be served in silence.
  func isServed(_ folder: String) async throws -> Bool {
    let found = try await withStore(folder) { store in
      let root = try await store.load(keeping: IndexPlan()).tree.root
      for number in 0..<4 { _ = try? await store.account(uid: "u\(number)") }
      _ = try? await store.accounts(after: nil, limit: 10)
      _ = try? await store.disconnectWrites(after: 0, countMax: 10, bytesMax: 10_000)
      _ = try? await store.rulesRecord()
      _ = try? await store.history(after: 0, through: 40) { _ in true }
      try? await store.checkpoint(root, through: 40) {}
      return root
    }
    guard let found else { return false }
    try expect(found == root, "damaged data is served in silence")
    return true
  }

  /// Checks that a repaired folder has no problem left.
  func checkRepair(of folder: String) async throws {
    let losses = try await withStore(folder, acceptsLoss: true) { store in
      try await store.acceptLosses(at: 1_700_000_100_000)
    }
    guard losses != nil else { return }
    let problems = try await withStore(folder) { store in
      if let problem = try await store.load(keeping: IndexPlan()).tree.root.brokenInvariant() {
        throw Finding(description: problem)
      }
      return try await store.problems()
    }
    try expect(problems != nil, "a repaired folder is refused")
    try expect(problems ?? [] == [], "a repaired folder has problems: \(problems ?? [])")
  }
}
