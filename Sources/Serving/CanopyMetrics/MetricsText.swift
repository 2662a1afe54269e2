/// The text of metrics in Prometheus' format, as it is written for one request.
///
/// Samples with the same name and the same labels are added: each event loop counts for itself.
public struct MetricsText {
  /// The kinds of metrics.
  public enum Kind: String, Sendable {
    /// A number that only grows.
    case counter
    /// A number at this moment.
    case gauge
    /// The numbers of values below bounds, their number and their sum.
    case histogram
  }

  private struct Family {
    let kind: Kind
    let help: String
    /// The names with their labels, in the order of their first samples.
    var series: [String] = []
    var values: [String: Double] = [:]
  }

  private var families: [String: Family] = [:]

  /// Creates a text without metrics.
  public init() {}

  /// Adds a sample.
  ///
  /// - Parameters:
  ///   - name: the name of the metric.
  ///   - suffix: the part after the name for a sample of a histogram.
  public mutating func add(
    _ kind: Kind, _ name: String, _ help: String, suffix: String = "",
    _ labels: [(name: String, value: String)] = [], _ value: Double
  ) {
    let name = MetricsText.name(name)
    var series = name + suffix
    if !labels.isEmpty {
      let texts = labels.map { "\(MetricsText.name($0.name))=\"\(MetricsText.escaped($0.value))\"" }
      series += "{" + texts.joined(separator: ",") + "}"
    }
    var family = families[name] ?? Family(kind: kind, help: help)
    if family.values[series] == nil { family.series.append(series) }
    family.values[series, default: 0] += value
    families[name] = family
  }

  /// Adds the samples of a histogram.
  ///
  /// - Parameters:
  ///   - bounds: the upper bounds of the values, ascending.
  ///   - counts: the numbers of values, one for each bound and one for those above.
  public mutating func add(
    histogram name: String, _ help: String, _ labels: [(name: String, value: String)] = [],
    bounds: [Double], counts: [Int64], sum: Double
  ) {
    var total = 0.0
    for (index, count) in counts.enumerated() {
      total += Double(count)
      let bound = index < bounds.count ? MetricsText.text(bounds[index]) : "+Inf"
      add(.histogram, name, help, suffix: "_bucket", labels + [("le", bound)], total)
    }
    add(.histogram, name, help, suffix: "_sum", labels, sum)
    add(.histogram, name, help, suffix: "_count", labels, total)
  }

  /// The whole text: the metrics by name, each line with its end.
  public var text: String {
    var text = ""
    for (name, family) in families.sorted(by: { $0.key.utf8.lexicographicallyPrecedes($1.key.utf8) }
    ) {
      if !family.help.isEmpty { text += "# HELP \(name) \(family.help)\n" }
      text += "# TYPE \(name) \(family.kind.rawValue)\n"
      for series in family.series {
        text += "\(series) \(MetricsText.text(family.values[series] ?? 0))\n"
      }
    }
    return text
  }

  /// The media type of the text.
  public static let contentType = "text/plain; version=0.0.4; charset=utf-8"

  private static func text(_ value: Double) -> String {
    if let whole = Int64(exactly: value) { return String(whole) }
    if value.isNaN { return "NaN" }
    if value.isInfinite { return value < 0 ? "-Inf" : "+Inf" }
    return "\(value)"
  }

  /// Returns a name in which other characters than letters, digits and underscores are underscores.
  private static func name(_ text: String) -> String {
    var bytes = text.utf8.map { byte in
      switch byte {
      case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
        UInt8(ascii: "0")...UInt8(ascii: "9"):
        byte
      default: UInt8(ascii: "_")
      }
    }
    if let first = bytes.first, first <= UInt8(ascii: "9") {
      bytes.insert(UInt8(ascii: "_"), at: 0)
    }
    return String(decoding: bytes, as: UTF8.self)
  }

  private static func escaped(_ text: String) -> String {
    var bytes: [UInt8] = []
    for byte in text.utf8 {
      switch byte {
      case UInt8(ascii: "\\"), UInt8(ascii: "\""): bytes += [UInt8(ascii: "\\"), byte]
      case UInt8(ascii: "\n"): bytes += Array("\\n".utf8)
      default: bytes.append(byte)
      }
    }
    return String(decoding: bytes, as: UTF8.self)
  }
}
