import CanopyTesting
import CanopyTree
import CanopyWire
import Testing

@testable import CanopyEngine
@testable import CanopySession

/// The memory that subscriptions take is charged to their connection.
struct SubscriptionLedgerTests {
  private struct Unexpected: Error {}

  private static func request(
    _ path: Path, _ query: Query = .all, since: Int64? = nil
  ) -> SubscriptionRequest {
    SubscriptionRequest(
      subject: .tree(Listening(path, query)), since: since, isAuthorized: true)
  }

  private static func start(_ path: Path) -> ListenStart {
    ListenStart(Listening(path), Snapshot(root: .absent, sequence: 1))
  }

  @Test func `a subscription is charged for its path and its query until it ends`() throws {
    var session = Session(limits: Limits())
    let short = Self.request(try Path("posts"))
    let key = String(repeating: "k", count: Limits.keyBytesMax)
    let path = try Path(Array(repeating: try Key(key), count: Limits.depthMax))
    let bound = Query.Bound(.string(Array(repeating: 0x61, count: Limits.boundBytesMax)))
    let long = Self.request(path, try Query(order: .child(path), lower: bound, upper: bound))
    #expect(short.bytes == SubscriptionRequest.baseBytes + SubscriptionRequest.keyBytes + 5)
    let pathBytes = Limits.depthMax * (Limits.keyBytesMax + SubscriptionRequest.keyBytes)
    #expect(
      long.bytes
        == SubscriptionRequest.baseBytes + 2 * pathBytes + 2 * Limits.boundBytesMax)
    let first = try session.subscribe(short, 0)
    let second = try session.subscribe(long, 1)
    #expect(session.ledger.subscriptions == short.bytes + long.bytes)
    #expect(session.ledger.total == short.bytes + long.bytes)
    try session.unsubscribe(first)
    #expect(session.ledger.subscriptions == long.bytes)
    #expect(throws: WireError.self) { try session.unsubscribe(first) }
    #expect(session.ledger.subscriptions == long.bytes)
    session.drop(second)
    #expect(session.ledger.total == 0)
  }

  /// - Parameters:
  ///   - keys: the keys of the path.
  ///   - bytes: the bytes that a subscription takes, as measured by the growth of a release process.
  @Test(arguments: [(keys: 1, bytes: 4_608), (31, 15_155)])
  func `a subscription is charged with the memory that it takes`(keys: Int, bytes: Int) throws {
    let path = try Path(Array(repeating: "a", count: keys).joined(separator: "/"))
    #expect((bytes...bytes + 512).contains(Self.request(path).bytes))
  }

  @Test func `whatever way a subscription ends, nothing stays charged`() throws {
    for seed in 0..<20 as Range<UInt64> {
      var random = SeededGenerator(seed: seed)
      var session = Session(limits: Limits())
      var numbers: [Int64] = []
      for slot in 0..<100 {
        let path = try Path("a/\(slot)")
        let since: Int64? = Bool.random(using: &random) ? 0 : nil
        let number = try session.subscribe(Self.request(path, since: since), slot)
        numbers.append(number)
        let other = numbers.randomElement(using: &random) ?? number
        switch Int.random(in: 0..<7, using: &random) {
        case 0:
          _ = session.started(
            number, .failure(WireError(.unavailable, "the journal fails")), isLarge: { _ in false }
          ) { _ in true }
        case 1:
          _ = session.started(number, .success(Self.start(path)), isLarge: { _ in false }) { _ in
            true
          }
        case 2:
          _ = session.started(number, .success(Self.start(path)), isLarge: { _ in false }) { _ in
            true
          }
          session.resumed(number, .failure(WireError(.overloaded, "too much")))
        case 3: try? session.unsubscribe(other)
        case 4: session.cancel(other, .permissionDenied)
        case 5: session.drop(other)
        default: break
        }
        while session.nextAction() != nil {}
        #expect(
          session.ledger.subscriptions
            == session.subscriptions.values.reduce(0) { $0 + $1.bytes })
      }
      #expect(session.ledger.subscriptions > 0)
      session.lose()
      #expect(session.ledger.subscriptions == 0)
      #expect(session.ledger.heldEvents == 0 && session.ledger.reserved == 0)
    }
  }

  @Test func `events that wait for a resumption are not copied for each further event`() throws {
    var session = Session(limits: Limits())
    let path = try Path("a")
    let number = try session.subscribe(Self.request(path, since: 0), 0)
    #expect(
      session.started(number, .success(Self.start(path)), isLarge: { _ in false }) { _ in true })
    var moves = 0
    var last: UnsafeRawPointer?
    let commit = Commit(sequence: 1, time: 0, assignments: [])
    let change = Change(commit: commit, views: ConcernedViews(), before: .absent, after: .absent)
    let notification = Notification(Listening(path), CommittedChange(change, bytes: 0))
    for _ in 0..<1_000 {
      let outcome = session.admit(
        [notification], bytes: ValueBytes(json: 1, memory: 10), for: number, unsentEventBytes: 0)
      guard case .held = outcome else { throw Unexpected() }
      guard case .resuming(_, _, let held)? = session.subscriptions[number]?.phase else {
        throw Unexpected()
      }
      let place = held.notifications.withUnsafeBytes { $0.baseAddress }
      if place != last { moves += 1 }
      last = place
    }
    #expect(moves <= 20, "the array moved \(moves) times")
    // The notifications, the values in them, and their texts.
    let each = Subscription.HeldEvents.notificationBytes + 11
    #expect(session.ledger.heldEvents == 1_000 * each)
    session.restart(number, at: 2)
    #expect(session.ledger.heldEvents == 0)
  }
}
