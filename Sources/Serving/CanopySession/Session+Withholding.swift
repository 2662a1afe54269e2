internal import CanopyTree

/// Withholding commits from the subscriptions of a client that reads more slowly than events come.
///
/// When the unsent events of a connection have more than a part of `Limits.queuedBytesMax`, the connection is behind. The
/// front end then keeps no further events for it, but the versions that its subscriptions know. When the unsent events are
/// sent, each subscription gets the difference to the present version: that is a catch-up. A reply never precedes the
/// events of earlier commits. So it waits until a catch-up has ended that began after it. Commits may go on without end,
/// and more of them be withheld after each catch-up: replies and requests still go on between two of them.
extension Session {
  /// The commits that are withheld.
  struct Withholding {
    /// The number of subscriptions from which commits are withheld.
    var count = 0
    /// The bytes charged for them.
    var bytes = 0
    /// The time since the client last read anything, since the first commit was withheld.
    var progress = ReadProgress()
    /// The bytes of the commits that were withheld since the client last read anything.
    var bytesSinceProgress = 0
    /// The first replies of the queue that were ready when the catch-up under way began.
    var readyReplies = 0
    /// The first replies of the queue that follow no event that is withheld.
    var coveredReplies = 0
    /// Whether the next reply is of the version to which a catch-up has led, and must not be sent later.
    var sendsNextReply = false
    /// The waiters that the next catch-up resumes.
    var waiters: [Waiter] = []
    /// The waiters at the beginning of the catch-up under way. The version to which it leads is at least as new as their
    /// requests.
    var readyWaiters: [Waiter] = []
    /// Whether a catch-up is planned or under way.
    var isCatchingUp = false
    /// The subscriptions that have not got their events since `readyReplies` was set. If there is no room for all, the next
    /// catch-up goes on with these.
    var left: Set<Int64> = []
    /// The subscriptions that wait for the catch-up under way, the next one last; nil before it has led to a version.
    var rest: [Int64]?
    /// Whether waiters are resumed with the version to which a catch-up has led.
    var isResuming = false
    /// Whether a catch-up has ended since the last request began.
    var hasCaughtUp = false

    /// Notes that the first reply of the queue is sent.
    mutating func noteReply() {
      readyReplies = max(0, readyReplies - 1)
      coveredReplies = max(0, coveredReplies - 1)
      sendsNextReply = false
    }
  }

  /// The divisor of `Limits.queuedBytesMax`: once the unsent events of a connection exceed the quotient, commits are
  /// withheld from it.
  ///
  /// Many slow clients together must not exceed the memory of all connections: then the one that holds the most ends.
  static let withheldPart = 64

  /// The divisor while the transport accepts more bytes. Then the client may read as fast as events come.
  static let withheldPartWhenWritable = 4

  /// Whether commits are withheld from a subscription, so that replies wait for the end of a catch-up.
  public var isBehind: Bool { withholding.count > 0 }

  /// Whether the next events are to be withheld. O(1) for a client that reads; else O(subscriptions).
  ///
  /// - Parameters:
  ///   - unsentEventBytes: the bytes of events that the transport has not sent.
  ///   - isWritable: whether the transport accepts more.
  public func withholdsEvents(unsentEventBytes: Int, isWritable: Bool) -> Bool {
    if isBehind { return true }
    let bytesMax = limits.queuedBytesMax / Session.withheldPart
    if unsentEventBytes <= bytesMax { return false }
    let writableBytesMax = limits.queuedBytesMax / Session.withheldPartWhenWritable
    if isWritable, unsentEventBytes <= writableBytesMax { return false }
    // The reply to a request for a subscription does not wait for the events of others.
    return isOpen && subscriptions.values.allSatisfy { $0.stage == .active }
  }

  /// Whether a withheld subscription may get its events, and the next one as well.
  ///
  /// - Parameters:
  ///   - unsentEventBytes: the bytes of events that the transport has not sent.
  ///   - isAwaited: whether a read waits until all subscriptions have got their events. Then there is more room.
  public func hasRoomForWithheld(unsentEventBytes: Int, isAwaited: Bool = false) -> Bool {
    let part = isAwaited ? Session.withheldPartWhenWritable : Session.withheldPart
    return isOpen && unsentEventBytes <= limits.queuedBytesMax / part
  }

  /// The milliseconds for which a client may read nothing while more commits come than `Limits.queuedBytesMax`.
  ///
  /// The kernel accepts bytes again when a third of its buffer is free: megabytes, for which a slow link takes long.
  public static let idleMillisecondsMax: Int64 = 60_000

  /// Charges a commit that is withheld from a subscription.
  ///
  /// - Parameters:
  ///   - bytes: the bytes of the commit.
  ///   - grown: the bytes by which the memory has grown.
  ///   - unsent: the bytes that the transport has not sent.
  ///   - now: the time in milliseconds since 1970.
  /// - Returns: whether the commits are within the bound. If not, the connection is to end.
  public mutating func withhold(
    from number: Int64, bytes: Int, grown: Int, unsent: Int, at now: Int64
  ) -> Bool {
    if !isBehind { withholding.progress = ReadProgress() }
    let idleMilliseconds = withholding.progress.idleMilliseconds(unsent: unsent, at: now)
    return withhold(
      from: number, bytes: bytes, grown: grown, idleMilliseconds: idleMilliseconds)
  }

  /// - Parameter idleMilliseconds: the time for which the transport has sent nothing.
  mutating func withhold(
    from number: Int64, bytes: Int, grown: Int, idleMilliseconds: Int64
  ) -> Bool {
    guard let present = subscriptions[number] else { return true }
    if present.withheldBytes == nil { withholding.count += 1 }
    if idleMilliseconds == 0 { withholding.bytesSinceProgress = 0 }
    withholding.bytesSinceProgress += bytes
    withholding.bytes += grown
    updateSubscription(number) { $0.withheldBytes = (present.withheldBytes ?? 0) + grown }
    charge(reserved: 0, heldEvents: grown)
    return withholding.bytes <= limits.queuedBytesMax
      && (withholding.bytesSinceProgress <= limits.queuedBytesMax
        || idleMilliseconds <= Session.idleMillisecondsMax)
  }

  /// Notes that a subscription gets the commits that were withheld from it.
  public mutating func endWithholding(from number: Int64) {
    var bytes: Int?
    updateSubscription(number) { bytes = $0.withheldBytes.take() }
    if let bytes { releaseWithheld(bytes) }
  }

  mutating func releaseWithheld(_ bytes: Int) {
    withholding.count -= 1
    withholding.bytes -= bytes
    if withholding.count == 0 { withholding.bytesSinceProgress = 0 }
    assert(withholding.count >= 0 && withholding.bytes >= 0, "a commit is released twice")
    charge(reserved: 0, heldEvents: -bytes)
  }
}
