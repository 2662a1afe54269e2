/// The bytes that one connection makes the server hold, by kind.
///
/// It counts everything that a client can make the server hold: unfinished lines, requests without a reply, replies and
/// events that the client does not read, on-disconnect writes, logins, and subscriptions. The total is charged to the
/// server's `MemoryBudget`.
public struct Ledger: Sendable, Equatable {
  /// Bytes of input that is not a whole request yet, or not decoded yet. Released when it is decoded.
  public var input = 0
  /// Bytes of requests that wait or are under way. Released when the reply is known; for a read, when it begins.
  public var requests = 0
  /// Bytes of replies that wait for their turn. Released when their turn comes.
  public var replies = 0
  /// Bytes of encoded replies and events that wait to be sent. Released as the transport sends them.
  public var unsent = 0
  /// Bytes of replies and events whose values are kept to be encoded later. Released as their pieces are encoded.
  public var unencoded = 0
  /// Bytes of events that wait for a resumption, or that are withheld while the client reads slowly. Released when that
  /// ends.
  public var heldEvents = 0
  /// Bytes reserved for resumptions, which read the journal. Released when they end.
  public var reserved = 0
  /// Bytes of the on-disconnect writes. Released when they are cancelled or carried out.
  public var armed = 0
  /// Bytes of the login, and of the logins in which on-disconnect writes were armed. Released when the login and these
  /// writes end.
  public var logins = 0
  /// Bytes of the subscriptions, as `SubscriptionRequest.bytes` estimates them. Released when they end.
  public var subscriptions = 0

  /// Creates an empty ledger.
  public init() {}

  /// The sum.
  public var total: Int {
    input + requests + replies + unsent + unencoded + heldEvents + reserved + armed + logins
      + subscriptions
  }

  /// Asserts that no kind is negative.
  func assertValid() {
    assert(
      min(
        input, requests, replies, unsent, unencoded, heldEvents, reserved, armed, logins,
        subscriptions) >= 0,
      "a ledger has a negative entry: \(self)")
  }
}
