/// A catch-up: the subscriptions of a client that has read its events get the commits that were withheld, each the
/// difference to one version of the tree. The front end calls:
///
///     guard session.planCatchUp(unsentEventBytes: bytes) else { return }
///     // Soon:
///     if session.beginCatchUp() {
///       while let number = session.nextToCatchUp(unsentEventBytes: bytes, mayCatchUp) { deliver(to: number) }
///     }
///     for waiter in session.endCatchUp() where !session.keepIfBehind(waiter) { resume(waiter) }
///     session.finishCatchUp()
extension Session {
  /// Whether the front end is to begin a catch-up: all events are sent, and no catch-up is under way. It is then.
  public mutating func planCatchUp(unsentEventBytes: Int) -> Bool {
    guard unsentEventBytes == 0, !withholding.isCatchingUp else { return false }
    withholding.isCatchingUp = true
    return true
  }

  /// Notes that subscriptions are about to get the commits that were withheld, up to a version that has those of all
  /// replies and waiters that are ready now.
  ///
  /// - Returns: whether any commit is withheld.
  public mutating func beginCatchUp() -> Bool {
    guard isBehind else { return false }
    // The subscriptions that an earlier catch-up has left out go on with that one.
    if withholding.left.isEmpty { withholding.readyReplies = queue.readyReplies }
    withholding.readyWaiters += withholding.waiters
    withholding.waiters = []
    withholding.rest = nil
    return true
  }

  /// Returns the next subscription that gets its withheld commits; nil if none is left, or if there is no room. First
  /// come those for which there was no room before.
  ///
  /// - Parameters:
  ///   - unsentEventBytes: the bytes of events that the transport has not sent.
  ///   - mayCatchUp: whether the version of the catch-up has all commits that are withheld from a subscription.
  public mutating func nextToCatchUp(
    unsentEventBytes: Int, _ mayCatchUp: (Int64) -> Bool
  ) -> Int64? {
    let isAwaited = !withholding.readyWaiters.isEmpty
    guard hasRoomForWithheld(unsentEventBytes: unsentEventBytes, isAwaited: isAwaited) else {
      return nil
    }
    var rest = withholding.rest ?? subscriptionsBehind()
    defer { withholding.rest = rest }
    while let number = rest.popLast() {
      guard mayCatchUp(number) else { continue }
      withholding.left.remove(number)
      endWithholding(from: number)
      return number
    }
    return nil
  }

  /// Returns the subscriptions that are behind, in the reverse of the order in which they catch up.
  private mutating func subscriptionsBehind() -> [Int64] {
    let behind = subscriptions.filter { $0.value.withheldBytes != nil }.keys.sorted(by: >)
    withholding.left.formIntersection(behind)
    if withholding.left.isEmpty { withholding.left = Set(behind) }
    let left = withholding.left
    return behind.filter { !left.contains($0) } + behind.filter(left.contains)
  }

  /// Notes that the subscriptions have got the commits for which there was room. More may be withheld since it began.
  ///
  /// - Returns: the waiters that the version of the catch-up covers, if no commit is withheld. The reply to the first read
  ///   among them is sent whatever is unsent.
  public mutating func endCatchUp() -> [Waiter] {
    // Without room for any subscription it has led to no version.
    guard withholding.rest.take() != nil else { return [] }
    withholding.left = withholding.left.filter { subscriptions[$0]?.withheldBytes != nil }
    if withholding.left.isEmpty {
      withholding.coveredReplies = withholding.readyReplies
      withholding.hasCaughtUp = true
    }
    guard !isBehind else { return [] }
    withholding.isResuming = true
    defer { withholding.readyWaiters = [] }
    return withholding.readyWaiters
  }

  /// Notes that the waiters of the catch-up are resumed, so that another one may begin.
  public mutating func finishCatchUp() {
    withholding.isResuming = false
    withholding.isCatchingUp = false
  }
}
