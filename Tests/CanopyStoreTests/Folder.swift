import CanopyStore
import Foundation

/// A folder of a test's own, gone when the test is.
final class Folder: Sendable {
  let path: String

  init() throws {
    let url = FileManager.default.temporaryDirectory
      .appending(path: "canopy-test-\(UUID().uuidString)")
    try FileManager.default.createDirectory(at: url, withIntermediateDirectories: false)
    path = url.path
  }

  deinit {
    try? FileManager.default.removeItem(atPath: path)
  }

  /// The database file.
  var database: String { path + "/canopy.sqlite" }

  /// Opens the folder while `body` uses it.
  func withStore<R>(
    _ configuration: SQLiteStore.Configuration = .init(),
    isolation: isolated (any Actor)? = #isolation, _ body: (SQLiteStore) async throws -> R
  ) async throws -> R {
    let store = try SQLiteStore(folder: path, configuration: configuration)
    let result: Result<R, any Error>
    do { result = .success(try await body(store)) } catch { result = .failure(error) }
    try store.close()
    return try result.get()
  }

  /// A folder with a copy of the database as it is on the disk now: what a crash would leave.
  func crashed() throws -> Folder {
    let copy = try Folder()
    for suffix in ["", "-wal"] where FileManager.default.fileExists(atPath: database + suffix) {
      try FileManager.default.copyItem(atPath: database + suffix, toPath: copy.database + suffix)
    }
    return copy
  }
}
