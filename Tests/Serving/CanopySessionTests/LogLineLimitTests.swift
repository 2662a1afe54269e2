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
