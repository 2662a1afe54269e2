import CanopySQLite
import CanopyTesting
import Foundation

typealias Folder = TemporaryFolder

extension TemporaryFolder {
  /// The database file.
  var database: String { path + "/canopy.sqlite" }

  /// Opens the folder, runs `body`, and closes it.
  @discardableResult
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

  /// Returns a folder with copies of the current files, as a crash would leave them.
  func crashed() throws -> Folder {
    let copy = try Folder()
    // The tail first: it may be older than the other files, but not newer.
    for name in ["canopy.tail", "canopy.sqlite", "canopy.sqlite-wal"]
    where FileManager.default.fileExists(atPath: path + "/" + name) {
      try FileManager.default.copyItem(
        atPath: path + "/" + name, toPath: copy.path + "/" + name)
    }
    return copy
  }
}
