/// The time since a client last read anything.
struct ReadProgress {
  /// The bytes that the transport had not sent at the last look.
  private var unsent = -1
  /// The time at which that number was new, in milliseconds since 1970.
  private var since: Int64 = 0

  /// Returns the milliseconds for which the transport has sent nothing.
  mutating func idleMilliseconds(unsent: Int, at now: Int64) -> Int64 {
    if unsent != self.unsent { (self.unsent, since) = (unsent, now) }
    return max(0, now - since)
  }
}
