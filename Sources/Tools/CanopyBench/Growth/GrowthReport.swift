import Foundation

/// The results of the command `growth`.
struct GrowthReport: Codable {
  /// The values of a measure of a system at several sizes.
  struct Curve: Codable {
    struct Point: Codable {
      var size: Int
      var value: Double
    }

    /// The name of the chart that has this curve.
    var chart: Chart
    var name: String
    var points: [Point]
  }

  /// Curves with the same axes.
  enum Chart: String, Codable, CaseIterable {
    case memory, startUp = "start-up", checkpoint, latency, events, middle

    var title: String {
      switch self {
      case .memory: "Memory per post"
      case .startUp: "Start-up"
      case .checkpoint: "Checkpoint of 1,000 stars"
      case .latency: "p99 of each request"
      case .events: "Events to the listeners of one location"
      case .middle: "Write of one child in the middle"
      }
    }

    var sizeTitle: String {
      switch self {
      case .memory, .startUp, .checkpoint, .latency: "posts"
      case .events: "listeners"
      case .middle: "children"
      }
    }

    var valueTitle: String {
      switch self {
      case .memory: "bytes per post"
      case .startUp, .checkpoint: "seconds"
      case .latency, .middle: "ms"
      case .events: "events a second"
      }
    }
  }

  var setting: [String]
  var curves: [Curve] = []
  var failures: [String] = []

  mutating func add(_ value: Double, at size: Int, to name: String, in chart: Chart) {
    say(
      "\(chart.title), \(name), \(wholeText(size)) \(chart.sizeTitle): \(shortText(value))")
    let point = Curve.Point(size: size, value: value)
    if let at = curves.firstIndex(where: { $0.chart == chart && $0.name == name }) {
      curves[at].points.append(point)
    } else {
      curves.append(Curve(chart: chart, name: name, points: [point]))
    }
  }
}

extension GrowthReport.Curve {
  /// The slope of the line through the points, both axes logarithmic, by least squares; nil with fewer than two sizes.
  var slope: Double? {
    let logs = points.filter { $0.value > 0 }.map { (log(Double($0.size)), log($0.value)) }
    guard logs.count > 1 else { return nil }
    let meanX = logs.reduce(0) { $0 + $1.0 } / Double(logs.count)
    let meanY = logs.reduce(0) { $0 + $1.1 } / Double(logs.count)
    let spread = logs.reduce(0) { $0 + ($1.0 - meanX) * ($1.0 - meanX) }
    guard spread > 0 else { return nil }
    return logs.reduce(0) { $0 + ($1.0 - meanX) * ($1.1 - meanY) } / spread
  }
}

extension GrowthReport {
  /// The tables in Markdown: one for each chart, with a row for each curve.
  var markdown: String {
    var text = setting.map { "- \($0)\n" }.joined()
    for failure in failures { text += "- **failed:** \(failure)\n" }
    for chart in Chart.allCases {
      let curves = curves.filter { $0.chart == chart }
      guard !curves.isEmpty else { continue }
      let sizes = Set(curves.flatMap { $0.points.map(\.size) }).sorted()
      text += "\n\(chart.title), \(chart.valueTitle), by \(chart.sizeTitle):\n\n| |"
      text += sizes.map { " \(wholeText($0)) |" }.joined() + " Slope |\n|---|"
      text += sizes.map { _ in "---:|" }.joined() + "---:|\n"
      for curve in curves {
        text += "| \(curve.name) |"
        for size in sizes {
          let value = curve.points.first { $0.size == size }?.value
          text += " \(value.map(shortText) ?? "–") |"
        }
        text += " \(curve.slope.map { String(format: "%.2f", $0) } ?? "–") |\n"
      }
    }
    return text
  }

  /// The drawings, each with the name of its file.
  var charts: [(name: String, chart: CanopyBench.Chart)] {
    Chart.allCases.compactMap { chart in
      let curves = curves.filter { $0.chart == chart }
      guard !curves.isEmpty else { return nil }
      return (
        "growth-\(chart.rawValue)",
        CanopyBench.Chart(
          title: chart.title, xTitle: chart.sizeTitle, yTitle: chart.valueTitle,
          isLogarithmic: true,
          lines: curves.map { curve in
            CanopyBench.Chart.Line(
              name: curve.name,
              points: curve.points.map {
                CanopyBench.Chart.Point(x: Double($0.size), y: $0.value)
              })
          })
      )
    }
  }
}
