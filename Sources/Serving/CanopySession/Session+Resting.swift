/// Connections that may end when others need their place or the memory of their namespace.
extension Session {
  /// Whether the connection has no requests, on-disconnect writes and subscriptions besides those to constants, so that
  /// its client loses nothing if the connection ends and begins again, with the same login. Never that of the
  /// administrator.
  public var isResting: Bool {
    if case .administrator = identity { return false }
    return isOpen && queue.isIdle && !hasBacklog && actions.isEmpty && armed.isEmpty
      && armingSlot == nil
      && subscriptions.values.allSatisfy { $0.listening == nil }
  }

  /// Whether the connection does nothing but wait until its client reads. It has no request under way, no on-disconnect
  /// writes and no subscriptions besides those to constants. Never that of the administrator.
  private var waitsForReader: Bool {
    if case .administrator = identity { return false }
    return isOpen && !canBegin && waitsForEvents == 0 && queue.underWay == 0 && armed.isEmpty
      && armingSlot == nil && awaitingAuthorization == nil
      && subscriptions.values.allSatisfy { $0.listening == nil }
  }

  /// Whether the connection waits for its client, which has read nothing for `Session.idleMillisecondsMax`. The time
  /// counts from the first look.
  ///
  /// - Parameters:
  ///   - unsent: the bytes that the transport has not sent.
  ///   - now: the time in milliseconds since 1970.
  public mutating func hasStoppedReading(unsent: Int, at now: Int64) -> Bool {
    guard waitsForReader else {
      noteReading()
      return false
    }
    return unreadProgress.idleMilliseconds(unsent: unsent, at: now) >= Session.idleMillisecondsMax
  }

  /// Notes that the client has read something.
  public mutating func noteReading() {
    unreadProgress = ReadProgress()
  }
}
