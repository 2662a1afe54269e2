/// The outcome of writes that were submitted together: see `Engine.submit(_:of:completion:)`.
public struct WritesOutcome: Sendable, Equatable {
  /// The number of writes, counted from the first one, that are durable or denied.
  public var decided = 0
  /// The indexes of the denied writes among them, in ascending order.
  public var denied: [Int] = []
  /// The error that stopped the writes; nil if all are decided. With ``EngineError/outcomeUnknown``, some of the other
  /// writes may have been made; with any other error, none.
  public var failure: EngineError?

  init(decided: Int = 0, denied: [Int] = [], failure: EngineError? = nil) {
    self.decided = decided
    self.denied = denied
    self.failure = failure
  }
}
