import Testing

@testable import CanopyBench

struct TimelineTests {
  private static let second: Int64 = 1_000_000_000

  @Test func `a second ends with the first reply after it, and an empty second counts`() {
    var timeline = Timeline()
    let start: Int64 = 5 * Self.second
    timeline.record(latency: 1_000_000, at: start)
    timeline.record(latency: 3_000_000, at: start + Self.second - 1)
    #expect(timeline.seconds.isEmpty)
    timeline.record(latency: 9_000_000, at: start + 2 * Self.second)
    #expect(timeline.seconds.map(\.operations) == [2, 0])
    #expect(timeline.seconds.map(\.millisecondsMax) == [3, 0])
    #expect(timeline.slowestSecond == 0)
  }

  @Test func `the longest stall is the longest time between two replies`() {
    var timeline = Timeline()
    #expect(timeline.millisecondsOfLongestStall == 0)
    for time: Int64 in [10, 12, 42, 43] { timeline.record(latency: 1, at: time * 1_000_000) }
    #expect(timeline.millisecondsOfLongestStall == 30)
  }

  @Test func `the slowest second is a share of the median second`() {
    var timeline = Timeline()
    var now: Int64 = 1
    for count: Int64 in [10, 5, 10] {
      for number in 0..<count { timeline.record(latency: 1, at: now + number) }
      now += Self.second
    }
    timeline.record(latency: 1, at: now)
    #expect(timeline.seconds.map(\.operations) == [10, 5, 10])
    #expect(timeline.medianSecond == 10)
    #expect(timeline.slowestSecond == 0.5)
  }

  @Test func `requests of a fixed rate have planned times`() {
    let rate = FixedRate(requestsPerSecond: 4, seconds: 2.5, seed: 1)
    #expect(rate.count == 10)
    #expect(rate.time(of: 0) == 0)
    #expect(rate.time(of: 4) == Self.second)
    #expect(rate.time(of: 9) == 2_250_000_000)
  }
}
