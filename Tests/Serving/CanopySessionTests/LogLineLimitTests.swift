import CanopyTesting
import Logging
import Synchronization
import Testing

@testable import CanopySession

struct LogLineLimitTests {
  @Test func `after a minute's lines there is one a second, with the number of omitted ones`() {
    var lines = LogLineLimit()
    for _ in 0..<LogLineLimit.linesMax { #expect(lines.take(now: 1_000) == 0) }
    #expect(lines.take(now: 1_000) == nil)
    #expect(lines.take(now: 1_999) == nil)
    #expect(lines.take(now: 2_000) == 2)
    #expect(lines.take(now: 2_000) == nil)
    #expect(lines.take(now: 3_000) == 1)
    #expect(lines.take(now: 4_000) == 0)
  }
}

struct EndedConnectionLinesTests {
  @Test func `the lines of all kinds have one bound, and the next one counts the omitted ones`() {
    let time = Mutex<Int64>(1_000)
    let log = LineLog()
    let lines = EndedConnectionLines { time.withLock { $0 } }
    for number in 0..<LogLineLimit.linesMax + 3 {
      lines.add(number % 2 == 0 ? "cut off" : "ended", ["from": "\(number)"], to: log.logger)
    }
    #expect(log.lines.count == LogLineLimit.linesMax)
    #expect(log.lines.allSatisfy { !$0.contains("suppressed") })
    time.withLock { $0 = 2_000 }
    lines.add("cut off", ["from": "last"], to: log.logger)
    lines.add("cut off", ["from": "none"], to: log.logger)
    #expect(log.lines.count == LogLineLimit.linesMax + 1)
    #expect(log.lines.last?.contains("last") == true)
    #expect(log.lines.last?.contains(#""suppressed": 3"#) == true)
    time.withLock { $0 = 60_000 }
    lines.add("ended", [:], to: log.logger)
    #expect(log.lines.last?.contains(#""suppressed": 1"#) == true)
    lines.add("ended", [:], to: log.logger)
    #expect(log.lines.last?.contains("suppressed") == false)
  }
}
