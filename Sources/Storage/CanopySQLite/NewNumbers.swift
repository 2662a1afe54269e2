internal import CanopyEngine
internal import CanopyRows
internal import CanopyTree
internal import GRDB
internal import Logging
internal import Synchronization

/// The sequence numbers after an event that may have undone commits: a restore, a new namespace in place of a removed
/// one, an accepted loss, or a loss of power after relaxed writes.
///
/// Clients have seen the undone commits, and their number is unknown. A new commit with the number of such a
/// commit would let a client resume as if it had all earlier changes. So the numbers continue at a number that depends on
/// the time: it grows faster than any server makes commits.
///
///     NewNumbers.start(after: 5, at: 1_577_836_801_000)   // 1_000_000: one second after the beginning of 2020
///
/// Today such a number is about 2e14. The integers of JavaScript, up to 9e15, suffice until the year 2305.
///
/// Caveat: numbers can repeat if the clock was wrong at one of two events and the first one is not in the data, as when a
/// backup is restored twice.
enum NewNumbers {
  /// The beginning of 2020, in milliseconds since 1970.
  private static let epoch: Int64 = 1_577_836_800_000

  /// The numbers for each millisecond, which are more than a server can use.
  private static let perMillisecond: Int64 = 1_000

  /// The least distance to the last known number if the clock is behind the numbers.
  static let gap: Int64 = 1_000_000_000_000

  /// Returns the number after which the journal continues. It is greater than `last`.
  ///
  /// If the clock is behind the numbers, another clock was ahead. Then the number is `last` with a distance that also
  /// depends on the time, so that two restores of one backup do not continue with the same number.
  ///
  /// - Parameters:
  ///   - last: the greatest number that is known.
  ///   - now: the time in milliseconds since 1970.
  static func start(after last: Int64, at now: Int64) -> Int64 {
    let milliseconds = min(max(0, now), 1 << 48) - epoch
    let timed = max(0, milliseconds) * perMillisecond
    guard timed <= last else { return timed }
    return min(last + gap + timed % gap, SequenceRange.max)
  }
}

extension SQLiteStore {
  /// Continues with new sequence numbers if the commits may not be the ones that clients have seen. Call after opening a
  /// folder for a server, before the journal is loaded.
  ///
  /// This is so after a loss of power with relaxed durability, without `canopy.tail`, as in an unpacked backup, and for a
  /// namespace that is used for the first time. All clients that resume then get the whole state. O(size) in these cases.
  ///
  /// - Parameter now: the time in milliseconds since 1970.
  public func beginNewNumbersIfNeeded(at now: Int64) async throws {
    guard tailFile.has(.newNumbers) else { return }
    let state = try await load(keeping: IndexPlan())
    let sequence = try await beginNewNumbers(
      state, state.tree.root, replacing: LocationSet(), after: state.sequence, at: now)
    configuration.logger.notice(
      "the commits continue with new numbers, and clients that resume get the present state",
      metadata: ["seq": "\(sequence)"])
  }

  /// Makes a tree the checkpoint of an empty journal, which continues with new numbers: see `begin`.
  ///
  /// - Returns: the number of the checkpoint.
  /// - Throws: `StoreError.damaged` if a number is so great that only damage explains it.
  @discardableResult
  func beginNewNumbers(
    _ state: JournalState, _ root: Node, replacing replaced: LocationSet, after last: Int64,
    at now: Int64
  ) async throws -> Int64 {
    let known = max(last, state.sequence, foundTail?.tail.sequence ?? 0)
    let sequence = NewNumbers.start(after: known, at: now)
    guard sequence <= SequenceRange.max - NewNumbers.gap else {
      throw StoreError.damaged(
        "\(folder) has the number \(known) of a commit, after which there are too few numbers for new ones, so it was "
          + "altered on the disk: restore the data folder from a backup")
    }
    try await begin(state, root, replacing: replaced, at: sequence) { _ in }
    // Only now: a crash before this leaves the mark, and the next start continues with other numbers again.
    tailFile.set(.newNumbers, false)
    tailFile.write(tail.withLock { $0 })
    return sequence
  }
}

extension SQLiteStore {
  /// Whether the commits that were found may not be the last ones that clients have seen.
  ///
  /// - Parameter isNew: whether this opening has made the tables.
  func needsNewNumbers(isNew: Bool) throws -> Bool {
    if configuration.requiresNewNumbers { return true }
    if try pool.read({ try Meta.readUnchecked($0).needsNewNumbers }) { return true }
    // Also without commits: another copy of the folder may have made the first ones.
    guard let contents = foundTail else { return !isNew }
    return contents.needsNewNumbers || contents.allowsLoss
  }
}
