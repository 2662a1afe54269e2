/// The failures that several nodes count together, so that guesses at all nodes share one limit.
///
/// An attempt counts as a failure from its beginning until it has succeeded. So guesses at several nodes at once are not
/// all admitted before the first one fails, and a node that dies in an attempt leaves a failure. A wait begins with the
/// attempt, by the clock of the store. ``LoginThrottle`` is the same limit for a server that is alone.
///
/// Every operation is atomic. Any number of nodes may call operations at once. An implementation is correct if it passes
/// the checks in `LoginAttemptsContract.swift`.
public protocol LoginAttempts: Sendable {
  /// Begins an attempt, and counts it as a failure, unless the key must wait.
  ///
  /// A refusal does not extend the wait. After the clock was set back to a time before the last attempt, the next attempt
  /// is admitted.
  ///
  /// - Parameters:
  ///   - key: the account or the session for which a password is tried.
  ///   - waits: the waits after failures.
  /// - Returns: nil if the attempt is admitted; otherwise the milliseconds to wait, at least one.
  func begin(_ key: [UInt8], _ waits: LoginWaits) async throws -> Int64?

  /// Takes back an attempt that ended before the password was checked: its failure and the wait.
  func withdraw(_ key: [UInt8]) async throws

  /// Forgets the failures of a key, because an attempt has succeeded or the account has a new password.
  func forget(_ key: [UInt8]) async throws

  /// Forgets the failures of all keys that begin with some bytes, because the account has a new password.
  ///
  /// - Parameter prefix: at least one byte, and not only bytes of 255.
  func forget(startingWith prefix: [UInt8]) async throws
}

/// The waits after consecutive failures: none for the first ones, then a wait that each further failure doubles.
public struct LoginWaits: Sendable, Equatable {
  /// The number of failures after which the first wait begins, at least one.
  public let failuresMax: Int
  /// The duration of the first wait in milliseconds, at least one.
  public let first: Int64
  /// The maximum duration of a wait in milliseconds, at least one.
  public let max: Int64

  /// Creates waits. Numbers below one count as one.
  public init(failuresMax: Int, first: Int64, max: Int64) {
    self.failuresMax = Swift.max(1, failuresMax)
    self.first = Swift.max(1, first)
    self.max = Swift.max(1, max)
  }

  /// Returns the wait in milliseconds that begins with the last of some failures.
  public func wait(afterFailures failures: Int) -> Int64 {
    guard failures >= failuresMax else { return 0 }
    let doublings = failures - failuresMax
    guard doublings < Int64.bitWidth - 1 else { return max }
    let (wait, overflow) = first.multipliedReportingOverflow(by: 1 << Int64(doublings))
    return overflow ? max : min(wait, max)
  }
}
