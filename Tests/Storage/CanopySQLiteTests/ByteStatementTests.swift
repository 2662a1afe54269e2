import Foundation
import GRDB
import Testing

@testable import CanopySQLite

/// Statements whose values are passed as bytes.
struct ByteStatementTests {
  private func withTable(_ body: (Database) throws -> Void) throws {
    try DatabaseQueue().write { db in
      try db.execute(sql: "CREATE TABLE t(n INTEGER PRIMARY KEY, a TEXT, b TEXT) STRICT")
      try body(db)
    }
  }

  private func insert(_ db: Database, _ number: Int64, _ a: String, _ b: String?) throws {
    let statement = try ByteStatement(db, "INSERT INTO t VALUES (?, ?, ?)")
    try statement.bind(number, at: 1)
    try Array(a.utf8).withUnsafeBytes { a in
      try Array((b ?? "").utf8).withUnsafeBytes { text in
        try statement.bind(a, at: 2)
        if b == nil { try statement.bindNull(at: 3) } else { try statement.bind(text, at: 3) }
        try statement.run()
      }
    }
  }

  @Test func `texts, empty texts, nulls and numbers are read as they were written`() throws {
    try withTable { db in
      try insert(db, 1, "é\u{0}\u{1F333}", nil)
      try insert(db, .max, "", "")
      try insert(db, .min, String(repeating: "x", count: 100_000), "b")
      let rows = try Row.fetchAll(db, sql: "SELECT * FROM t ORDER BY n")
      #expect(rows.map { $0["n"] as Int64 } == [.min, 1, .max])
      #expect(rows.map { $0["b"] as String? } == ["b", nil, ""])
      #expect(rows[0]["a"] as String == String(repeating: "x", count: 100_000))
      #expect(rows[2]["a"] as String == "")
      let read = try ByteStatement(db, "SELECT n, a, b FROM t ORDER BY n")
      var texts: [(Int64, String, Int)] = []
      while try read.next() {
        texts.append(
          (read.number(0), String(decoding: read.text(1), as: UTF8.self), read.text(2).count))
      }
      #expect(texts.map(\.0) == [.min, 1, .max] && texts.map(\.2) == [1, 0, 0])
      #expect(texts[1].1 == "é\u{0}\u{1F333}")
    }
  }

  @Test func `an error of the database is thrown, and the next run succeeds`() throws {
    try withTable { db in
      try insert(db, 1, "a", nil)
      let error = #expect(throws: DatabaseError.self) { try insert(db, 1, "b", nil) }
      #expect(error?.resultCode == .SQLITE_CONSTRAINT)
      #expect(error?.message?.contains("UNIQUE") == true)
      try insert(db, 2, "b", nil)
      #expect(try Int.fetchOne(db, sql: "SELECT count(*) FROM t") == 2)
      #expect(throws: DatabaseError.self) { try ByteStatement(db, "SELECT * FROM nothing") }
      #expect(throws: DatabaseError.self) {
        try ByteStatement(db, "SELECT * FROM t WHERE n = ?").bind(1, at: 2)
      }
    }
  }

  @Test func `a run that was ended early starts again`() throws {
    try withTable { db in
      for i in 1...3 { try insert(db, Int64(i), "a", nil) }
      let first = try ByteStatement(db, "SELECT n FROM t ORDER BY n")
      #expect(try first.next() && first.next() && first.number(0) == 2)
      let again = try ByteStatement(db, "SELECT n FROM t ORDER BY n")
      #expect(try again.next() && again.number(0) == 1)
      again.end()
      // No open statement prevents it.
      try db.execute(sql: "DROP TABLE t")
      try db.execute(sql: "CREATE TABLE t(n INTEGER)")
    }
  }
}
