/// The outcome of writes that were submitted together: see `Engine.submit(_:of:completion:)`.
public struct WritesOutcome: Sendable, Equatable {
  /// The number of writes, counted from the first one, that are durable or denied.
  public var decided = 0
  /// The indexes of the denied writes among them, in ascending order.
  public var denied: [Int] = []
  /// The errors of the denied writes by their indexes: `EngineError`, or the error of `WritePolicy.derive`.
  public var errors: [Int: any Error] = [:]
  /// The error that stopped the writes; nil if all are decided. With ``EngineError/outcomeUnknown``, some of the other
  /// writes may have been made; with any other error, none.
  public var failure: EngineError?
  /// See ``Committed/unpackedBytes``.
  public var unpackedBytes = 0

  init(
    decided: Int = 0, errors: [Int: any Error], failure: EngineError? = nil, unpackedBytes: Int = 0
  ) {
    self.decided = decided
    self.unpackedBytes = unpackedBytes
    denied = errors.keys.sorted()
    self.errors = errors
    self.failure = failure
  }

  init(decided: Int = 0, denied: [Int] = [], failure: EngineError? = nil) {
    self.decided = decided
    self.denied = denied
    self.failure = failure
  }

  /// Whether the same writes were made, and the same ones denied, for whatever reason.
  public static func == (a: WritesOutcome, b: WritesOutcome) -> Bool {
    a.decided == b.decided && a.denied == b.denied && a.failure == b.failure
  }
}
