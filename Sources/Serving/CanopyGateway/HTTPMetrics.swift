internal import CanopyMetrics
internal import CoreMetrics
internal import HTTPTypes

/// The requests of the HTTP port: their numbers by method and status, and the times to their responses.
///
/// All counters exist from the start, so that counting is an addition without a lock. Safe to use from any thread.
struct HTTPMetrics: Sendable {
  private let counters: [String: [Int: Counter]]
  private let times: [String: Timer]
  private let streams: Counter
  /// The clock of measured times, in nanoseconds.
  let now: @Sendable () -> Int64

  private static let methods = [
    "GET", "PUT", "PATCH", "POST", "DELETE", "OPTIONS", "HEAD", "other",
  ]
  /// The statuses of responses; 0 stands for all others.
  private static let statuses = [
    0, 200, 204, 304, 400, 401, 403, 404, 405, 409, 412, 413, 426, 429, 500, 503,
  ]

  init(in registry: MetricsRegistry) {
    var counters: [String: [Int: Counter]] = [:]
    var times: [String: Timer] = [:]
    for method in HTTPMetrics.methods {
      times[method] = Timer(
        label: "canopy_http_request_seconds", dimensions: [("method", method)], factory: registry)
      for status in HTTPMetrics.statuses {
        counters[method, default: [:]][status] = Counter(
          label: "canopy_http_requests_total",
          dimensions: [("method", method), ("status", status == 0 ? "other" : "\(status)")],
          factory: registry)
      }
    }
    now = registry.now
    self.counters = counters
    self.times = times
    streams = Counter(label: "canopy_http_event_streams_total", factory: registry)
  }

  /// Counts a request that has been answered.
  ///
  /// - Parameter start: the time at which it came, by `now`.
  func count(_ method: HTTPRequest.Method, _ status: HTTPResponse.Status, since start: Int64) {
    let name = counters[method.rawValue] == nil ? "other" : method.rawValue
    times[name]?.recordNanoseconds(now() - start)
    let all = counters[name]
    (all?[status.code] ?? all?[0])?.increment()
  }

  /// Counts an event stream that begins.
  func countStream() { streams.increment() }
}
