internal import CanopyAccounts

/// Token buckets of writes and of bytes, two for each owner: a user or a remote network.
///
///     var buckets = QuotaBuckets<Key>(.init(writes: 100, bytes: 262_144, burstSeconds: 20), ownersMax: 100_000)
///     buckets.wait(ada, now: 0)                // nil: there is room
///     buckets.charge(ada, bytes: 120, now: 0)
///
/// A bucket holds what `burstSeconds` restore. A write needs room for one write and one byte. Its bytes may exceed the
/// room; the owner then waits until the debt is paid, so that a write of the largest size is possible with any rate.
///
/// The number of owners is bounded. An owner is forgotten only when its buckets are full again, so it gains nothing. While
/// no remembered owner can be forgotten, all other owners share one pair of buckets, with whose level a new one begins.
///
/// A value-type state machine under a lock. O(1) for each operation. A clock that was set back restores nothing, and does
/// not extend a wait.
struct QuotaBuckets<Owner: Hashable & Sendable>: Sendable {
  /// The sizes of the buckets.
  struct Rates: Sendable {
    let writes: Int64
    let bytes: Int64
    let burstSeconds: Int64

    /// Creates rates for a second. Numbers are clamped such that no product overflows.
    init(writes: Int, bytes: Int, burstSeconds: Int) {
      self.writes = min(max(1, Int64(writes)), 1_000_000_000)
      self.bytes = min(max(1, Int64(bytes)), 1_000_000_000)
      self.burstSeconds = min(max(1, Int64(burstSeconds)), 1_000_000)
    }
  }

  /// The part of the buckets that is used up, in thousandths: a millisecond restores as many as a second restores writes.
  private struct Level: Sendable {
    var writes: Int64 = 0
    var bytes: Int64 = 0
    /// The milliseconds for which every write is refused, because a refusal has named this time.
    var hold: Int64 = 0
    /// The time of these numbers, in milliseconds since 1970.
    var at: Int64

    var isUnused: Bool { writes == 0 && bytes == 0 && hold == 0 }
  }

  /// The maximum of a level, which sums cannot overflow.
  private static var levelMax: Int64 { .max / 4 }

  private let rates: Rates
  private var levels: RecencyTable<Owner, Level>
  /// The buckets of all owners that are not remembered, while no remembered one can be forgotten.
  private var others = Level(at: 0)

  /// Creates full buckets for at most `ownersMax` remembered owners.
  init(_ rates: Rates, ownersMax: Int) {
    self.rates = rates
    levels = RecencyTable(capacity: ownersMax)
  }

  /// The number of remembered owners.
  var count: Int { levels.count }

  /// Returns the milliseconds to wait before a write, or nil if there is room now.
  func wait(_ owner: Owner, now: Int64) -> Int64? {
    let level = level(of: owner, now: now)
    let wait = max(
      level.hold, wait(level.writes, rates.writes), wait(level.bytes, rates.bytes))
    return wait > 0 ? wait : nil
  }

  /// Counts a write.
  ///
  /// - Parameter writes: 0 for further bytes of a write that was counted.
  mutating func charge(_ owner: Owner, writes: Int64 = 1, bytes: Int, now: Int64) {
    var level = level(of: owner, now: now)
    level.writes = Self.sum(level.writes, writes)
    level.bytes = Self.sum(level.bytes, max(0, Int64(bytes)))
    set(level, of: owner)
  }

  /// Refuses every write of an owner for the time until there is room, if there is none now. Further calls do not extend
  /// it.
  ///
  /// - Parameter waitMin: the shortest time in milliseconds.
  /// - Returns: the milliseconds to wait, or nil if there is room.
  mutating func refuse(_ owner: Owner, waitMin: Int64, now: Int64) -> Int64? {
    guard let wait = wait(owner, now: now) else { return nil }
    var level = level(of: owner, now: now)
    if level.hold == 0 { level.hold = max(wait, waitMin) }
    set(level, of: owner)
    return max(wait, level.hold)
  }

  private static func sum(_ level: Int64, _ units: Int64) -> Int64 {
    min(levelMax, level + min(units, levelMax / 1_000) * 1_000)
  }

  private func wait(_ level: Int64, _ rate: Int64) -> Int64 {
    let excess = level + 1_000 - rate * rates.burstSeconds * 1_000
    return excess <= 0 ? 0 : (excess + rate - 1) / rate
  }

  /// Returns the level of an owner. A new one begins with that of all owners that are not remembered, of whom it was one.
  private func level(of owner: Owner, now: Int64) -> Level {
    restored(levels[owner] ?? others, now)
  }

  private func restored(_ level: Level, _ now: Int64) -> Level {
    let (difference, overflow) = now.subtractingReportingOverflow(level.at)
    let elapsed = overflow ? (now < level.at ? 0 : .max) : max(0, difference)
    func rest(_ units: Int64, _ rate: Int64) -> Int64 {
      let (regained, overflow) = elapsed.multipliedReportingOverflow(by: rate)
      return overflow ? 0 : max(0, units - regained)
    }
    return Level(
      writes: rest(level.writes, rates.writes), bytes: rest(level.bytes, rates.bytes),
      hold: rest(level.hold, 1), at: now)
  }

  /// Whether a new owner can be remembered without forgetting one whose buckets are not full.
  private func hasRoom(_ now: Int64) -> Bool {
    guard levels.count >= levels.capacity, let oldest = levels.leastRecent else { return true }
    return restored(oldest, now).isUnused
  }

  private mutating func set(_ level: Level, of owner: Owner) {
    if levels[owner] != nil || hasRoom(level.at) {
      levels.set(level, for: owner)
    } else {
      others = level
    }
  }
}
