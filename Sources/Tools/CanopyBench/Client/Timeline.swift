import Histogram

/// The results of a run, second by second.
struct Timeline {
  /// The results of one second.
  struct Second: Codable, Equatable {
    var operations: Int
    var millisecondsP50: Double
    var millisecondsP99: Double
    /// The longest latency of a reply in this second.
    var millisecondsMax: Double
  }

  /// The complete seconds.
  private(set) var seconds: [Second] = []
  /// The longest time without a reply, in nanoseconds.
  private(set) var longestStall: Int64 = 0
  private var start: Int64?
  private var lastReply: Int64 = 0
  private var latencies = Self.noLatencies
  private var longestLatency: Int64 = 0

  private static var noLatencies: Histogram<UInt64> {
    Histogram(highestTrackableValue: 60_000_000_000, numberOfSignificantValueDigits: .two)
  }

  /// Notes a reply.
  ///
  /// - Parameters:
  ///   - latency: its latency in nanoseconds.
  ///   - now: the time of its arrival. Precondition: not before that of an earlier call.
  mutating func record(latency: Int64, at now: Int64) {
    assert(now >= lastReply, "a reply arrives before an earlier one")
    let start = start ?? now
    self.start = start
    while now - start >= Int64(seconds.count + 1) * 1_000_000_000 { endSecond() }
    if lastReply > 0 { longestStall = max(longestStall, now - lastReply) }
    lastReply = now
    latencies.record(UInt64(max(1, latency)))
    longestLatency = max(longestLatency, latency)
  }

  private mutating func endSecond() {
    func milliseconds(_ percentile: Double) -> Double {
      Double(latencies.valueAtPercentile(percentile)) / 1e6
    }
    let count = Int(latencies.totalCount)
    seconds.append(
      Second(
        operations: count, millisecondsP50: count == 0 ? 0 : milliseconds(50),
        millisecondsP99: count == 0 ? 0 : milliseconds(99),
        millisecondsMax: Double(longestLatency) / 1e6))
    latencies.reset()
    longestLatency = 0
  }
}

extension Timeline {
  var millisecondsOfLongestStall: Double { Double(longestStall) / 1e6 }

  /// The operations of the median second.
  var medianSecond: Double { median(seconds.map { Double($0.operations) }) }

  /// The operations of the slowest second, as a share of those of the median second.
  var slowestSecond: Double {
    guard medianSecond > 0, let least = seconds.map(\.operations).min() else { return 0 }
    return Double(least) / medianSecond
  }
}
