import CanopyTesting
import Testing

@testable import CanopyBackup

/// The choice of old backups that are not needed, for right and wrong clocks.
@Suite struct BackupRetentionTests {
  private func backup(_ seconds: Int64) -> StoredBackup {
    StoredBackup(kind: .scheduled, time: 1_000 * seconds, sequence: 1, bytes: 1)
  }

  private func unneeded(
    _ old: [Int64], new: Int64, kept: Int, every: Duration? = nil
  ) -> [Int64] {
    BackupRetention(kept: kept, every: every, now: 1_000 * new)
      .unneeded(of: old.map(backup), beside: backup(new)).map { $0.time / 1_000 }
  }

  @Test func `with a right clock the newest are kept`() {
    for kept in 1...4 {
      for every in [nil, .seconds(1), .seconds(1_000)] as [Duration?] {
        for count in 0...6 as ClosedRange<Int64> {
          let old = Array(0..<count)
          #expect(
            unneeded(old, new: count, kept: kept, every: every) == Array(old.dropLast(kept - 1)))
        }
      }
    }
  }

  @Test func `the newest up to the present time are always kept, and the others have a bound`() {
    // Each set of backups at the seconds 0 to 7, for each present time between them.
    for bits in 0..<256 {
      for new in 0...7 as ClosedRange<Int64> {
        let old = (0..<8 as Range<Int64>).filter { bits >> $0 & 1 == 1 && $0 != new }
        for kept in 1...4 {
          for every in [nil, .seconds(1), .seconds(3), .seconds(100)] as [Duration?] {
            let removed = unneeded(old, new: new, kept: kept, every: every)
            let left = old.filter { !removed.contains($0) }
            let past = left.filter { $0 < new }
            #expect(past == Array(old.filter { $0 < new }.suffix(kept - 1)))
            let future = left.filter { $0 > new }
            #expect(future == Array(old.filter { $0 > new }.suffix(future.count)))
            #expect(future.count <= kept)
            if past.count < kept - 1 {
              #expect(future == Array(old.filter { $0 > new }.suffix(kept)))
            }
            if every == nil, past.count == kept - 1 { #expect(future.isEmpty) }
          }
        }
      }
    }
  }

  @Test func `a clock that each start sets back removes no good backup in favour of new ones`() {
    let good: [Int64] = [100_000, 200_000, 300_000]
    var stored = good
    // Each start makes a backup within the first minute of 1970.
    for start in 1...50 as ClosedRange<Int64> {
      let removed = unneeded(stored, new: start, kept: 3, every: .seconds(86_400))
      stored = (stored.filter { !removed.contains($0) } + [start]).sorted()
    }
    #expect(stored == [48, 49, 50] + good)
    // The clock is right again.
    let removed = unneeded(stored, new: 400_000, kept: 3, every: .seconds(86_400))
    #expect(removed == [48, 49, 50, 100_000])
  }

  @Test(arguments: [-1_000_000, 1_000_000] as [Int64])
  func `after the clock was wrong, a whole set of later backups takes the place of the others`(
    error: Int64
  ) {
    var stored: [Int64] = []
    func make(_ seconds: Int64) {
      let removed = unneeded(stored, new: seconds, kept: 3, every: .seconds(10))
      stored = (stored.filter { !removed.contains($0) } + [seconds]).sorted()
    }
    for number in 1...5 as ClosedRange<Int64> { make(2_000_000 + 10 * number) }
    for number in 6...10 as ClosedRange<Int64> { make(2_000_000 + 10 * number + error) }
    for number in 11...13 as ClosedRange<Int64> { make(2_000_000 + 10 * number) }
    #expect(stored == [2_000_110, 2_000_120, 2_000_130])
  }
}
