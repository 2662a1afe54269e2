/// The proof to the service manager that the process works.
///
/// Twice within each timeout it runs a check, and reports `WATCHDOG=1` when the check ends. A check that does not end
/// keeps the report back, and the manager then ends the process and starts another one. So a check needs no deadline of
/// its own: it must only wait for the parts that can get stuck.
public struct Watchdog: Sendable {
  private let timeout: Duration
  private let report: @Sendable () -> Void

  /// - Parameters:
  ///   - timeout: the time within which the manager expects each report.
  ///   - report: sends a report.
  public init(timeout: Duration, report: @escaping @Sendable () -> Void) {
    self.timeout = timeout
    self.report = report
  }

  /// Checks and reports until the task is cancelled.
  public func run(clock: any Clock<Duration>, check: @Sendable () async -> Void) async {
    while !Task.isCancelled {
      await check()
      report()
      // A cancelled sleep ends the loop.
      try? await clock.sleep(for: timeout / 2)
    }
  }
}
