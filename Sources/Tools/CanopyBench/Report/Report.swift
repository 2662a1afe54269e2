import ArgumentParser
import Foundation

/// The results of a run, as they are written to JSON.
struct Report: Codable {
  /// The medians of all rounds of one system at one work.
  struct Row: Codable {
    var work: String
    var system: PeerName
    var unit = "operations"
    var perSecond: Double
    var millisecondsP50: Double
    var millisecondsP99: Double
    var millisecondsP999: Double
    /// The CPU seconds of the server in a round.
    var cpuSeconds: Double
    var cpuMicrosecondsPerOperation: Double
    /// The peak of the memory of the server.
    var peakMebibytes: Double
    /// The share of a core that the client took. Near 1, the client limits the result.
    var clientCores: Double
    /// The share of a core that other programs and the network took. If it is far above the lowest of all rows, the
    /// machine was busy.
    var otherCores: Double
    /// The operations per second of each round, in order.
    var rounds: [Double]
  }

  /// A comparison of Canopy with a peer, or with itself.
  struct Finding: Codable {
    var work: String
    var measure: String
    var canopy: Double
    var against: String
    var other: Double
    /// The goal of the ratio; nil if there is none.
    var goal: Goal?
    var ratio: Double { other > 0 ? canopy / other : 0 }
    var isMet: Bool { goal?.isMet(by: ratio) ?? true }

    private enum CodingKeys: String, CodingKey {
      case work, measure, canopy, against, other, goal
    }
  }

  /// The goal of a ratio.
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

  /// The cost of one thing, such as a commit or an event.
  struct Cost: Codable {
    var what: String
    /// The microseconds of CPU.
    var microseconds: Double
  }

  /// The conditions of the run: machine, programs, sizes.
  var setting: [String]
  var rows: [Row] = []
  var findings: [Finding] = []
  var costs: [Cost] = []
  /// The wrong replies and errors. If there is one, the other results are not valid.
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

/// Returns the median: the middle number, or the mean of the two in the middle; 0 if there are none.
func median(_ numbers: [Double]) -> Double {
  let sorted = numbers.sorted()
  guard !sorted.isEmpty else { return 0 }
  return (sorted[(sorted.count - 1) / 2] + sorted[sorted.count / 2]) / 2
}

/// The files to which a command writes its report.
struct ReportFiles: ParsableArguments {
  @Option(help: "The file to write the tables to.") var markdown: String?
  @Option(help: "The file to write all numbers to.") var json: String?

  /// Prints the tables, and writes the files that the options name.
  func write(_ tables: String, _ report: some Encodable) throws {
    print("\n" + tables)
    if let markdown { try tables.write(toFile: markdown, atomically: true, encoding: .utf8) }
    guard let json else { return }
    let encoder = JSONEncoder()
    encoder.outputFormatting = [.prettyPrinted, .sortedKeys]
    try encoder.encode(report).write(to: URL(fileURLWithPath: json))
  }
}
