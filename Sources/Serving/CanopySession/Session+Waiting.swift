public import CanopyTree
public import CanopyWire

/// Waiting until the events before a reply are sent. The front end sends events by way of a hub, and calls the session when
/// they are sent. If commits are withheld by then, the session keeps the waiter until a catch-up has ended.
extension Session {
  /// Something that waits until the events before it are sent.
  public enum Waiter {
    /// The read with a slot is carried out in the version up to which the events are sent.
    case read(ReadRequest, Slot)
    /// A reply is sent.
    case reply(Reply)
    /// A request for a subscription begins. Its value would be newer than the events that are withheld.
    case listen(ListenRequest, Slot)
    /// The content of a subscription is received.
    case resumption(subscription: Int64, Result<Resumption, WireError>)
    /// A read that another thread carries out gets the root of the tree, also if the connection has ended.
    case longRead((Node) -> Void)

    /// Whether no request begins and no reply is sent meanwhile.
    fileprivate var holdsUp: Bool { if case .longRead = self { false } else { true } }
  }

  /// Notes that something begins to wait. The front end calls `keepIfBehind`, then waits for the hub, and calls it again.
  /// If it returns false both times, the front end calls `endWaiting` and carries out what waited.
  public mutating func beginWaiting(_ waiter: Waiter) {
    if waiter.holdsUp { waitsForEvents += 1 }
  }

  /// Notes that the events before a waiter are sent.
  ///
  /// - Returns: whether it goes on: it is dropped if the connection has ended, unless another thread waits for it.
  public mutating func endWaiting(_ waiter: Waiter) -> Bool {
    guard waiter.holdsUp else { return true }
    assert(waitsForEvents > 0, "a wait ends twice")
    waitsForEvents -= 1
    return isOpen
  }

  /// Keeps a waiter if commits are withheld. A catch-up that begins later resumes it.
  ///
  /// - Returns: whether it is kept.
  public mutating func keepIfBehind(_ waiter: Waiter) -> Bool {
    guard isBehind else { return false }
    withholding.waiters.append(waiter)
    return true
  }

  /// Removes and returns all waiters if no commit is withheld. The front end is to resume each, or to have it wait for the
  /// hub again.
  public mutating func takeWaiters() -> [Waiter] {
    guard !isBehind else { return [] }
    defer {
      withholding.readyWaiters = []
      withholding.waiters = []
    }
    return withholding.readyWaiters + withholding.waiters
  }
}
