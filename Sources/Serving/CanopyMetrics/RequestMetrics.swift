internal import CanopyTree
public import CanopyWire
internal import Synchronization

/// The requests of one protocol on one event loop: their numbers, the times of a sample of them, and the errors.
///
/// Only its event loop counts, so counting is a load and a store without a lock. Any thread may read.
public final class RequestMetrics: Sendable {
  /// A request whose time is measured.
  public struct Measurement: Sendable {
    fileprivate let verb: Verb
    fileprivate let start: Int64
  }

  /// The number of requests of which one is measured. Reading the clock takes longer than counting.
  public static let requestsPerMeasurement: Int64 = 64
  /// The first request after a longer pause is measured, too: a quiet server may have no other, and has the time.
  public static let pauseNanoseconds: Int64 = 10_000_000

  private let protocolName: String
  private let now: @Sendable () -> Int64
  private let roughNow: @Sendable () -> Int64
  private let counts = (0..<Command.all.count).map { _ in LoopCount() }
  private let codes = (0..<WireError.Code.allCases.count).map { _ in LoopCount() }
  private let times = (0..<Command.all.count).map { _ in
    HistogramCell(bounds: HistogramCell.seconds)
  }
  private let all = LoopCount()
  /// The time of the last request, by the rough clock.
  private let last = LoopCount()

  /// Creates metrics that a registry collects.
  ///
  /// - Parameter protocolName: the name of the protocol in the text.
  public init(_ protocolName: String, in registry: MetricsRegistry) {
    self.protocolName = protocolName
    now = registry.now
    roughNow = registry.roughNow
    registry.collect { [self] in collect(&$0) }
  }

  /// Counts a request. Called on the event loop.
  ///
  /// - Returns: a measurement to be ended, for one request among several and for the first after a pause; otherwise nil.
  public func begin(_ verb: Verb) -> Measurement? {
    counts[verb.index].increment()
    let isOneOfMany = all.increment() % RequestMetrics.requestsPerMeasurement == 1
    let present = roughNow()
    let isAfterPause = present &- last.value > RequestMetrics.pauseNanoseconds
    last.set(present)
    guard isOneOfMany || isAfterPause else { return nil }
    return Measurement(verb: verb, start: now())
  }

  /// Ends a measurement. Safe to call from any thread.
  public func end(_ measurement: Measurement) {
    times[measurement.verb.index].recordNanoseconds(now() - measurement.start)
  }

  /// Counts an error. Called on the event loop.
  public func count(_ code: WireError.Code) {
    codes[WireError.Code.allCases.firstIndex(of: code) ?? 0].increment()
  }

  private func collect(_ text: inout MetricsText) {
    for (index, command) in Command.all.enumerated() {
      let count = counts[index].value
      guard count > 0 else { continue }
      let verb = command.verb.asciiLowercased
      let labels = [(name: "protocol", value: protocolName), (name: "verb", value: verb)]
      text.add(
        .counter, "canopy_requests_total", "Requests by protocol and verb.", labels, Double(count))
      let cell = times[index]
      text.add(
        histogram: "canopy_request_seconds",
        "The times of one request in 64, and of the first after a pause.", labels,
        bounds: cell.bounds, counts: cell.values, sum: cell.sum)
    }
    for (code, count) in zip(WireError.Code.allCases, codes) where count.value > 0 {
      text.add(
        .counter, "canopy_errors_total", "Rejected requests by protocol and code.",
        [("protocol", protocolName), ("code", code.rawValue)], Double(count.value))
    }
  }
}

/// A number that one thread counts up, and any thread may read.
private final class LoopCount: Sendable {
  private let count = Atomic<Int64>(0)

  var value: Int64 { count.load(ordering: .relaxed) }

  func set(_ value: Int64) { count.store(value, ordering: .relaxed) }

  /// Returns the new number.
  @discardableResult
  func increment() -> Int64 {
    let new = count.load(ordering: .relaxed) &+ 1
    count.store(new, ordering: .relaxed)
    return new
  }
}
