internal import CanopyEngine
internal import CanopyRows
internal import CanopyTree
internal import GRDB
internal import Synchronization

extension SQLiteStore {
  /// Lets keys continue at the present time if a clock was ahead, so that earlier keys or commits have later times.
  ///
  /// Otherwise new keys go on after the latest one, and the built-in rules deny keys that are far ahead. Later times of
  /// posts stay as they are, so these posts come first in lists until that time. The journal is emptied and continues with
  /// new numbers, because the times of its commits must ascend. O(size) if there are later times.
  ///
  /// Not atomic: for a copy of a folder that is not in use yet.
  ///
  /// - Parameter now: the present time in milliseconds since 1970.
  /// - Returns: the time of the latest key or commit; nil if it is not later than `now`. Then nothing is changed.
  public func lowerKeyTime(to now: Int64) async throws -> Int64? {
    var state = try await load(keeping: IndexPlan())
    let latest = max(state.lastTime ?? 0, tail.withLock(\.time))
    guard latest > now else { return nil }
    state.lastTime = now
    let lastCommit = try await pool.read { try Meta.read($0).lastCommit }
    try await beginNewNumbers(
      state, state.tree.root, replacing: LocationSet(), after: lastCommit, at: now)
    try await writeDurably { db, tail in
      var meta = try Meta.read(db)
      meta[.keyTime] = now
      try meta.write(db)
      tail.time = now
    }
    return latest
  }
}
