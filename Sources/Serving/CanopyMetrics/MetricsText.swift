/// The metrics as they are at one moment, and their text in Prometheus' format.
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

  /// A metric with all its series.
  public struct Family: Sendable {
    /// The kind of the metric.
    public let kind: Kind
    /// A short description, or an empty text.
    public fileprivate(set) var help: String
    /// The upper bounds of the values of a histogram, ascending.
    public let bounds: [Double]
    /// The series, in the order of their first samples.
    public fileprivate(set) var series: [Series] = []
    /// The positions of the series, by the text of their labels.
    fileprivate var positions: [String: Int] = [:]
  }

  /// The samples with the same labels.
  public struct Series: Sendable {
    /// The labels.
    public let labels: [(name: String, value: String)]
    /// The text of the labels without braces.
    fileprivate let labelText: String
    /// The value of a counter or gauge; for a histogram the sum of its values.
    public fileprivate(set) var value = 0.0
    /// The numbers of values of a histogram, one for each bound and one for those above.
    public fileprivate(set) var counts: [Int64] = []
  }

  /// The metrics by name.
  public private(set) var families: [String: Family] = [:]

  /// Creates a text without metrics.
  public init() {}

  /// Adds a sample of a counter or a gauge.
  ///
  /// - Parameter name: the name of the metric.
  public mutating func add(
    _ kind: Kind, _ name: String, _ help: String,
    _ labels: [(name: String, value: String)] = [], _ value: Double
  ) {
    change(kind, name, help, labels, bounds: []) { $0.value += value }
  }

  /// Adds the samples of a histogram.
  ///
  /// - Parameters:
  ///   - bounds: the upper bounds of the values, ascending; the same for all series of the metric.
  ///   - counts: the numbers of values, one for each bound and one for those above.
  public mutating func add(
    histogram name: String, _ help: String, _ labels: [(name: String, value: String)] = [],
    bounds: [Double], counts: [Int64], sum: Double
  ) {
    change(.histogram, name, help, labels, bounds: bounds) { series in
      series.value += sum
      if series.counts.isEmpty {
        series.counts = counts
      } else {
        for (index, count) in zip(series.counts.indices, counts) { series.counts[index] += count }
      }
    }
  }

  private mutating func change(
    _ kind: Kind, _ name: String, _ help: String, _ labels: [(name: String, value: String)],
    bounds: [Double], _ body: (inout Series) -> Void
  ) {
    let labelText = labels.map {
      "\(MetricsText.name($0.name))=\"\(MetricsText.escaped($0.value))\""
    }.joined(separator: ",")
    func change(_ family: inout Family) {
      if family.help.isEmpty { family.help = help }
      let position = family.positions[labelText] ?? family.series.count
      if position == family.series.count {
        family.series.append(Series(labels: labels, labelText: labelText))
        family.positions[labelText] = position
      }
      body(&family.series[position])
    }
    let empty = Family(kind: kind, help: help, bounds: bounds)
    change(&families[MetricsText.name(name), default: empty])
  }

  /// The whole text: the metrics by name, each line with its end.
  public var text: String {
    var text = ""
    for (name, family) in families.sorted(by: { $0.key.utf8.lexicographicallyPrecedes($1.key.utf8) }
    ) {
      if !family.help.isEmpty { text += "# HELP \(name) \(family.help)\n" }
      text += "# TYPE \(name) \(family.kind.rawValue)\n"
      for series in family.series {
        if family.kind == .histogram {
          append(series, of: name, family.bounds, to: &text)
        } else {
          append(name, series.labelText, series.value, to: &text)
        }
      }
    }
    return text
  }

  private func append(
    _ series: Series, of name: String, _ bounds: [Double], to text: inout String
  ) {
    let labels = series.labelText.isEmpty ? "" : series.labelText + ","
    var total = 0.0
    for (index, count) in series.counts.enumerated() {
      total += Double(count)
      let bound = index < bounds.count ? MetricsText.text(bounds[index]) : "+Inf"
      append(name + "_bucket", labels + "le=\"\(bound)\"", total, to: &text)
    }
    append(name + "_sum", series.labelText, series.value, to: &text)
    append(name + "_count", series.labelText, total, to: &text)
  }

  private func append(
    _ name: String, _ labels: String, _ value: Double, to text: inout String
  ) {
    text += labels.isEmpty ? name : "\(name){\(labels)}"
    text += " \(MetricsText.text(value))\n"
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
