import Foundation

/// All that a run has shown, as it is written to JSON.
struct Report: Codable {
  /// One system under one work: medians of all rounds.
  struct Row: Codable {
    var work: String
    var system: PeerName
    var unit = "operations"
    var perSecond: Double
    var millisecondsP50: Double
    var millisecondsP99: Double
    var millisecondsP999: Double
    /// Of the server, in a round.
    var cpuSeconds: Double
    var cpuMicrosecondsPerOperation: Double
    /// Of the server.
    var peakMebibytes: Double
    /// The part of a core that the client took. Near 1, the client was as fast as it can be.
    var clientCores: Double
    /// The part of a core that neither server nor client took: other programs, and the network's work
    /// that is nobody's. Well above the least of them, a row tells of a machine that was busy.
    var otherCores: Double
    /// Operations per second of each round, in order.
    var rounds: [Double]
  }

  /// Canopy against a peer, or against itself.
  struct Finding: Codable {
    var work: String
    var measure: String
    var canopy: Double
    var against: String
    var other: Double
    var goal: Goal
    var ratio: Double { other > 0 ? canopy / other : 0 }
    var isMet: Bool { goal.isMet(by: ratio) }

    private enum CodingKeys: String, CodingKey {
      case work, measure, canopy, against, other, goal
    }
  }

  /// What a ratio is to be.
  enum Goal: Codable, Equatable {
    case atLeast(Double)
    case atMost(Double)

    func isMet(by ratio: Double) -> Bool {
      switch self {
      case .atLeast(let bound): ratio >= bound
      case .atMost(let bound): ratio > 0 && ratio <= bound
      }
    }
  }

  /// What was measured: machine, programs, sizes.
  var setting: [String]
  var rows: [Row] = []
  var findings: [Finding] = []
  /// Wrong answers and errors. Where there is one, nothing else counts.
  var failures: [String] = []
}

extension Report.Row {
  init(_ work: String, _ system: PeerName, _ samples: [Sample]) {
    self.work = work
    self.system = system
    rounds = samples.map(\.perSecond)
    perSecond = median(rounds)
    millisecondsP50 = median(samples.map { $0.milliseconds(atPercentile: 50) })
    millisecondsP99 = median(samples.map { $0.milliseconds(atPercentile: 99) })
    millisecondsP999 = median(samples.map { $0.milliseconds(atPercentile: 99.9) })
    cpuSeconds = median(samples.map(\.serverCPUSeconds))
    cpuMicrosecondsPerOperation = median(
      samples.map { $0.serverCPUSeconds * 1e6 / Double(max(1, $0.operations)) })
    peakMebibytes = Double(samples.map(\.peakBytes).max() ?? 0) / 1_048_576
    otherCores = median(
      samples.map {
        ($0.machineCPUSeconds - $0.serverCPUSeconds - $0.clientCPUSeconds) / max($0.seconds, 1e-9)
      })
    clientCores = median(samples.map { $0.clientCPUSeconds / max($0.seconds, 1e-9) })
  }
}

/// The middle of numbers, or the mean of the two in the middle; 0 of none.
func median(_ numbers: [Double]) -> Double {
  let sorted = numbers.sorted()
  guard !sorted.isEmpty else { return 0 }
  return (sorted[(sorted.count - 1) / 2] + sorted[sorted.count / 2]) / 2
}
