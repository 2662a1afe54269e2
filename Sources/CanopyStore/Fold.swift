internal import CanopyTree
internal import GRDB

/// The writing of one portion of a checkpoint: what is left to do of it.
///
/// Each location that the portion's commits wrote is one of these cases:
/// - A row stands at the path or above it: that row's whole subtree is written anew, in one piece,
///   as it also holds what was not written since.
/// - Otherwise the path's own subtree is: its rows go, then come anew, in as many pieces as it takes.
///   Should the process die in between, the commit that wrote the path is still in the journal and
///   repairs it.
/// - For a priority, without such a row: only the row of the priority.
///
/// Nothing else changes: when a write takes a branch's last child, and with it the priority that the
/// branch has in a row of its own, `Tree.apply` names the branch as removed.
struct Fold {
  /// Bytes of JSON up to which a subtree is one row, when rows are split; an existing row may grow to
  /// twice that.
  static let rowBytes = 8 * 1024

  private let root: Node
  /// What was written, in order, none below another. Not changed, so that a copy of this is cheap.
  private let locations: [Location]
  /// The first of them that is to be done.
  private var next = 0
  /// The number of keys in the path of the row that was found last.
  private var rowDepth = 0
  /// A path at and above which there was no row.
  private var rowless: Path?
  /// Where there was no row when it was looked.
  private var gap: RowGap?
  private var clearing: RowsBelow?
  private var emitting: RowEmitter?
  private var waiting: RowEmitter?
  /// The row that was written anew last; what else was written below it is in there, too.
  private var rewritten: Path?

  /// - Parameter locations: what was written, in order, none at or below another.
  init(root: Node, locations: [Location]) {
    self.root = root
    self.locations = locations
  }

  /// Writes some rows. Returns whether nothing is left to do.
  mutating func step(_ db: Database, rows: Int) throws -> Bool {
    var budget = rows
    while budget > 0 {
      if var emitter = emitting {
        while budget > 0 {
          guard let (location, node) = emitter.next() else { break }
          try Fold.put(db, location, node)
          budget -= 1
        }
        emitting = budget > 0 ? nil : emitter
      } else if let rows = clearing {
        let cleared = try Fold.clear(db, rows, limit: budget)
        if cleared < budget {
          clearing = nil
          emitting = waiting
        }
        budget -= max(1, cleared)
      } else if next < locations.count {
        next += 1
        budget -= 1 + (try begin(db, locations[next - 1]))
      } else {
        return true
      }
    }
    return false
  }

  /// Begins with a location, or does all of it. Returns the rows that this wrote.
  private mutating func begin(_ db: Database, _ location: Location) throws -> Int {
    let path = location.path
    if let rewritten, path.hasPrefix(rewritten) { return 0 }
    let isFree = try !location.isPriority && isFree(db, path)
    if let covering = try coveringRow(db, path, butAbove: isFree) {
      rewritten = covering
      return try rewrite(db, covering)
    }
    if location.isPriority {
      return try Fold.putPriority(db, path, root.at(path))
    }
    let rows = RowsBelow(path)
    let emitter = RowEmitter(path, root.at(path), rowBytes: Fold.rowBytes)
    // Found out for a fraction of what removing none costs.
    if try isFree || rows.isEmpty(db) {
      emitting = emitter
    } else {
      clearing = rows
      waiting = emitter
    }
    return 0
  }

  private func rewrite(_ db: Database, _ path: Path) throws -> Int {
    let node = root.at(path)
    let isWhole = node.fits(bytes: Fold.rowBytes * 2)
    if !isWhole || node.isAbsent {
      try db.cachedStatement(sql: "DELETE FROM leaves WHERE path = ?")
        .execute(arguments: [path.text])
    }
    var emitter = RowEmitter(
      path, node, rowBytes: isWhole ? Fold.rowBytes * 2 : Fold.rowBytes)
    var count = 0
    while let (location, node) = emitter.next() {
      try Fold.put(db, location, node)
      count += 1
    }
    return count
  }

  private static func putPriority(_ db: Database, _ path: Path, _ node: Node) throws -> Int {
    let location = Location(path, isPriority: true)
    if node.priority.isAbsent {
      try db.cachedStatement(sql: "DELETE FROM leaves WHERE path = ?")
        .execute(arguments: [location.text])
    } else {
      try put(db, location, node.priority)
    }
    return 1
  }

  private static func put(_ db: Database, _ location: Location, _ node: Node) throws {
    let statement = try ByteStatement(
      db, "INSERT INTO leaves VALUES (?, ?) ON CONFLICT DO UPDATE SET value = excluded.value")
    var output = JSONOutput(capacity: 1024)
    output.append(node, style: .export)
    var text = location.text
    try text.withUTF8 { text in
      try output.withBytes { value in
        try statement.bind(UnsafeRawBufferPointer(text), at: 1)
        try statement.bind(value, at: 2)
        try statement.run()
      }
    }
  }

  private static func hasRow(_ db: Database, at path: Path) throws -> Bool {
    let statement = try ByteStatement(db, "SELECT 1 FROM leaves WHERE path = ?")
    var text = path.text
    return try text.withUTF8 { text in
      try statement.bind(UnsafeRawBufferPointer(text), at: 1)
      defer { statement.end() }
      return try statement.next()
    }
  }

  /// Whether it is certain that no row stands at or below a path. What is new mostly comes behind all
  /// of its neighbours, so that one look for the next row serves many.
  private mutating func isFree(_ db: Database, _ path: Path) throws -> Bool {
    guard !path.isRoot else { return false }
    let text = Array(path.text.utf8)
    if let gap, gap.holds(text) { return true }
    let statement = try db.cachedStatement(
      sql: "SELECT path FROM leaves WHERE path >= ? ORDER BY path LIMIT 1")
    let gap = RowGap(
      from: text, to: try String.fetchOne(statement, arguments: [path.text]).map { Array($0.utf8) })
    self.gap = gap
    return gap.holds(text)
  }

  /// The path at or above the given one at which a row stands. There is at most one, and mostly as
  /// deep as the last: so that is tried first. Where it is known that there is none above, because the
  /// location before was a neighbour, it is not asked again.
  ///
  /// - Parameter isFree: whether there is none at the path itself.
  private mutating func coveringRow(
    _ db: Database, _ path: Path, butAbove isFree: Bool
  ) throws -> Path? {
    let last = isFree ? path.count - 1 : path.count
    var first = 0
    if let rowless {
      first = zip(rowless.keys, path.keys).prefix { $0 == $1 }.count + 1
    }
    guard first <= last else {
      if isFree { rowless = path }
      return nil
    }
    let likely = first...last ~= rowDepth ? rowDepth : first
    for count in [likely] + (first...last).reversed().filter({ $0 != likely }) {
      let candidate = path.prefix(count)
      if try Fold.hasRow(db, at: candidate) {
        rowDepth = count
        rowless = count > 0 ? path.prefix(count - 1) : nil
        return candidate
      }
    }
    rowless = path
    return nil
  }

  private static func clear(_ db: Database, _ rows: RowsBelow, limit: Int) throws -> Int {
    try db.cachedStatement(
      sql: """
        DELETE FROM leaves WHERE path IN (SELECT path FROM leaves WHERE \(rows.condition) LIMIT :limit)
        """
    ).execute(arguments: rows.arguments + ["limit": limit])
    return db.changesCount
  }
}

/// A stretch of the table in which there is no row but those that the fold wrote since. They do not matter
/// to a location that it comes to later: none of its locations is at or below another.
struct RowGap {
  /// The first text that no row has, in bytes, as SQLite compares them.
  let from: [UInt8]
  /// The next row; nil where there is none.
  let to: [UInt8]?

  /// Whether all the texts are in there that begin with `path/`, and that of the path itself.
  func holds(_ path: [UInt8]) -> Bool {
    guard !path.lexicographicallyPrecedes(from) else { return false }
    guard let to else { return true }
    return !to.lexicographicallyPrecedes(path + [UInt8(ascii: "0")])
  }
}
