/// The bytes that one connection makes the server hold, by kind.
///
/// A connection is charged for input without an end, requests without a reply, replies and events that the client does
/// not read, on-disconnect writes, and subscriptions. The total is charged to the server's `MemoryBudget`.
public struct Ledger: Sendable, Equatable {
  /// Bytes of input that is not a whole request yet, or that is not decoded yet.
  public var input = 0
  /// Bytes of requests that wait or are under way.
  public var requests = 0
  /// Bytes of replies that wait for their turn.
  public var replies = 0
  /// Bytes of encoded replies and events that the transport has not sent.
  public var unsent = 0
  /// Bytes of replies and events whose values are kept to be encoded later.
  public var unencoded = 0
  /// Bytes of events that wait for a resumption.
  public var heldEvents = 0
  /// Bytes reserved for work in progress, such as a resumption that reads the journal.
  public var reserved = 0
  /// Bytes of the on-disconnect writes.
  public var armed = 0
  /// Bytes of the subscriptions that have not ended, as `SubscriptionRequest.bytes` estimates them.
  public var subscriptions = 0

  /// Creates an empty ledger.
  public init() {}

  /// The sum.
  public var total: Int {
    input + requests + replies + unsent + unencoded + heldEvents + reserved + armed + subscriptions
  }

  /// Asserts that no kind is negative.
  func assertValid() {
    assert(
      min(input, requests, replies, unsent, unencoded, heldEvents, reserved, armed, subscriptions)
        >= 0,
      "a ledger has a negative entry: \(self)")
  }
}
