internal import CanopyEngine
internal import CanopyRows
internal import CanopyTree
internal import Foundation
internal import GRDB

/// The removal of the commits that a damaged folder cannot use.
///
/// The commits after the checkpoint are kept up to the first that is missing or altered. This needs the number of the
/// checkpoint. If that is lost, or the rows of the checkpoint do not have their sum:
/// - If no commit is missing up to the last one that was stored, all are applied again. They are absolute, so they
///   change nothing in rows that contain them, and replace the values of rows that are older.
/// - Otherwise the commits before a gap would take back what the commits in the gap have changed. So only those are
///   applied that the checkpoint does not contain, and those before them without a gap. If the number of the checkpoint is
///   lost, its values tell which commits it contains: see `CheckpointAge`.
///
/// The number of the checkpoint can be an older one with a right checksum, if the disk has lost the write of its page. If
/// the first commits after it are missing, a later checkpoint has probably removed them, and the values count as well.
/// Otherwise the number counts: the rows also have values of later commits if a checkpoint was interrupted.
struct CommitRepair {
  let db: Database
  let tail: Tail?

  /// Removes the commits, and gives the others a chain of their own. Returns a description of each loss.
  ///
  /// - Parameters:
  ///   - meta: gets the number of the checkpoint and the beginning of the chain.
  ///   - isTrusted: whether the numbers of `meta` have the checksum that was stored with them.
  ///   - hasLostRows: whether rows of the checkpoint are missing or older.
  func run(_ meta: inout Meta, isTrusted: Bool, hasLostRows: Bool) throws -> [String] {
    if isTrusted, !hasLostRows { return try repair(&meta) }
    var notes = isTrusted ? [] : ["the numbers of the checkpoint and its sums"]
    let bounds = try Row.fetchOne(db, sql: "SELECT min(sequence), max(sequence) FROM commits")
    if let first = bounds?.number(0), let last = bounds?.number(1) {
      notes += try applyAgain(first...last, &meta, isTrusted: isTrusted, hasLostRows: hasLostRows)
    } else if isTrusted {
      notes += try repair(&meta)
    } else {
      notes.append("all commits after the checkpoint, whose number is unknown")
      meta[.checkpoint] = max(0, meta[.checkpoint])
      try keep(meta[.checkpoint] + 1, through: meta[.checkpoint], &meta)
    }
    return notes
  }

  private func repair(_ meta: inout Meta) throws -> [String] {
    let checkpoint = meta[.checkpoint]
    // The two commits before the first one that is kept prove it, even if the checksum of one of them was altered.
    let begin = max(meta[.base], checkpoint - 2)
    let commits = try provenCommits(
      after: begin, begin == meta[.base] ? [meta.baseChecksum] : [], isCertain: true)
    let end = commits.end(ofRunWith: checkpoint + 1)
    var notes = unprovenNotes(commits, in: checkpoint + 1..<end + 1)
    if let last = commits.last, end < last {
      notes.append("the commits from \(end + 1) to \(last)")
    } else if commits.wrongChecksums > 0 {
      notes.append("the checksum of a commit, which is written again")
    }
    if (try? alteredBefore(meta)) ?? true {
      notes.append(
        "the commits up to \(checkpoint), kept only for clients that resume; the checkpoint has their values"
      )
    }
    if !notes.isEmpty { try keep(checkpoint + 1, through: end, &meta) }
    return notes
  }

  /// Keeps the commits that must be applied again.
  ///
  /// - Parameter found: the numbers of the first and the last commit.
  private func applyAgain(
    _ found: ClosedRange<Int64>, _ meta: inout Meta, isTrusted: Bool, hasLostRows: Bool
  ) throws -> [String] {
    let first = found.lowerBound
    // The rows have the values of this commit and of those before it, and perhaps of later ones.
    let known = isTrusted ? meta[.checkpoint] : first - 1
    let last = max(found.upperBound, tail?.sequence ?? 0, meta.lastCommit, known)
    var notes: [String] = []
    if !isTrusted, first > 1, meta[.base] != first - 1 {
      notes.append("the commits before \(first), unless the checkpoint contains them")
    }
    let commits = try provenCommits(
      after: first - 1, [meta.baseChecksum, Checksum()],
      isCertain: first == 1 || isTrusted && meta[.base] == first - 1)
    var reached = known
    var run = commits.run(at: known)
    if run?.upperBound != last, !isTrusted || first - 1 > known {
      // The age needs valid sums.
      meta[.checkpoint] = known
      try meta.write(db)
      meta = try Meta.readUnchecked(db)
      // Only commits of the checkpoint are removed from the beginning of the journal. So if more are missing there, the
      // number is probably an older one.
      let least = max(known, first - 1)
      let age = try CheckpointAge(db: db).newestCommit(of: commits, orElse: least)
      if age > known {
        reached = age
        run = commits.run(at: age)
        let reason = age > least ? "it has values of commit \(age)" : "all earlier ones are missing"
        notes += gaps(in: commits, known + 1..<last + 1).filter { $0.upperBound <= age }
          .prefix(10).map {
            "\(text($0)), which the checkpoint seems to contain, because \(reason); if not, "
              + "the values that they changed are older"
          }
      }
    }
    // Without a gap, or if the number of the checkpoint is right, earlier commits take back no value.
    let takesNothingBack = run?.upperBound == last || reached == known
    let begin = takesNothingBack ? run?.lowerBound ?? reached + 1 : reached + 1
    let end = run?.upperBound ?? reached
    if hasLostRows, begin <= end { notes.append(try lossOfRows(from: begin)) }
    if end < last {
      notes.append(
        "\(text(end + 1...last)); the values that they changed may be those of earlier commits")
    }
    notes += unprovenNotes(commits, in: begin..<end + 1)
    try keep(begin, through: end, &meta)
    return notes
  }

  /// Returns a description of the values that are lost with rows of the checkpoint, though commits are applied again.
  private func lossOfRows(from first: Int64) throws -> String {
    guard first > 1 else {
      return "only the stored form of these rows: the commits from the first on have all values, "
        + "and are applied again"
    }
    let time = try Int64.fetchOne(
      db, sql: "SELECT time FROM commits WHERE sequence = ?", arguments: [first])
    let date = Date(timeIntervalSince1970: Double(time ?? 0) / 1_000).formatted(.iso8601)
    return "the values of these rows that were last written before commit \(first) of \(date); "
      + "the commits from it on are applied again"
  }

  private func text(_ range: ClosedRange<Int64>) -> String {
    "the commits from \(range.lowerBound) to \(range.upperBound)"
  }

  private func provenCommits(
    after begin: Int64, _ checksums: [Checksum], isCertain: Bool
  ) throws -> ProvenCommits {
    var commits = ProvenCommits(after: begin, checksums, isCertain: isCertain)
    let rows = try Row.fetchCursor(
      db, sql: "SELECT \(CommitRow.columns) FROM commits WHERE sequence > ? ORDER BY sequence",
      arguments: [begin])
    while let row = try rows.next() { _ = try commits.add(row) }
    commits.end(tail)
    return commits
  }

  /// Returns the ranges of the commits that are not proven.
  private func gaps(in commits: ProvenCommits, _ range: Range<Int64>) -> [ClosedRange<Int64>] {
    var gaps: [ClosedRange<Int64>] = []
    var next = range.lowerBound
    for run in commits.runs {
      if next < run.lowerBound { gaps.append(next...run.lowerBound - 1) }
      next = max(next, run.upperBound + 1)
    }
    if next < range.upperBound { gaps.append(next...range.upperBound - 1) }
    return gaps
  }

  private func unprovenNotes(_ commits: ProvenCommits, in range: Range<Int64>) -> [String] {
    commits.unproven.filter(range.contains).map {
      "the proof that commit \($0) is as it was stored, because the one before it is missing; it is kept"
    }
  }

  /// Removes the commits outside of a range, and begins the chain with it.
  private func keep(_ first: Int64, through last: Int64, _ meta: inout Meta) throws {
    try db.execute(
      sql: "DELETE FROM commits WHERE sequence < ? OR sequence > ?", arguments: [first, last])
    meta[.checkpoint] = first - 1
    meta[.base] = first - 1
    meta.baseChecksum = Checksum()
    var checksum = Checksum()
    var next = first
    while let row = try Row.fetchOne(
      db, sql: "SELECT \(CommitRow.columns) FROM commits WHERE sequence = ?", arguments: [next])
    {
      checksum = try CommitRow.checksum(row, after: checksum).checksum
      try db.execute(
        sql: "UPDATE commits SET checksum = ? WHERE sequence = ?",
        arguments: [checksum.stored, next])
      next += 1
    }
  }

  /// Whether a commit that is in the checkpoint already was altered.
  private func alteredBefore(_ meta: Meta) throws -> Bool {
    var (last, checksum) = (meta[.base], meta.baseChecksum)
    let rows = try Row.fetchCursor(
      db, sql: "SELECT \(CommitRow.columns) FROM commits WHERE sequence <= ? ORDER BY sequence",
      arguments: [meta[.checkpoint]])
    while let row = try rows.next() {
      guard row.number(0) == last + 1 else { return true }
      checksum = try CommitRow.check(row, after: checksum)
      last += 1
    }
    return last != meta[.checkpoint]
  }
}

/// The age of a checkpoint whose number is lost or may be an older one, by its values.
///
/// Each location that a commit writes has a vote: for a newer checkpoint if the checkpoint has the new value there, and for
/// an older one if it has the value from before. So commits that take each other back have no votes together. The
/// result is the first commit up to which the most votes agree, because some values are written more than once.
struct CheckpointAge {
  let db: Database

  /// Returns the newest proven commit that the checkpoint seems to contain, or `none` if it seems to contain none.
  ///
  /// Precondition: `meta` has the sums of the rows of the checkpoint. O(size of the checkpoint and the commits).
  func newestCommit(of commits: ProvenCommits, orElse none: Int64) throws -> Int64 {
    let root = try SQLiteStore.readLeaves(db)
    var (votes, most, newest) = (0, 0, none)
    var hasLastValue: [Location: Bool] = [:]
    for run in commits.runs {
      let rows = try Row.fetchCursor(
        db,
        sql: """
          SELECT \(CommitRow.columns) FROM commits WHERE sequence BETWEEN ? AND ?
          ORDER BY sequence
          """, arguments: [run.lowerBound, run.upperBound])
      while let row = try rows.next() {
        let commit = try CommitRow.commit(row)
        let image = (try? CommitRow.commitAndImage(row))?.beforeImage
        votes += vote(commit.assignments, image, root, &hasLastValue)
        if votes > most { (most, newest) = (votes, commit.sequence) }
      }
    }
    return newest
  }

  /// Returns the number of votes of a commit for a newer checkpoint, less those for an older one.
  ///
  /// - Parameter hasLastValue: whether the checkpoint has the value of the last commit before that has written a
  ///   location. It counts if a commit has no before-image.
  private func vote(
    _ assignments: [Assignment], _ image: [Assignment]?, _ root: Node,
    _ hasLastValue: inout [Location: Bool]
  ) -> Int {
    let before = image.map { image in
      Dictionary(image.map { ($0.location, $0.value) }) { _, last in last }
    }
    var vote = 0
    for assignment in assignments where !assignment.location.isPriority {
      let location = assignment.location
      let found = root.at(location.path)
      let hasNewValue = found == assignment.value
      let hasOldValue =
        before?[location].map { $0 == found } ?? hasLastValue[location] ?? !hasNewValue
      hasLastValue[location] = hasNewValue
      vote += (hasNewValue ? 1 : 0) - (hasOldValue ? 1 : 0)
    }
    return vote
  }
}
