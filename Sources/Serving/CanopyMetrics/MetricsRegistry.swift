// CanopyMetrics owns the measurements of a server, and their text. It must not know sockets, requests or SQL.

public import CoreMetrics
internal import Synchronization

/// The metrics of a server: a backend of swift-metrics that writes Prometheus' text.
///
/// A metric of swift-metrics is kept by its label and dimensions. Other parts add a collector, which adds its samples when
/// the text is written; so a hot path counts in memory of its own. Safe to use from any thread.
public final class MetricsRegistry: MetricsFactory, Sendable {
  private struct Key: Hashable {
    var label: String
    var dimensions: [[String]]

    init(_ label: String, _ dimensions: [(String, String)]) {
      self.label = label
      self.dimensions = dimensions.map { [$0.0, $0.1] }
    }

    var labels: [(name: String, value: String)] { dimensions.map { ($0[0], $0[1]) } }
  }

  private struct State {
    var counters: [Key: CounterCell] = [:]
    var gauges: [Key: GaugeCell] = [:]
    var histograms: [Key: HistogramCell] = [:]
    var collectors: [@Sendable (inout MetricsText) -> Void] = []
    /// The descriptions of the few metrics of swift-metrics.
    var descriptions: [(label: String, help: String)] = []
  }

  private let state = Mutex(State())
  /// The clock of measured times, in nanoseconds. It never goes back.
  public let now: @Sendable () -> Int64
  /// A clock like `now` that costs less and is less exact.
  let roughNow: @Sendable () -> Int64

  /// Creates a registry without metrics.
  ///
  /// - Parameters:
  ///   - now: the clock of measured times, in nanoseconds, which never goes back; by default it stands still.
  ///   - roughNow: a clock that costs less to read, exact to some milliseconds; by default `now`.
  public init(
    now: @escaping @Sendable () -> Int64 = { 0 }, roughNow: (@Sendable () -> Int64)? = nil
  ) {
    self.now = now
    self.roughNow = roughNow ?? now
  }

  /// Adds a closure that adds samples whenever the text is written. It is kept as long as the registry.
  public func collect(_ body: @escaping @Sendable (inout MetricsText) -> Void) {
    state.withLock { $0.collectors.append(body) }
  }

  /// Describes a metric of swift-metrics, whose interface has no descriptions.
  ///
  /// - Parameter help: a sentence in one line.
  public func describe(_ label: String, _ help: String) {
    state.withLock { $0.descriptions.append((label, help)) }
  }

  /// The present text of all metrics.
  public var text: String { current.text }

  /// All metrics as they are now. O(series).
  public var current: MetricsText {
    var text = MetricsText()
    let state = state.withLock { $0 }
    func help(_ key: Key) -> String {
      state.descriptions.first { $0.label.utf8.elementsEqual(key.label.utf8) }?.help ?? ""
    }
    for (key, cell) in state.counters {
      text.add(.counter, key.label, help(key), key.labels, cell.value)
    }
    for (key, cell) in state.gauges {
      text.add(.gauge, key.label, help(key), key.labels, cell.value)
    }
    for (key, cell) in state.histograms {
      text.add(
        histogram: key.label, help(key), key.labels, bounds: cell.bounds, counts: cell.values,
        sum: cell.sum)
    }
    for collector in state.collectors { collector(&text) }
    return text
  }

  // MARK: The backend of swift-metrics

  /// Returns the counter with a label and dimensions.
  public func makeCounter(label: String, dimensions: [(String, String)]) -> any CounterHandler {
    counter(label, dimensions)
  }

  /// Returns the counter with a label and dimensions.
  public func makeFloatingPointCounter(
    label: String, dimensions: [(String, String)]
  ) -> any FloatingPointCounterHandler {
    counter(label, dimensions)
  }

  /// Returns the gauge with a label and dimensions.
  public func makeMeter(label: String, dimensions: [(String, String)]) -> any MeterHandler {
    state.withLock { state in
      let key = Key(label, dimensions)
      let cell = state.gauges[key] ?? GaugeCell()
      state.gauges[key] = cell
      return cell
    }
  }

  /// Returns the histogram with a label and dimensions, of numbers of things.
  public func makeRecorder(
    label: String, dimensions: [(String, String)], aggregate: Bool
  ) -> any RecorderHandler {
    histogram(label, dimensions, HistogramCell.numbers)
  }

  /// Returns the histogram with a label and dimensions, of times in seconds.
  public func makeTimer(label: String, dimensions: [(String, String)]) -> any TimerHandler {
    histogram(label, dimensions, HistogramCell.seconds)
  }

  /// Keeps the metric: its past values are part of the text.
  public func destroyCounter(_ handler: any CounterHandler) {}

  /// Keeps the metric: its past values are part of the text.
  public func destroyFloatingPointCounter(_ handler: any FloatingPointCounterHandler) {}

  /// Keeps the metric: its past values are part of the text.
  public func destroyMeter(_ handler: any MeterHandler) {}

  /// Keeps the metric: its past values are part of the text.
  public func destroyRecorder(_ handler: any RecorderHandler) {}

  /// Keeps the metric: its past values are part of the text.
  public func destroyTimer(_ handler: any TimerHandler) {}

  private func counter(_ label: String, _ dimensions: [(String, String)]) -> CounterCell {
    state.withLock { state in
      let key = Key(label, dimensions)
      let cell = state.counters[key] ?? CounterCell()
      state.counters[key] = cell
      return cell
    }
  }

  private func histogram(
    _ label: String, _ dimensions: [(String, String)], _ bounds: [Double]
  ) -> HistogramCell {
    state.withLock { state in
      let key = Key(label, dimensions)
      let cell = state.histograms[key] ?? HistogramCell(bounds: bounds)
      state.histograms[key] = cell
      return cell
    }
  }
}
