import CanopyTesting
import Foundation
import GRDB

@testable import CanopySQLite

/// The pages of a database file by the tree that has them. The format is SQLite's: https://sqlite.org/fileformat2.html
struct DatabasePages {
  enum Kind: String, CaseIterable {
    case interior, leaf, overflow, listTrunk, listLeaf
  }

  struct Page {
    /// The number of the page, from 1.
    var number: Int
    var kind: Kind
    /// The name of the table or index; empty for a free page.
    var tree: String
    /// Whether it is the first page of its tree, without which no row of the tree can be found.
    var isRoot = false
    /// Whether the tree has the rows of a table.
    var isTable: Bool
    /// The number of rows that cannot be found without the page.
    var rows: Int
  }

  static let bytes = 4_096

  private let data: [UInt8]
  private(set) var pages: [Page] = []

  /// Reads a sound database without a log.
  init(_ folder: Folder) throws {
    data = [UInt8](try Data(contentsOf: URL(filePath: folder.database)))
    let trees = try folder.read { db in
      try Row.fetchAll(
        db, sql: "SELECT name, type, sql, rootpage FROM sqlite_schema WHERE rootpage > 0")
    }
    _ = add(1, "sqlite_schema", isTable: true)
    let names = trees.filter { $0["type"] as String == "table" }.map { $0["name"] as String }
    for tree in trees {
      let name: String = tree["name"]
      // Without rows of their own, a table is an index.
      _ = add(tree["rootpage"], name, isTable: names.contains(name))
      pages[pages.count - 1].isRoot = true
    }
    var trunk = word(32)
    while trunk > 0 {
      let start = (trunk - 1) * Self.bytes
      pages.append(Page(number: trunk, kind: .listTrunk, tree: "", isTable: false, rows: 0))
      for index in 0..<word(start + 4) {
        let leaf = word(start + 8 + 4 * index)
        pages.append(Page(number: leaf, kind: .listLeaf, tree: "", isTable: false, rows: 0))
      }
      trunk = word(start)
    }
  }

  private func word(_ offset: Int, _ bytes: Int = 4) -> Int {
    data[offset..<offset + bytes].reduce(0) { $0 << 8 | Int($1) }
  }

  /// Returns a number of one to nine bytes, and the offset behind it.
  private func variable(_ offset: Int) -> (Int, Int) {
    var (value, offset) = (0, offset)
    for _ in 0..<8 {
      value = value << 7 | Int(data[offset] & 0x7F)
      offset += 1
      if data[offset - 1] < 0x80 { return (value, offset) }
    }
    return (value << 8 | Int(data[offset]), offset + 1)
  }

  /// The offsets of the bytes of a page from its first row on.
  func places(in page: Page) -> [Int] {
    let start = (page.number - 1) * Self.bytes
    guard page.kind != .overflow else { return Array(start..<start + Self.bytes) }
    let isInterior = page.kind == .interior
    let cells = (0..<word(start + 3, 2)).map {
      start + word(start + (isInterior ? 12 : 8) + 2 * $0, 2)
    }
    return cells.min().map { Array($0..<start + Self.bytes) } ?? []
  }

  /// Adds a page and those below it. Returns the number of their rows.
  private mutating func add(_ number: Int, _ tree: String, isTable: Bool) -> Int {
    let start = (number - 1) * Self.bytes
    let head = number == 1 ? 100 : start
    let kind = data[head]
    let isInterior = kind == 2 || kind == 5
    let count = word(head + 3, 2)
    var rows = kind == 5 ? 0 : count
    for index in 0..<count {
      var cell = start + word(head + (isInterior ? 12 : 8) + 2 * index, 2)
      if isInterior {
        rows += add(word(cell), tree, isTable: isTable)
        cell += 4
      }
      if kind != 5 { addOverflow(cell, kind, tree, isTable: isTable) }
    }
    if isInterior { rows += add(word(head + 8), tree, isTable: isTable) }
    pages.append(
      Page(
        number: number, kind: isInterior ? .interior : .leaf, tree: tree, isTable: isTable,
        rows: isTable ? rows : 0))
    return rows
  }

  private mutating func addOverflow(_ cell: Int, _ kind: UInt8, _ tree: String, isTable: Bool) {
    var (size, payload) = variable(cell)
    if kind == 13 { payload = variable(payload).1 }
    let usable = Self.bytes
    let most = kind == 13 ? usable - 35 : (usable - 12) * 64 / 255 - 23
    guard size > most else { return }
    let least = (usable - 12) * 32 / 255 - 23
    size = least + (size - least) % (usable - 4)
    var next = word(payload + (size <= most ? size : least))
    while next > 0 {
      pages.append(
        Page(number: next, kind: .overflow, tree: tree, isTable: isTable, rows: isTable ? 1 : 0))
      next = word((next - 1) * Self.bytes)
    }
  }
}

extension Folder {
  /// Reads a database, and changes nothing.
  func read<R>(hasLog: Bool = false, _ body: (Database) throws -> R) throws -> R {
    let opening = Opening(folder: path, configuration: .init(), tail: nil)
    let pool = try opening.readingPool(hasLog: hasLog)
    let result = Result { try pool.unsafeRead(body) }
    try pool.close()
    return try result.get()
  }
}
