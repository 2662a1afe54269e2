import CanopyTesting
import CanopyTree
import CanopyWire
import Testing

@testable import CanopyEngine
@testable import CanopySession

/// Commits that are withheld from a client that reads slowly.
struct WithholdingTests {
  private static let bound = 16_000

  static func session(subscriptions: Int) throws -> Session {
    var limits = Limits()
    limits.queuedBytesMax = bound
    var session = Session(limits: limits)
    for slot in 0..<subscriptions { try begin(slot, &session) }
    return session
  }

  /// Begins a subscription.
  private static func begin(_ slot: Int, _ session: inout Session) throws {
    let listening = Listening(try Path("a/\(slot)"))
    let number = try subscribe(listening, slot, &session)
    finish(listening, number, &session)
  }

  private static func subscribe(
    _ listening: Listening, _ slot: Int, _ session: inout Session
  ) throws -> Int64 {
    try session.subscribe(
      SubscriptionRequest(subject: .tree(listening), isAuthorized: false), slot)
  }

  private static func finish(
    _ listening: Listening, _ number: Int64, _ session: inout Session
  ) {
    let start = ListenStart(listening, Snapshot(root: .absent, sequence: 1))
    let isWanted = session.started(number, .success(start), isLarge: { _ in false }) { _ in false }
    #expect(isWanted)
  }

  /// Withholds a commit. Returns whether that is within the bound.
  private static func withhold(
    from number: Int64, bytes: Int = 0, grown: Int = 0, idleMilliseconds: Int64 = 0,
    _ session: inout Session
  ) -> Bool {
    session.withhold(
      from: number, bytes: bytes, grown: grown, idleMilliseconds: idleMilliseconds)
  }

  @Test
  func `events are withheld beyond a part of the bound, a larger one if the transport is writable`()
    throws
  {
    let session = try Self.session(subscriptions: 1)
    for (isWritable, part) in [(false, 64), (true, 4)] {
      for excess in 0...1 {
        let withholds = session.withholdsEvents(
          unsentEventBytes: Self.bound / part + excess, isWritable: isWritable)
        #expect(withholds == (excess == 1))
      }
    }
    for excess in 0...1 {
      var hasRoom = session.hasRoomForWithheld(unsentEventBytes: Self.bound / 64 + excess)
      #expect(hasRoom == (excess == 0))
      hasRoom = session.hasRoomForWithheld(
        unsentEventBytes: Self.bound / 4 + excess, isAwaited: true)
      #expect(hasRoom == (excess == 0))
    }
  }

  @Test func `no events are withheld while a subscription begins, because its reply does not wait`()
    throws
  {
    var session = try Self.session(subscriptions: 1)
    let listening = Listening(try Path("b"))
    let number = try Self.subscribe(listening, 7, &session)
    var withholds = session.withholdsEvents(unsentEventBytes: .max, isWritable: false)
    #expect(!withholds)
    Self.finish(listening, number, &session)
    withholds = session.withholdsEvents(unsentEventBytes: .max, isWritable: false)
    #expect(withholds)
  }

  @Test func `while a subscription begins, events may wait up to the bound, and not a byte more`()
    throws
  {
    var session = try Self.session(subscriptions: 1)
    for (unsent, isSent) in [(Self.bound - 10, true), (Self.bound - 9, false), (0, true)] {
      let bytes = unsent > 0 ? 10 : 2 * Self.bound
      let outcome = session.admit(
        [], bytes: ValueBytes(json: bytes), for: 1, unsentEventBytes: unsent)
      switch outcome {
      case .send: #expect(isSent)
      case .overloaded: #expect(!isSent)
      default: Issue.record("\(outcome)")
      }
    }
  }

  @Test func `withheld commits are charged up to the bound, for all subscriptions together`() throws
  {
    var session = try Self.session(subscriptions: 2)
    let before = session.ledger
    var isWithin = Self.withhold(from: 1, grown: Self.bound - 100, &session)
    #expect(isWithin && session.isBehind)
    isWithin = Self.withhold(from: 2, grown: 100, &session)
    #expect(isWithin && session.ledger.heldEvents == Self.bound)
    var withholds = session.withholdsEvents(unsentEventBytes: 0, isWritable: true)
    #expect(withholds)
    isWithin = Self.withhold(from: 2, grown: 1, &session)
    #expect(!isWithin)
    session.endWithholding(from: 1)
    #expect(session.ledger.heldEvents == 101 && session.isBehind)
    session.endWithholding(from: 2)
    session.endWithholding(from: 2)
    #expect(session.ledger == before && !session.isBehind)
    withholds = session.withholdsEvents(unsentEventBytes: 0, isWritable: true)
    #expect(!withholds)
  }

  @Test
  func `a client that reads nothing for long may miss commits up to the bound, others more`()
    throws
  {
    var session = try Self.session(subscriptions: 1)
    let max = Session.idleMillisecondsMax
    let steps = [
      (Self.bound - 1, max + 1, true), (1, max + 1, true), (1, max + 1, false),
      // The kernel may not have accepted anything for a while.
      (100 * Self.bound, max, true), (1, max + 1, false),
      // It has read something.
      (Self.bound, 0, true), (1, max, true), (1, 0, true), (Self.bound - 2, max + 1, true),
      (1, max + 1, true), (1, max + 1, false),
    ]
    for (index, (bytes, idleMilliseconds, expected)) in steps.enumerated() {
      let isWithin = Self.withhold(
        from: 1, bytes: bytes, idleMilliseconds: idleMilliseconds, &session)
      #expect(isWithin == expected, "step \(index)")
    }
    // It has read everything.
    session.endWithholding(from: 1)
    for (bytes, expected) in [(Self.bound, true), (1, false)] {
      let isWithin = Self.withhold(from: 1, bytes: bytes, idleMilliseconds: max + 1, &session)
      #expect(isWithin == expected)
    }
  }

  @Test func `an event of any size follows those before which nothing is withheld`() throws {
    var session = try Self.session(subscriptions: 1)
    for (unsent, isSent) in [(Self.bound / 4, true), (Self.bound / 4 + 1, false)] {
      let outcome = session.admit(
        [], bytes: ValueBytes(json: 2 * Self.bound), for: 1, unsentEventBytes: unsent)
      switch outcome {
      case .send: #expect(isSent)
      case .overloaded: #expect(!isSent)
      default: Issue.record("\(outcome)")
      }
    }
  }

  @Test(arguments: [false, true])
  func `the end of the connection waits until no commit is withheld, or a catch-up has ended`(
    _ endsCatchUp: Bool
  ) throws {
    var session = try Self.session(subscriptions: 2)
    while session.nextAction() != nil {}
    for number in [1, 2] as [Int64] { _ = Self.withhold(from: number, grown: 1, &session) }
    // The front end delays the read.
    session.receive(.read(.ping), bytes: 10)
    session.endInput()
    var closes = Self.closes(&session)
    #expect(!closes)
    try session.unsubscribe(1)
    let begins = session.beginCatchUp()
    closes = Self.closes(&session)
    #expect(begins && !closes)
    if endsCatchUp {
      Self.catchUpAndFallBehind([2], &session)
      let waiters = session.endCatchUp()
      #expect(waiters.isEmpty && session.isBehind)
    } else {
      session.endWithholding(from: 2)
    }
    closes = Self.closes(&session)
    #expect(closes)
  }

  /// Subscriptions get the commits that were withheld from them, and miss one that comes before the end of the catch-up.
  private static func catchUpAndFallBehind(_ expected: [Int64], _ session: inout Session) {
    var numbers: [Int64] = []
    while let number = session.nextToCatchUp(unsentEventBytes: 0, { _ in true }) {
      numbers.append(number)
      _ = withhold(from: number, grown: 1, &session)
    }
    #expect(numbers == expected)
  }

  private static func closes(_ session: inout Session) -> Bool {
    var closes = false
    while let action = session.nextAction() {
      if case .close = action { closes = true }
    }
    return closes
  }

  @Test
  func `a reply waits for the end of a catch-up that began after it, and not for later commits`()
    throws
  {
    var session = try Self.session(subscriptions: 1)
    while session.nextAction() != nil {}
    _ = Self.withhold(from: 1, grown: 1, &session)
    var slots: [Session.Slot] = []
    for number in 0..<3 {
      session.receive(.write(.blog(.rename(username: "\(number)"))), bytes: 10)
      if case .begin(_, let slot)? = session.nextAction() { slots.append(slot) }
    }
    #expect(slots.count == 3)
    func replies() -> Int {
      var count = 0
      while let action = session.nextAction() {
        switch action {
        case .send, .sendAfterEvents: count += 1
        default: break
        }
      }
      return count
    }
    session.finish(slots[0], Session.Completion(.null))
    #expect(replies() == 0)
    var begins = session.beginCatchUp()
    session.finish(slots[1], Session.Completion(.null))
    // A commit comes before the end, and many events are unsent.
    Self.catchUpAndFallBehind([1], &session)
    var waiters = session.endCatchUp()
    #expect(begins && waiters.isEmpty)
    session.setUnsent(bytes: 1, unencoded: 1, isWritable: true)
    #expect(replies() == 0)
    session.setUnsent(bytes: 0, isWritable: true)
    #expect(replies() == 1)
    // The second one finished later than that catch-up began, and the third finishes later than the next one begins.
    begins = session.beginCatchUp()
    session.finish(slots[2], Session.Completion(.null))
    Self.catchUpAndFallBehind([1], &session)
    waiters = session.endCatchUp()
    #expect(begins && waiters.isEmpty)
    #expect(replies() == 1)
    session.endWithholding(from: 1)
    #expect(replies() == 1)
  }

  @Test(arguments: 0..<4)
  func `whatever way a subscription ends, nothing stays charged`(_ ending: Int) throws {
    var session = try Self.session(subscriptions: 2)
    for number in [1, 2] as [Int64] { _ = Self.withhold(from: number, grown: 5, &session) }
    #expect(session.isBehind && session.ledger.heldEvents == 10)
    switch ending {
    case 0: for number in [1, 2] as [Int64] { try session.unsubscribe(number) }
    case 1: for number in [1, 2] as [Int64] { session.cancel(number, .permissionDenied) }
    case 2: session.lose()
    default: _ = session.abandon(because: WireError(.overloaded, "it must end"))
    }
    #expect(!session.isBehind && session.ledger.heldEvents == 0)
    // A commit for a subscription that has ended is not charged.
    _ = Self.withhold(from: 1, grown: 5, &session)
    #expect(!session.isBehind && session.ledger.heldEvents == 0)
  }
}
