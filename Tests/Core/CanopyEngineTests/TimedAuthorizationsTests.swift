import CanopyTesting
import Testing

@testable import CanopyEngine

/// The times at which verdicts that depend on the time are repeated.
struct TimedAuthorizationsTests {
  @Test func `a listener is due when its interval has passed, and not before`() {
    var timed = TimedAuthorizations()
    timed.insert(1, at: 5_000)
    timed.insert(2, at: 5_500)
    #expect(timed.takeDue(at: 5_999) == [])
    #expect(timed.takeDue(at: 6_000) == [1])
    #expect(timed.takeDue(at: 6_000) == [])
    timed.insert(1, at: 6_000)
    #expect(timed.takeDue(at: 6_500) == [2])
    #expect(timed.takeDue(at: 7_000) == [1])
    #expect(timed.isEmpty)
  }

  @Test func `one commit takes a bounded number, the next one the others`() {
    var timed = TimedAuthorizations()
    let count = TimedAuthorizations.dueMax + 1
    for id in 0..<count { timed.insert(id, at: 0) }
    #expect(timed.takeDue(at: 1_000) == Array(0..<count - 1))
    #expect(timed.takeDue(at: 1_000) == [count - 1])
  }

  @Test func `a clock that was set back makes all due`() {
    var timed = TimedAuthorizations()
    timed.insert(1, at: 1_000_000)
    #expect(timed.takeDue(at: 999_999) == [1])
    timed.insert(1, at: 999_999)
    #expect(timed.takeDue(at: 1_000_000) == [])
  }

  @Test func `listeners that begin and end without commits leave a bounded number of entries`() {
    var timed = TimedAuthorizations()
    timed.insert(0, at: 0)
    for id in 1..<10_000 {
      timed.insert(id, at: 0)
      timed.remove(id)
      #expect(timed.entryCount <= 2 * 2 + 64)
    }
    #expect(timed.takeDue(at: 1_000) == [0])
  }
}
