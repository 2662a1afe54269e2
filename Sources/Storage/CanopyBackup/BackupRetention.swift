/// The choice of the old backups of one kind that are not needed beside a new one.
///
/// The newest backups up to the present time are kept, as many as a setting says. A backup with a later time was made while
/// the clock was ahead, or the clock is behind now, and nothing shows which. Such backups do not count, so they never take
/// the place of others. They go when there is a whole set of others.
///
/// Caveat: a machine without a clock of its own can begin each start with the same time, and the schedule makes a backup at
/// each start then. So a set of the schedule must also be half as long as the schedule makes it, before it replaces
/// backups that may be the good ones. Until then as many of these are kept as of the others.
struct BackupRetention {
  /// The number of backups to keep, with the new one.
  let kept: Int
  /// The time between two backups of the schedule; nil for backups of requests.
  let every: Duration?
  /// The present time in milliseconds since 1970.
  let now: Int64

  /// Returns the backups that are not needed.
  ///
  /// - Parameter old: the backups of the kind besides the new one, the oldest first.
  func unneeded(of old: [StoredBackup], beside new: StoredBackup) -> [StoredBackup] {
    let later = old.filter { $0.time > now }
    let others = old.filter { $0.time <= now }
    let rest = max(0, kept - 1)
    return Array(later.dropLast(isWhole(others.suffix(rest), beside: new) ? 0 : max(1, kept)))
      + others.dropLast(rest)
  }

  /// Whether there are as many backups as are kept, and those of the schedule are from a long enough time.
  private func isWhole(_ others: ArraySlice<StoredBackup>, beside new: StoredBackup) -> Bool {
    guard others.count >= kept - 1 else { return false }
    guard let every, let first = others.first else { return true }
    return Duration.milliseconds(new.time - first.time) / others.count * 2 >= every
  }
}
