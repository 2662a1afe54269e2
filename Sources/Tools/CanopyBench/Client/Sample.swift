import Foundation
import Histogram

/// How a server is loaded once.
struct Round {
  var mix: Mix
  /// Requests in flight on each connection.
  var depth = 1
  var warmUpSeconds: Double
  var seconds: Double
  /// Posts that there were at the start.
  var posts: Int
  var seed: UInt64
}

/// What one round has shown.
struct Sample {
  var operations = 0
  var seconds = 0.0
  /// Nanoseconds from sending a request to having its reply, to three digits, up to a minute.
  var latencies = Histogram<UInt64>(
    highestTrackableValue: 60_000_000_000, numberOfSignificantValueDigits: .three)
  var serverCPUSeconds = 0.0
  var clientCPUSeconds = 0.0
  /// Of all programs on the machine.
  var machineCPUSeconds = 0.0
  /// The most memory that the server had.
  var peakBytes = 0
  /// Stars put on posts less those taken off, warm-up included.
  var stars = 0
  /// Posts written, warm-up included.
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

/// Nanoseconds of a clock that only goes forward.
func monotonicNanoseconds() -> Int64 {
  var time = timespec()
  clock_gettime(CLOCK_MONOTONIC, &time)
  return Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec)
}

/// What was used until a moment; the difference of two goes into a sample.
struct UsageMark {
  private let at: Int64
  private let server: Double
  private let client: Double
  private let machine: Double

  /// - Parameter server: CPU seconds that the server has used.
  init(_ server: () throws -> Double) throws {
    self.server = try server()
    client = ownCPUSeconds()
    machine = Machine.busySeconds()
    at = monotonicNanoseconds()
  }

  /// Writes what was used since an earlier mark.
  func fill(_ sample: inout Sample, since earlier: UsageMark) {
    sample.seconds = Double(at - earlier.at) / 1e9
    sample.serverCPUSeconds = server - earlier.server
    sample.clientCPUSeconds = client - earlier.client
    sample.machineCPUSeconds = machine - earlier.machine
  }
}

/// CPU seconds of this process.
func ownCPUSeconds() -> Double {
  var time = timespec()
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time)
  return Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
}
