import CanopyRows
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

  /// Changes `canopy.tail` as if the system had been restarted since it was written.
  func restartSystem() throws {
    let file = URL(filePath: path + "/canopy.tail")
    var tail = try Data(contentsOf: file)
    // The boot follows the magic, the sequence, the checksum, the revision, the time and the mode.
    for offset in 48..<64 { tail[offset] = 9 }
    let checksum = Array(tail.prefix(64)).withUnsafeBytes { Checksum.xxh64($0, seed: 4) }
    withUnsafeBytes(of: checksum.littleEndian) { tail.replaceSubrange(64..<72, with: $0) }
    try tail.write(to: file)
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
