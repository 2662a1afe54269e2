import Foundation

/// The results of the command `steady`.
struct SteadyReport: Codable {
  /// A part of the measurement of a system.
  enum Part: String, Codable, CodingKeyRepresentable {
    case withoutCheckpoints, fullSpeed, fixedRate
  }

  struct PartOutcome: Codable {
    var requestsPerSecond: Double
    var millisecondsP50: Double
    var millisecondsP99: Double
    var millisecondsP999: Double
    var millisecondsMax: Double
    /// The longest time without a reply.
    var millisecondsOfLongestStall: Double
    /// The slowest second, as a share of the median second.
    var slowestSecond: Double
    var cpuMicrosecondsPerRequest: Double
    var seconds: [Timeline.Second]
  }

  struct SystemOutcome: Codable {
    var name: PeerName
    var parts: [Part: PartOutcome] = [:]
    /// The bytes written to the disk at the fixed rate, for each post, with those of its share of stars.
    var writtenBytesPerPost = 0.0
    /// The bytes of these commits in the journal, for each post; nil if the system does not tell them.
    var journaledBytesPerPost: Double?
    var peakBytes = 0
    var wrong = 0
    var firstWrong: String?
  }

  /// The conditions of the run.
  var setting: [String]
  var systems: [SystemOutcome] = []
}

extension SteadyReport.SystemOutcome {
  mutating func add(_ part: SteadyReport.Part, _ sample: Sample) {
    let timeline = sample.timeline ?? Timeline()
    parts[part] = SteadyReport.PartOutcome(
      requestsPerSecond: sample.perSecond, millisecondsP50: sample.milliseconds(atPercentile: 50),
      millisecondsP99: sample.milliseconds(atPercentile: 99),
      millisecondsP999: sample.milliseconds(atPercentile: 99.9),
      millisecondsMax: sample.milliseconds(atPercentile: 100),
      millisecondsOfLongestStall: timeline.millisecondsOfLongestStall,
      slowestSecond: timeline.slowestSecond,
      cpuMicrosecondsPerRequest: sample.serverCPUSeconds * 1e6 / Double(max(1, sample.operations)),
      seconds: timeline.seconds)
    wrong += sample.wrong
    firstWrong = firstWrong ?? sample.firstWrong
  }

  /// The rows of this system in the table.
  var markdown: String {
    let titles: [(SteadyReport.Part, String)] = [
      (.withoutCheckpoints, "full speed, no checkpoints"), (.fullSpeed, "full speed"),
      (.fixedRate, "fixed rate"),
    ]
    var text = ""
    for (part, title) in titles {
      guard let outcome = parts[part] else { continue }
      let cells = [
        name.rawValue, title, shortText(outcome.requestsPerSecond),
        String(format: "%.2f", outcome.slowestSecond),
        String(format: "%.2f", outcome.millisecondsP50),
        String(format: "%.2f", outcome.millisecondsP99),
        String(format: "%.2f", outcome.millisecondsP999),
        String(format: "%.1f", outcome.millisecondsMax),
        String(format: "%.1f", outcome.millisecondsOfLongestStall),
        shortText(outcome.cpuMicrosecondsPerRequest),
        part == .fixedRate ? shortText(writtenBytesPerPost) : "",
        part == .fixedRate ? journaledBytesPerPost.map(shortText) ?? "–" : "",
      ]
      text += "| " + cells.joined(separator: " | ") + " |\n"
    }
    if wrong > 0 { text += "\n**\(wrong) wrong replies:** \(firstWrong ?? "")\n\n" }
    return text
  }
}

extension SteadyReport {
  /// The table in Markdown, and the ratios to the goals.
  var markdown: String {
    var text = setting.map { "- \($0)\n" }.joined() + "\n"
    text +=
      "| System | Part | Requests a second | Slowest second | p50 ms | p99 ms | p99.9 ms | Longest ms "
      + "| Longest stall ms | CPU µs each | Bytes written per post | Bytes of the journal |\n"
    text += "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n"
    text += systems.map(\.markdown).joined()
    text += "\n| Measure | Value | Goal | |\n|---|---:|---:|---|\n"
    for goal in goals {
      text += "| \(goal.what) | \(shortText(goal.value)) | \(goal.bound) | "
      text += goal.isMet ? "met |\n" : "**missed** |\n"
    }
    return text
  }

  private struct GoalRow {
    var what: String
    var value: Double
    var bound: String
    var isMet: Bool
  }

  private var goals: [GoalRow] {
    guard let canopy = systems.first(where: { $0.name == .canopy }),
      let steady = canopy.parts[.fixedRate], let full = canopy.parts[.fullSpeed],
      let without = canopy.parts[.withoutCheckpoints]
    else { return [] }
    func atMost(_ what: String, _ value: Double, _ bound: Double) -> GoalRow {
      GoalRow(what: what, value: value, bound: "≤ \(shortText(bound))", isMet: value <= bound)
    }
    let least = min(steady.slowestSecond, full.slowestSecond)
    var rows = [
      atMost("longest stall at the fixed rate, ms", steady.millisecondsOfLongestStall, 10),
      atMost("longest stall at full speed, ms", full.millisecondsOfLongestStall, 10),
      GoalRow(
        what: "slowest second, share of the median", value: least, bound: "≥ 0.80",
        isMet: least >= 0.8),
      atMost(
        "cost of checkpoints, share of the throughput",
        1 - full.requestsPerSecond / max(without.requestsPerSecond, 1), 0.15),
    ]
    if let journaled = canopy.journaledBytesPerPost {
      rows.append(
        atMost(
          "bytes written, of those of the commits in the journal",
          canopy.writtenBytesPerPost / max(journaled, 1), 2))
    }
    let others = systems.filter { $0.name != .canopy }
    if let best = others.compactMap({ $0.parts[.fixedRate]?.millisecondsP999 }).min() {
      rows.append(
        atMost("p99.9 at the fixed rate, of the better peer's", steady.millisecondsP999 / best, 1))
    }
    return rows
  }

  /// The requests of each second at the fixed rate and at full speed, as shares of the median second.
  var drawing: Chart {
    var chart = Chart(
      title: "Requests of each second, as a share of the median second",
      xTitle: "seconds", yTitle: "share of the median", isLogarithmic: false)
    for system in systems {
      guard let part = system.parts[.fixedRate] else { continue }
      let middle = max(median(part.seconds.map { Double($0.operations) }), 1)
      chart.lines.append(
        Chart.Line(
          name: system.name.rawValue,
          points: part.seconds.enumerated().map {
            Chart.Point(x: Double($0.offset), y: Double($0.element.operations) / middle)
          }))
    }
    return chart
  }
}
