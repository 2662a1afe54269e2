import CEpoll
import Foundation
import Histogram

/// The load of a server in one round.
struct Round {
  var mix: Mix
  /// The number of requests in flight on each connection.
  var depth = 1
  var warmUpSeconds: Double
  var seconds: Double
  /// The number of posts at the start.
  var posts: Int
  var seed: UInt64
  /// The rate at which requests are sent; nil if each reply makes its user send the next one.
  var requestsPerSecond: Double?
  /// Whether the sample gets the results of each second. With a fixed rate it always does.
  var hasTimeline = false

  var pace: Pace {
    Pace(
      depth: depth, warmUpSeconds: warmUpSeconds, seconds: seconds, seed: seed,
      hasTimeline: hasTimeline)
  }
}

/// The amount and the time of the load in one round.
struct Pace {
  /// The number of requests in flight on each connection.
  var depth = 1
  var warmUpSeconds: Double
  var seconds: Double
  var seed: UInt64
  /// Whether the sample gets the results of each second.
  var hasTimeline = false
}

/// The results of one round.
struct Sample {
  var operations = 0
  var seconds = 0.0
  /// The nanoseconds from a request to its reply, to three digits, up to a minute.
  var latencies = Histogram<UInt64>(
    highestTrackableValue: 60_000_000_000, numberOfSignificantValueDigits: .three)
  /// The results of each second; nil if they were not asked for.
  var timeline: Timeline?
  var serverCPUSeconds = 0.0
  var clientCPUSeconds = 0.0
  /// The CPU seconds of all programs on the machine.
  var machineCPUSeconds = 0.0
  /// The peak of the server's memory.
  var peakBytes = 0
  /// The number of added stars minus that of removed ones, with the warm-up.
  var stars = 0
  /// The number of created posts, with the warm-up.
  var posts = 0
  private(set) var wrong = 0
  private(set) var firstWrong: String?

  var perSecond: Double { seconds > 0 ? Double(operations) / seconds : 0 }

  mutating func addWrong(_ text: String) {
    wrong += 1
    if firstWrong == nil { firstWrong = text }
  }

  func milliseconds(atPercentile percentile: Double) -> Double {
    Double(latencies.valueAtPercentile(percentile)) / 1e6
  }
}

/// Returns the nanoseconds of a monotonic clock.
func monotonicNanoseconds() -> Int64 {
  var time = timespec()
  clock_gettime(CLOCK_MONOTONIC, &time)
  return Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec)
}

/// The CPU time used until a moment. The difference of two marks goes into a sample.
struct UsageMark {
  private let at: Int64
  private let server: Double
  private let client: Double
  private let machine: Double

  /// - Parameter server: the CPU seconds that the server has used.
  init(_ server: () throws -> Double) throws {
    self.server = try server()
    client = ownCPUSeconds()
    machine = Machine.busySeconds()
    at = monotonicNanoseconds()
  }

  /// Writes the use since an earlier mark into a sample.
  func fill(_ sample: inout Sample, since earlier: UsageMark) {
    sample.seconds = Double(at - earlier.at) / 1e9
    sample.serverCPUSeconds = server - earlier.server
    sample.clientCPUSeconds = client - earlier.client
    sample.machineCPUSeconds = machine - earlier.machine
  }
}

/// The parts of a run: first without measuring, then measuring, then until all replies have arrived.
struct RunTimes {
  /// Whether further requests are sent.
  private(set) var isSending = true
  private(set) var isMeasuring = false
  private let seconds: Double
  /// The time at which the present part ends.
  private var end: Int64
  private var start: UsageMark?

  init(warmUpSeconds: Double, seconds: Double) {
    self.seconds = seconds
    end = monotonicNanoseconds() + Int64(warmUpSeconds * 1e9)
  }

  /// Begins the next part if it is time.
  ///
  /// - Parameters:
  ///   - sample: gets the use of the measured time.
  ///   - usage: returns the CPU seconds that the server has used.
  mutating func advance(_ sample: inout Sample, _ usage: () throws -> Double) throws {
    guard isSending, monotonicNanoseconds() >= end else { return }
    let mark = try UsageMark(usage)
    if let start {
      mark.fill(&sample, since: start)
      isMeasuring = false
      isSending = false
    } else {
      start = mark
      end = monotonicNanoseconds() + Int64(seconds * 1e9)
      isMeasuring = true
    }
  }
}

/// Returns the CPU seconds of this process.
func ownCPUSeconds() -> Double {
  var time = timespec()
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time)
  return Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
}
