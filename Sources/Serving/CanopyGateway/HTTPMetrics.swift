internal import CanopyMetrics
internal import CanopyWire
internal import CoreMetrics
internal import HTTPTypes

/// The requests of the HTTP port: their numbers by method and status, the times to their responses, and the errors by
/// code.
///
/// All counters exist from the start, so that counting is an addition without a lock. Safe to use from any thread.
struct HTTPMetrics: Sendable {
  /// The counters and the timer of a method.
  private struct Cells {
    let counters: [Int: Counter]
    /// The counter of the status 200, which most responses have.
    let ok: Counter?
    let other: Counter?
    let time: Timer
  }

  private let cells: [String: Cells]
  /// The cells of GET, which most requests use.
  private let get: Cells?
  private let streams: Counter
  private let errors: [WireError.Code: Counter]
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
    var cells: [String: Cells] = [:]
    for method in HTTPMetrics.methods {
      var counters: [Int: Counter] = [:]
      for status in HTTPMetrics.statuses {
        counters[status] = Counter(
          label: "canopy_http_requests_total",
          dimensions: [("method", method), ("status", status == 0 ? "other" : "\(status)")],
          factory: registry)
      }
      let time = Timer(
        label: "canopy_http_request_seconds", dimensions: [("method", method)], factory: registry)
      cells[method] = Cells(counters: counters, ok: counters[200], other: counters[0], time: time)
    }
    now = registry.now
    self.cells = cells
    get = cells["GET"]
    streams = Counter(label: "canopy_http_event_streams_total", factory: registry)
    errors = Dictionary(
      uniqueKeysWithValues: WireError.Code.allCases.map { code in
        let labels = [("protocol", "http"), ("code", code.rawValue)]
        return (
          code, Counter(label: "canopy_errors_total", dimensions: labels, factory: registry)
        )
      })
    registry.describe("canopy_http_requests_total", "HTTP requests by method and status.")
    registry.describe("canopy_http_request_seconds", "Times to a response, by method.")
    registry.describe("canopy_http_event_streams_total", "Event streams that have begun.")
    registry.describe("canopy_errors_total", "Rejected requests by protocol and code.")
  }

  /// Counts a request that has been answered.
  ///
  /// - Parameter start: the time at which it came, by `now`.
  func count(_ method: HTTPRequest.Method, _ answer: HTTPAnswer, since start: Int64) {
    let status = answer.status
    guard let cells = method == .get ? get : cells[method.rawValue] ?? cells["other"] else {
      return
    }
    cells.time.recordNanoseconds(now() - start)
    let counter = status.code == 200 ? cells.ok : cells.counters[status.code] ?? cells.other
    counter?.increment()
    if let code = answer.errorCode { errors[code]?.increment() }
  }

  /// Counts an event stream that begins.
  func countStream() { streams.increment() }
}
