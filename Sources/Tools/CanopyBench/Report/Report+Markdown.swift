import Foundation

extension Report {
  /// The tables in Markdown.
  var markdown: String {
    var text = setting.map { "- \($0)\n" }.joined() + "\n"
    if !failures.isEmpty {
      text += "**Wrong answers and errors: the rest does not count.**\n\n"
      text += failures.map { "- \($0)\n" }.joined() + "\n"
    }
    text += "| work | measure | Canopy | against | it | ratio | goal | |\n"
    text += "|---|---|---:|---|---:|---:|---:|---|\n"
    for finding in findings { text += finding.markdown + "\n" }
    text += "\n" + Row.markdownHead
    for row in rows { text += row.markdown + "\n" }
    if !costs.isEmpty {
      text += "\n| cost of | CPU µs |\n|---|---:|\n"
      for cost in costs { text += cost.markdown + "\n" }
    }
    return text
  }
}

extension Report.Finding {
  var markdown: String {
    let cells = [
      work, measure, shortText(canopy), against, shortText(other), String(format: "%.2f", ratio),
      goal?.markdown ?? "", goal == nil ? "" : isMet ? "met" : "**missed**",
    ]
    return "| " + cells.joined(separator: " | ") + " |"
  }
}

extension Report.Cost {
  var markdown: String { "| \(what) | \(shortText(microseconds)) |" }
}

extension Report.Goal {
  fileprivate var markdown: String {
    switch self {
    case .atLeast(let bound): "≥ " + Self.text(of: bound)
    case .atMost(let bound): "≤ " + Self.text(of: bound)
    }
  }

  /// Returns a bound with one digit after the point, or two if it needs them.
  private static func text(of bound: Double) -> String {
    let hasHundredths = Int((bound * 100).rounded()) % 10 != 0
    return String(format: hasHundredths ? "%.2f" : "%.1f", bound)
  }
}

extension Report.Row {
  static let markdownHead = """
    | work | system | per second | p50 ms | p99 ms | p99.9 ms | server CPU s | CPU µs each | peak MiB | client cores | other cores |
    |---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|

    """

  var markdown: String {
    let cells = [
      work, system.rawValue, shortText(perSecond), String(format: "%.3f", millisecondsP50),
      String(format: "%.3f", millisecondsP99), String(format: "%.3f", millisecondsP999),
      String(format: "%.2f", cpuSeconds), shortText(cpuMicrosecondsPerOperation),
      shortText(peakMebibytes), String(format: "%.2f", clientCores),
      String(format: "%.2f", otherCores),
    ]
    return "| " + cells.joined(separator: " | ") + " |"
  }
}

/// Returns a number with about three significant digits, and commas between thousands.
func shortText(_ number: Double) -> String {
  guard number.isFinite else { return "–" }
  guard abs(number) >= 100 else {
    return String(format: abs(number) >= 10 ? "%.1f" : "%.2f", number)
  }
  return wholeText(Int(number.rounded()))
}

/// Returns a whole number with its thousands separated.
func wholeText(_ number: Int) -> String {
  var digits = String(number)
  var text = ""
  while digits.count > 3, digits.dropLast(3) != "-" {
    text = "," + digits.suffix(3) + text
    digits.removeLast(3)
  }
  return digits + text
}
