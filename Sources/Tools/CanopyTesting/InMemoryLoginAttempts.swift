public import CanopyAccounts

/// Failures of logins in memory, which the services of several nodes count together.
public actor InMemoryLoginAttempts: LoginAttempts {
  private struct Entry {
    var failures = 0
    var waitEnd: Int64 = 0
    var usedAt: Int64 = 0
  }

  private var entries: [[UInt8]: Entry] = [:]
  private let now: @Sendable () -> Int64

  /// - Parameter now: returns the milliseconds since 1970.
  public init(now: @escaping @Sendable () -> Int64) {
    self.now = now
  }

  /// The number of remembered keys.
  public var count: Int { entries.count }

  /// Counts a failure, unless the key must wait.
  public func begin(_ key: [UInt8], _ waits: LoginWaits) -> Int64? {
    let now = now()
    var entry = entries[key] ?? Entry()
    guard entry.waitEnd <= now || entry.usedAt > now else { return entry.waitEnd - now }
    entry.failures += 1
    let wait = waits.wait(afterFailures: entry.failures)
    let (end, overflow) = now.addingReportingOverflow(wait)
    entry.waitEnd = wait == 0 ? 0 : overflow ? .max : end
    entry.usedAt = now
    entries[key] = entry
    return nil
  }

  /// Removes a failure and the wait.
  public func withdraw(_ key: [UInt8]) {
    guard var entry = entries[key] else { return }
    entry.failures = max(0, entry.failures - 1)
    entry.waitEnd = 0
    entries[key] = entry
  }

  /// Removes the key.
  public func forget(_ key: [UInt8]) {
    entries[key] = nil
  }

  /// Removes the keys that begin with a prefix.
  public func forget(startingWith prefix: [UInt8]) {
    entries = entries.filter { !$0.key.starts(with: prefix) }
  }
}
