package import NIOCore

/// Bounds the time for which the requests of one connection occupy an event loop.
///
/// A client may send thousands of requests at once. A connection carries out requests for half a millisecond;
/// then it waits for its turn in the `LoopTurns`. In one round of the loop, between two checks for input,
/// all connections together have two milliseconds, but each carries out at least a few requests. So a
/// client that sends one request at a time does not wait for the clients that send thousands.
///
/// Use it on its loop only.
package final class WorkBudget {
  /// The number of requests after which the clock is read, as reading it has a cost.
  package static let requestsPerLook = 4
  /// The bytes of lines after which the clock is read.
  package static let bytesPerLook = 1024
  /// The bytes of a reply that take as much time as a byte of a line. So the clock is read after 16 KiB of replies.
  private static let replyBytesPerLineByte = 16
  private static let turnMax = TimeAmount.microseconds(500)
  private static let roundMax = TimeAmount.milliseconds(2)

  /// The requests that one connection carries out before another connection has its turn.
  package struct Turn {
    fileprivate var round: UInt64 = 0
    fileprivate var count = 0
    fileprivate var bytes = 0
    fileprivate var end: NIODeadline?
    package fileprivate(set) var isOver = false

    /// Creates the turn of a connection that has carried out nothing.
    package init() {}

    /// Notes that the input of one read is decoded. The loop reads other connections before this one again, so the
    /// requests of a client that sends few at a time do not add up, and the clock is not read for them.
    package mutating func endRead() {
      if end == nil { (count, bytes) = (0, 0) }
    }

    /// Notes a reply, so that the clock is read at the next request if the reply was long: it took as much time as several
    /// requests.
    package mutating func noteReply(bytes: Int) {
      self.bytes += max(0, bytes) / WorkBudget.replyBytesPerLineByte
    }

    fileprivate init(round: UInt64, end: NIODeadline? = nil) {
      self.round = round
      self.end = end
    }
  }

  private let loop: any EventLoop
  private let now: () -> NIODeadline
  @exclusivity(unchecked) private var round: UInt64 = 1
  /// The end of the round; nil until a connection reads the clock.
  @exclusivity(unchecked) private var roundEnd: NIODeadline?

  package init(loop: any EventLoop, now: @escaping () -> NIODeadline) {
    self.loop = loop
    self.now = now
  }

  /// Counts a request of a connection.
  ///
  /// - Parameter bytes: the length of its line.
  /// - Returns: whether the turn of the connection is over.
  package func count(_ turn: inout Turn, bytes: Int) -> Bool {
    if turn.round != round { turn = Turn(round: round) }
    turn.count += 1
    turn.bytes += bytes
    let looks =
      turn.count % WorkBudget.requestsPerLook == 0 || turn.bytes >= WorkBudget.bytesPerLook
    guard looks, !turn.isOver else { return turn.isOver }
    turn.bytes = 0
    let now = now()
    let end = turn.end ?? min(now + WorkBudget.turnMax, beginRound(now))
    turn.end = end
    turn.isOver = now >= end
    return turn.isOver
  }

  /// Returns a new turn for a connection that has waited for it. The turn has its full time, even if the
  /// round is almost over.
  package func nextTurn() -> Turn {
    let now = now()
    // The turn ends with the round at the latest.
    _ = beginRound(now)
    return Turn(round: round, end: now + WorkBudget.turnMax)
  }

  /// Returns the end of the round. Begins a round if there is none.
  private func beginRound(_ now: NIODeadline) -> NIODeadline {
    if let roundEnd { return roundEnd }
    let end = now + WorkBudget.roundMax
    roundEnd = end
    // The loop runs its tasks after it has handled the input of all connections.
    loop.assumeIsolated().execute { [self] in
      roundEnd = nil
      round &+= 1
    }
    return end
  }
}
