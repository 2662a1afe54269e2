internal import CanopyRows
internal import GRDB

/// The commits whose contents are proven, found in one walk through the journal.
///
/// Each checksum covers the checksum of the commit before. So a commit is proven if its checksum follows from that one,
/// or if the checksum of the next commit follows from its contents: then only its own checksum was altered.
struct ProvenCommits {
  /// The numbers of these commits, in ranges without gaps, in ascending order.
  private(set) var runs: [ClosedRange<Int64>] = []
  /// The first commits of runs for which no commit before is there to prove them. They are in `runs`.
  private(set) var unproven: [Int64] = []
  /// The number of commits whose own checksum was altered.
  private(set) var wrongChecksums = 0
  /// The number of the last commit that was added, proven or not; nil before the first.
  private(set) var last: Int64?

  /// The number of the commit before the next one.
  private var reached: Int64
  /// The checksums that this commit may have: the stored one, and those that its contents give.
  private var previous: [Checksum]
  /// Whether the checksum of the last commit did not follow from the one before.
  private var isInDoubt = false
  /// Whether the checksum before the first commit is known.
  private let isFirstCertain: Bool

  /// Begins a walk.
  ///
  /// - Parameters:
  ///   - sequence: the number of the commit before the first one.
  ///   - checksums: the checksums that this commit may have; empty if they are unknown.
  ///   - isCertain: whether one of them is right.
  init(after sequence: Int64, _ checksums: [Checksum], isCertain: Bool) {
    reached = sequence
    previous = checksums
    isFirstCertain = isCertain
  }

  /// Adds the next row, which has the columns of `CommitRow`. O(bytes).
  ///
  /// - Returns: whether its number is above that of the row before. Otherwise the table is damaged, and the row is left out.
  mutating func add(_ row: Row) throws -> Bool {
    let sequence = row.number(0) ?? 0
    // No server reaches the last number, and a number follows each commit.
    guard sequence > reached, sequence < .max else { return false }
    let stored = Checksum(stored: row.number(4) ?? 0)
    let isFirst = last == nil
    if sequence != reached + 1 { (previous, isInDoubt) = ([], false) }
    (reached, last) = (sequence, sequence)
    guard (try? CommitRow.commit(row)) != nil else {
      (previous, isInDoubt) = ([stored], false)
      return true
    }
    let computed = try previous.map { try CommitRow.checksum(row, after: $0).checksum }
    let index = computed.firstIndex(of: stored)
    guard !previous.isEmpty, index != nil || !isFirst || isFirstCertain else {
      unproven.append(sequence)
      keep(sequence)
      previous = [stored]
      return true
    }
    guard let index else {
      isInDoubt = true
      previous = [stored] + computed.prefix(2)
      return true
    }
    if isInDoubt, index > 0 { keepDoubted(sequence - 1) }
    keep(sequence)
    (previous, isInDoubt) = ([stored], false)
    return true
  }

  /// Ends the walk.
  ///
  /// - Parameter tail: the end of the stored data, which proves the last commit.
  mutating func end(_ tail: Tail?) {
    guard let last, let tail, isInDoubt, tail.sequence == last,
      previous.dropFirst().contains(tail.checksum)
    else { return }
    keepDoubted(last)
  }

  private mutating func keepDoubted(_ sequence: Int64) {
    wrongChecksums += 1
    keep(sequence)
  }

  private mutating func keep(_ sequence: Int64) {
    if let run = runs.last, run.upperBound + 1 == sequence {
      runs[runs.count - 1] = run.lowerBound...sequence
    } else {
      runs.append(sequence...sequence)
    }
  }

  /// Returns the run that has a commit or begins with the next one; nil if there is none.
  func run(at sequence: Int64) -> ClosedRange<Int64>? {
    runs.first { $0.contains(sequence) || $0.lowerBound == sequence + 1 }
  }

  /// Returns the last commit of the run that has a commit, or the number before that commit if no run has it.
  func end(ofRunWith sequence: Int64) -> Int64 {
    runs.first { $0.contains(sequence) }?.upperBound ?? sequence - 1
  }
}
