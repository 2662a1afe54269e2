public import CanopyTree
internal import Foundation
internal import GRDB

extension SQLiteStore {
  /// Folds the commits up to `sequence` into the leaves.
  ///
  /// Runs in steps of a few hundred rows, each a transaction of its own, between which appends go on.
  /// A step need not be on the disk when it ends (the next append puts it there, in order), so steps
  /// wait for no disk. When the process dies between two steps, the leaves are of mixed age; loading
  /// applies the commits since the last whole checkpoint, which are absolute, and that mends it.
  ///
  /// What was written is read from the journal, so that nothing has to be kept in memory for this while
  /// commits are made: their locations would take more of it than small posts. Nor is it all read at
  /// once: the commits are folded a portion at a time, and with each portion the checkpoint counts as
  /// one through its last commit. Every place that the portion wrote then has its value of `root`, which
  /// may be newer than that commit, and every other place has the value that it had, so the leaves are
  /// of mixed age still: nothing in them is older than the portion's last commit, and the commits after
  /// it mend the rest.
  public func checkpoint(
    _ root: Node, through sequence: Int64, resting rest: @Sendable () async throws -> Void
  ) async throws {
    var folded = try await pool.read { try SQLiteStore.checkpointSequence($0) }
    repeat {
      let (locations, end) = try await readPortion(after: folded, through: sequence, resting: rest)
      try await write(Fold(root: root, locations: locations), resting: rest)
      try await withoutSync { db in
        try db.execute(
          sql: "UPDATE meta SET value = ? WHERE name = 'checkpoint'", arguments: [end])
      }
      try await configuration.afterStep()
      folded = end
    } while folded < sequence
    try await dropCommits(upTo: sequence, resting: rest)
  }

  /// Reads what the next commits wrote: the locations in order, and the last of the commits.
  private func readPortion(
    after first: Int64, through last: Int64, resting rest: @Sendable () async throws -> Void
  ) async throws -> ([Location], end: Int64) {
    var portion = Portion(
      after: first, through: last, locationsMax: configuration.checkpointPortionLocations)
    while !portion.isWhole {
      let next = portion.nextCommits
      // Added here: what goes to another queue and back would be copied each time that it changes.
      portion.add(try await pool.read { try Portion.read($0, next) })
      try await rest()
    }
    return (portion.locations.sorted, portion.sequence)
  }

  /// Writes the rows of some locations, step by step.
  private func write(_ whole: Fold, resting rest: @Sendable () async throws -> Void) async throws {
    var fold = whole
    var isDone = false
    while !isDone {
      let step = fold
      (fold, isDone) = try await withoutSync { [rows = configuration.checkpointStepRows] db in
        var fold = step
        let isDone = try fold.step(db, rows: rows)
        return (fold, isDone)
      }
      try await configuration.afterStep()
      try await rest()
    }
  }

  /// A transaction that does not wait for the disk. Its effect is durable, and in order, with the next
  /// append: both are in the same write-ahead log.
  private func withoutSync<R: Sendable>(
    _ body: @escaping @Sendable (Database) throws -> R
  ) async throws -> R {
    try await pool.writeWithoutTransaction { [pragma = configuration.durability.pragma] db in
      try db.execute(sql: "PRAGMA synchronous = NORMAL")
      let result = Result {
        var result: R?
        try db.inTransaction(.immediate) {
          result = try body(db)
          return .commit
        }
        return result
      }
      try db.execute(sql: "PRAGMA synchronous = \(pragma)")
      guard let value = try result.get() else { throw CancellationError() }
      return value
    }
  }

  /// Drops commits that are in the checkpoint and that nobody is to resume from any more: from the
  /// oldest on, until one is to stay.
  private func dropCommits(
    upTo sequence: Int64, resting rest: @Sendable () async throws -> Void
  ) async throws {
    let kept = configuration.retainedCommits
    let span = configuration.retainedMilliseconds
    let end = try await pool.read { db -> Int64 in
      let last = try Row.fetchOne(
        db, sql: "SELECT sequence, time FROM commits ORDER BY sequence DESC LIMIT 1")
      guard let last else { return 0 }
      let (lastSequence, lastTime): (Int64, Int64) = (last[0], last[1])
      let first = try Int64.fetchOne(
        db,
        sql:
          "SELECT sequence FROM commits WHERE sequence > ? AND time >= ? ORDER BY sequence LIMIT 1",
        arguments: [max(0, lastSequence - kept), lastTime - min(span, lastTime)])
      // The last one stays in any case: the next keys are to sort after its time.
      return min(first ?? lastSequence, lastSequence, sequence + 1)
    }
    _ = try await withoutSync { db in
      let last = try Int64.fetchOne(
        db, sql: "SELECT time FROM commits ORDER BY sequence DESC LIMIT 1")
      if let last { try SQLiteStore.forgetClientWrites(db, at: last) }
    }
    var dropped = 1
    while dropped > 0 {
      dropped = try await withoutSync { db in
        try db.execute(
          sql: """
            DELETE FROM commits WHERE sequence IN (
              SELECT sequence FROM commits WHERE sequence < ? ORDER BY sequence LIMIT 1000)
            """, arguments: [end])
        return db.changesCount
      }
      try await rest()
    }
  }
}

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

/// The rows below a path: all whose texts begin with `path/`. `0` is the character after `/`.
struct RowsBelow {
  /// A condition of SQL.
  let condition: String
  /// Its arguments.
  let arguments: StatementArguments

  init(_ path: Path) {
    condition = path.isRoot ? "path >= :from" : "path >= :from AND path < :to"
    arguments = path.isRoot ? ["from": ""] : ["from": path.text + "/", "to": path.text + "0"]
  }

  /// Whether there is none, or none but those of priorities.
  func isEmpty(_ db: Database, butPriorities: Bool = false) throws -> Bool {
    let kind = butPriorities ? "AND substr(path, -9) <> '.priority'" : ""
    let statement = try db.cachedStatement(
      sql: "SELECT 1 FROM leaves WHERE \(condition) \(kind) LIMIT 1")
    return try Int.fetchOne(statement, arguments: arguments) == nil
  }
}

/// The rows that a subtree is stored in, one after the other.
struct RowEmitter {
  private var stack: [(location: Location, node: Node)]
  private let rowBytes: Int

  init(_ path: Path, _ node: Node, rowBytes: Int) {
    stack = node.isAbsent ? [] : [(Location(path), node)]
    self.rowBytes = rowBytes
  }

  mutating func next() -> (Location, Node)? {
    while let (location, node) = stack.popLast() {
      if node.isLeaf || node.fits(bytes: rowBytes) { return (location, node) }
      let start = stack.count
      node.forEachChild { key, child in
        stack.append((Location(location.path.child(key)), child))
        return true
      }
      if !node.priority.isAbsent {
        stack.append((Location(location.path, isPriority: true), node.priority))
      }
      stack[start...].reverse()
    }
    return nil
  }
}
