import CanopyAccounts
import CanopyEngine
import CanopySQLite
import CanopyTesting
import CanopyTree
import CanopyWire
import Foundation
import Synchronization

@testable import CanopyBackup

/// A data folder with two namespaces, and the makers of its backups.
struct Server {
  let folder: TemporaryFolder
  /// The place for backups outside of the data folder.
  let place: TemporaryFolder
  /// The time in milliseconds since 1970.
  let clock = ManualClock()
  static let shop = try? NamespaceName("shop")

  init() throws {
    folder = try TemporaryFolder()
    place = try TemporaryFolder()
    try SQLiteStore(folder: folder.path).close()
    try write("{\"rules\":{}}", "rules.json")
    try write("secret keys", "identity-keys")
    try write("secret token", "admin-token")
    let shop = try SQLiteStore(folder: shopFolder)
    try shop.append([commit(1, "item", Node("hat"))], after: 0)
    try shop.close()
    try write("{\"rules\":{\"a\":{}}}", "namespaces/shop/rules.json")
  }

  var shopFolder: String { folder.file("namespaces/shop") }

  func write(_ text: String, _ name: String) throws {
    try Data(text.utf8).write(to: URL(filePath: folder.file(name)))
  }

  func maker(
    isServed: Bool, pace: BackupPace = .unlimited, space: BackupSpace = .unbounded,
    fileProblem: @escaping @Sendable (String, [UInt8]) -> String? = { _, _ in nil }
  ) throws -> BackupMaker {
    let shop = try NamespaceName("shop")
    return BackupMaker(
      folder: folder.path, isServed: isServed,
      namespaces: { [shopFolder] in [(shop, shopFolder)] }, program: "canopy test",
      now: { [clock] in clock.now }, pace: pace, space: space, fileProblem: fileProblem)
  }

  /// Makes a backup, and returns its path.
  @discardableResult
  func backUp(
    _ name: String = "a.tar", isServed: Bool = false,
    progress: (BackupProgress) throws -> Void = { _ in }
  ) throws -> String {
    try maker(isServed: isServed).make(in: place.file(".work")) { _ in
      place.file(name)
    } progress: {
      try progress($0)
    }.path
  }

  func withStore<R>(
    isolation: isolated (any Actor)? = #isolation, _ body: (SQLiteStore) async throws -> R
  ) async throws -> R {
    let store = try SQLiteStore(folder: folder.path)
    let result: Result<R, any Error>
    do { result = .success(try await body(store)) } catch { result = .failure(error) }
    try store.close()
    return try result.get()
  }
}

/// Returns a commit that sets one location, with its before-image.
func commit(_ sequence: Int64, _ location: String, _ value: Node) throws -> Commit {
  Commit(
    sequence: sequence, time: 1_000 * sequence,
    assignments: [Assignment(try Location(location), value)],
    beforeImage: [Assignment(try Location(location), .absent)])
}

extension Account {
  static let ada = Account(
    uid: "uid-ada", email: "ada@example.org", emailNormalized: "ada@example.org",
    username: "ada", passwordHash: "hash", createdAt: 5)
}

/// A value that several threads change.
final class Shared<Value: Sendable>: Sendable {
  private let mutex: Mutex<Value>

  init(_ value: Value) { mutex = Mutex(value) }

  var value: Value { mutex.withLock { $0 } }

  func change(_ body: (inout Value) -> Void) { mutex.withLock { body(&$0) } }
}
