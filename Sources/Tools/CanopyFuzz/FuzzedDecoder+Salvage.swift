internal import CanopySQLite

/// The pages of a damaged database, read without SQLite.
extension FuzzedDecoder {
  /// The inner pages and the leaf pages of a table. The first two bytes of an input say which table, and where its log
  /// begins; the rest are the pages after the first one, and the frames of the log.
  static let salvage = FuzzedDecoder(
    name: "salvage",
    sources: [
      "Storage/CanopySQLite/SalvagePages.swift", "Storage/CanopySQLite/SalvageKey.swift",
    ]
  ) { input in
    guard input.count >= 2 else { return false }
    return try ScratchFolder.withFolder { folder in
      try SalvageCheck(input, in: folder).run()
    }
  }

  /// The first bytes of a database file.
  static let databaseHead = FuzzedDecoder(
    name: "database-head", sources: ["Storage/CanopySQLite/DatabaseHead.swift"]
  ) { input in
    try ScratchFolder.withFolder { folder in
      // The bytes as they are, and as the first ones of a page of this program.
      _ = try checkHead(input, in: folder)
      var page = DatabasePage.first(pageBytes: 4_096)
      for (index, byte) in input.enumerated() where index < page.count { page[index] ^= byte }
      return try checkHead(page, in: folder)
    }
  }

  /// Checks that a head is corrected at most once, and that a correction can be undone. Returns whether the head is sound.
  private static func checkHead(_ bytes: [UInt8], in folder: ScratchFolder) throws -> Bool {
    let path = folder.path + "/canopy.sqlite"
    try folder.write(bytes, to: "canopy.sqlite")
    let head = try DatabaseHead(path)
    _ = head.isInLogMode
    try expect(head.isEmpty == bytes.isEmpty, "the size of the file is read wrongly")
    try expect(!head.isSound || head.isDatabase, "a sound head is not that of a database")
    for isInLog in [false, true] {
      guard let page = head.corrected(isInLog: isInLog) else { continue }
      try expect(DatabaseHead.isFirstPage(page), "the corrected page is not a first page")
      try head.replace(by: page)
      let corrected = try DatabaseHead(path)
      try expect(corrected.isSound, "the corrected head is not sound")
      try expect(
        corrected.corrected(isInLog: isInLog) == nil, "the corrected head is corrected again")
      head.restore()
      try expect(try DatabaseHead(path) == head, "the head is not restored")
    }
    return head.isSound
  }
}

/// Pages in the format of SQLite.
enum DatabasePage {
  /// Returns the first page of a database of this program without tables.
  static func first(pageBytes: Int) -> [UInt8] {
    var page = Array("SQLite format 3\0".utf8)
    page += [UInt8(truncatingIfNeeded: pageBytes >> 8), UInt8(truncatingIfNeeded: pageBytes)]
    page += [2, 2, 0, 64, 32, 32]
    page += [UInt8](repeating: 0, count: pageBytes - page.count)
    // The number of pages, and that of the program, which is `CANP`.
    page[31] = 1
    page.replaceSubrange(68..<72, with: Array("CANP".utf8))
    return page
  }
}

/// A check of the pages of one table.
private struct SalvageCheck {
  private static let pageBytes = 512

  private let hasNumbers: Bool
  private let least: SalvageKey
  private let path: String
  /// The pages in the file and in the log.
  private let pageCount: Int

  /// Writes the file and its log.
  init(_ input: [UInt8], in folder: ScratchFolder) throws {
    let kinds: [SalvageKey] = [
      [.number(.min)], [.text([])], [.text([]), .number(.min)], [.blob([]), .text([])],
    ]
    let kind = Int(input[0] & 7)
    hasNumbers = kind == 0
    least = kind == 0 ? kinds[0] : kinds[kind % kinds.count]
    path = folder.path + "/canopy.sqlite"
    let pages = min(Int(input[1]), input.count / Self.pageBytes + 1)
    let rest = Array(input.dropFirst(2))
    let inFile = Self.whole(rest.prefix(pages * Self.pageBytes))
    try folder.write(DatabasePage.first(pageBytes: Self.pageBytes) + inFile, to: "canopy.sqlite")
    // The salts are zero. A frame has a head of 24 bytes.
    let frames = Array(rest.dropFirst(pages * Self.pageBytes))
    try folder.write(
      frames.isEmpty ? [] : [UInt8](repeating: 0, count: 32) + frames, to: "canopy.sqlite-wal")
    pageCount = inFile.count / Self.pageBytes + frames.count / (Self.pageBytes + 24)
  }

  private static func whole(_ bytes: ArraySlice<UInt8>) -> [UInt8] {
    bytes + [UInt8](repeating: 0, count: (pageBytes - bytes.count % pageBytes) % pageBytes)
  }

  /// Returns whether a row was found.
  func run() throws -> Bool {
    guard let pages = SalvagePages(path: path) else {
      throw Finding(description: "the file is not opened")
    }
    let leaves = pages.leaves(root: 2, hasNumbers: hasNumbers, least: least)
    // A page of 512 bytes has at most 250 cells.
    try expect(leaves.count <= 1 + 251 * pageCount, "too many leaves: \(leaves.count)")
    try expect(
      Set(leaves.map(\.page)).count == leaves.count, "a leaf page is found more than once")
    try checkOrder(leaves.compactMap(\.low))
    var rows = 0
    for leaf in leaves {
      let keys = pages.keys(of: leaf, hasNumbers: hasNumbers, least: least)
      try expect(keys.count <= 252, "a page has too many rows: \(keys.count)")
      try checkOrder(keys)
      rows += keys.count
    }
    return rows > 0
  }

  /// Checks that keys have the columns of the table, and are in order.
  private func checkOrder(_ keys: [SalvageKey]) throws {
    for key in keys {
      try expect(
        key.count == least.count && zip(key, least).allSatisfy { $0.isLike($1) },
        "a key has other columns: \(key)")
    }
    for (one, next) in zip(keys, keys.dropFirst()) {
      try expect(!SalvageRange.precedes(next, one), "keys are not in order: \(one), \(next)")
    }
  }
}
