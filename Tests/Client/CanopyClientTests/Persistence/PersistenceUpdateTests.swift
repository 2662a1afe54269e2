import CanopyTesting
import CanopyTree
import Foundation
import GRDB
import Testing

@testable import CanopyClient

/// The first start with a file that an earlier version of the library has written.
struct PersistenceUpdateTests {
  /// The file of a process with the library of commit e908d58f. The process listened to `/weather`, wrote three times
  /// without a reply, and was killed.
  private static let first = #"""
    PRAGMA journal_mode = wal;
    PRAGMA application_id = 1128353347;
    BEGIN;
    CREATE TABLE grdb_migrations (identifier TEXT NOT NULL PRIMARY KEY);
    CREATE TABLE writes(
      id INTEGER PRIMARY KEY, milliseconds INTEGER NOT NULL) STRICT;
    CREATE TABLE write_items(
      write INTEGER NOT NULL, position INTEGER NOT NULL, location TEXT NOT NULL,
      value TEXT NOT NULL, PRIMARY KEY(write, position)) STRICT, WITHOUT ROWID;
    CREATE TABLE queries(
      id INTEGER PRIMARY KEY AUTOINCREMENT, path TEXT NOT NULL, options TEXT NOT NULL,
      sequence INTEGER, used INTEGER NOT NULL, is_kept INTEGER NOT NULL,
      bytes INTEGER NOT NULL, UNIQUE(path, options)) STRICT;
    CREATE TABLE leaves(
      query INTEGER NOT NULL, path TEXT NOT NULL, value TEXT NOT NULL,
      PRIMARY KEY(query, path)) STRICT, WITHOUT ROWID;
    DELETE FROM sqlite_sequence;
    INSERT INTO grdb_migrations VALUES('1');
    INSERT INTO writes VALUES(1,1795952613217);
    INSERT INTO writes VALUES(2,1795952613217);
    INSERT INTO writes VALUES(3,1795952613218);
    INSERT INTO write_items VALUES(1,0,'pending/text','{".value":"é",".priority":2}');
    INSERT INTO write_items VALUES(2,0,'pending/n1','{".sv":{"increment":1}}');
    INSERT INTO write_items VALUES(3,0,'pending/n2','{".sv":{"increment":1}}');
    INSERT INTO queries VALUES(1,'weather','{"version":1}',2,1,1,98);
    INSERT INTO sqlite_sequence VALUES('queries',1);
    INSERT INTO leaves VALUES(1,'mon/.priority','2');
    INSERT INTO leaves VALUES(1,'mon/mm','11');
    INSERT INTO leaves VALUES(1,'mon/sky','"rain"');
    INSERT INTO leaves VALUES(1,'tue/mm','0');
    INSERT INTO leaves VALUES(1,'tue/sky','"fog"');
    INSERT INTO leaves VALUES(1,'wed/mm','4');
    INSERT INTO leaves VALUES(1,'wed/note','"the gauge \"overflowed\" é"');
    CREATE INDEX queries_by_use ON queries(used);
    COMMIT;
    """#

  private let folder: TemporaryFolder
  private var file: String { folder.file("client.sqlite") }

  init() throws {
    folder = try TemporaryFolder()
    let queue = try DatabaseQueue(path: file)
    try queue.writeWithoutTransaction { try $0.execute(sql: Self.first) }
    try queue.close()
  }

  @Test func `the pending writes and the data of a file of the first version are there`() throws {
    for _ in 0..<2 {
      let store = try SQLitePersistence(path: file)
      let saved = try store.load()
      #expect(saved.writes.map(\.id) == [WriteID(1), WriteID(2), WriteID(3)])
      #expect(saved.writes.first?.milliseconds == 1_795_952_613_217)
      let items = saved.writes.flatMap(\.write.items)
      #expect(items.map(\.location.text) == ["pending/text", "pending/n1", "pending/n2"])
      #expect(items.map(\.value.serverValues.count) == [0, 1, 1])
      #expect(items.first?.value.node == (try value(#"{".value":"é",".priority":2}"#)))
      let weather = try #require(saved.queries[try QuerySpec("weather")])
      #expect(saved.queries.count == 1 && weather.sequence == 2)
      let expected = #"""
        {"mon":{"mm":11,"sky":"rain",".priority":2},"tue":{"mm":0,"sky":"fog"},
        "wed":{"mm":4,"note":"the gauge \"overflowed\" é"}}
        """#
      #expect(weather.node == (try value(expected)))
      try store.close()
    }
  }

  @Test func `the number of a write is not used again after the update`() throws {
    var store = try SQLitePersistence(path: file)
    #expect(try store.load().lastWrite == WriteID(3))
    _ = try store.record((1...3).map { .writeRemoved(WriteID($0)) })
    try store.close()
    store = try SQLitePersistence(path: file)
    var tree = SyncTree(restoring: try store.load())
    #expect(tree.write(try Write.set(Location("a"), WriteValue(1)), at: 0).id == WriteID(4))
    try store.close()
  }

  private func value(_ json: String) throws -> Node { try WriteValue(json: json).node }
}
