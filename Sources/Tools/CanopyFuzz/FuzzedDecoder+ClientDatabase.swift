internal import CanopyClient
internal import CanopyTesting
internal import CanopyTree
internal import Foundation

/// The database of a client.
extension FuzzedDecoder {
  /// A file with changes. Four bytes are a change: the page, the offset in the page, and the bits that are inverted; with
  /// no bits, the whole page is zero.
  static let clientDatabase = FuzzedDecoder(
    name: "client-database",
    sources: [
      "Client/CanopyClient/Persistence/SQLitePersistence.swift",
      "Client/CanopyClient/Persistence/StoredLeaves.swift",
      "Client/CanopyClient/Persistence/PersistenceSchema.swift",
    ]
  ) { input in
    let base = try ClientFile.shared.get()
    let folder = try TemporaryFolder()
    let path = folder.file("client.sqlite")
    try Data(base.changed(by: input)).write(to: URL(filePath: path))
    do {
      let store = try SQLitePersistence(path: path, bytesMax: 4_096)
      defer { try? store.close() }
      let state = try store.load()
      var tree = SyncTree(restoring: state)
      _ = tree.purgeWrites()
      // The bound on the size makes it drop data, and so read the sizes of all.
      _ = try store.record(ClientFile.changes(from: state.lastWrite.number + 1))
      return true
    } catch let error as PersistenceError {
      try expect(!error.description.isEmpty, "an error has no sentence")
      return false
    } catch {
      // An error of SQLite itself, for a damaged page.
      try expect("\(type(of: error))" == "DatabaseError", "an error without a sentence: \(error)")
      return false
    }
  }
}

/// A database with pending writes and queries.
private struct ClientFile {
  private static let pageBytes = 4_096
  static let shared = Result { try ClientFile() }

  private let bytes: [UInt8]

  private init() throws {
    let folder = try TemporaryFolder()
    let path = folder.file("client.sqlite")
    let store = try SQLitePersistence(path: path, bytesMax: 1 << 20)
    _ = try store.record(Self.changes(from: 0))
    try store.close()
    bytes = Array(try Data(contentsOf: URL(filePath: path)))
  }

  static func changes(from number: Int64) throws -> [StateChange] {
    let spec = QuerySpec(try Path("posts"))
    let node = try Node(json: #"{"a":{"t":"text",".priority":1},"b":[1,2,3],"c":true}"#)
    return [
      .writeAdded(
        WriteID(number),
        try Write.set(Location("posts/a"), WriteValue(json: #"{".sv":"timestamp"}"#)),
        milliseconds: 1_700_000_000_000),
      .writeAdded(
        WriteID(number + 1), try Write.set(Location("b/c"), WriteValue(node)),
        milliseconds: 1_700_000_000_000),
      .received(spec, [Assignment(.root, node)], sequence: 7), .listening(spec, true),
      .kept(spec, number == 0),
    ]
  }

  func changed(by input: [UInt8]) -> [UInt8] {
    var result = bytes
    var rest = input[...]
    while let page = rest.popFirst(), let high = rest.popFirst(), let low = rest.popFirst(),
      let mask = rest.popFirst()
    {
      let start = Int(page) % max(1, bytes.count / Self.pageBytes) * Self.pageBytes
      if mask == 0 {
        let end = min(start + Self.pageBytes, bytes.count)
        result.replaceSubrange(start..<end, with: repeatElement(0, count: end - start))
      } else {
        let offset = start + (Int(high) << 8 | Int(low)) % Self.pageBytes
        if offset < result.count { result[offset] ^= mask }
      }
    }
    return result
  }
}
