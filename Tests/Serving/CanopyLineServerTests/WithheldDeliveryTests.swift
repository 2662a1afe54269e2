import CanopyTesting
import CanopyTree
import CanopyWire
import NIOCore
import Testing

@testable import CanopyEngine
@testable import CanopyEvents

/// The delivery of commits to connections of which some read slowly, and the rules that are asked before.
struct WithheldDeliveryTests {
  private final class Reader: Subscriber {
    var isSlow = false
    private(set) var askedCount = 0
    var withholdsEvents: Bool {
      askedCount += 1
      return isSlow
    }
    private(set) var linesCount = 0
    private(set) var withheld: [Int64] = []
    private(set) var cancelled: [Int64] = []

    func accepts(_ notifications: [Notification], bytes: ValueBytes, for subscription: Int64)
      -> Bool
    { true }

    func send(events lines: ByteBuffer) { linesCount += 1 }

    func send(eventHead head: ByteBuffer, rest: ByteBuffer) { linesCount += 1 }

    func send(events lines: LinePieces) { linesCount += 1 }

    var onWithheld: () -> Void = {}

    func withhold(_ change: CommittedChange, from subscription: HubSubscription) {
      _ = subscription.withhold(change)
      withheld.append(change.sequence)
      onWithheld()
    }

    func cancel(_ subscription: Int64, _ code: WireError.Code) {
      cancelled.append(subscription)
    }
  }

  /// Returns a commit that changes the first of some children of `a`.
  private static func change(_ sequence: Int64, children count: Int = 3) throws -> CommittedChange {
    var tree = Tree(
      root: Node(children: [
        ("a", Node(children: (0..<Int32(count)).map { (Key(index: $0), 1) }))
      ]))
    let before = tree.root
    let assignments = [Assignment(Location(try Path("a/0")), 2)]
    tree.apply(assignments)
    return CommittedChange(
      Change(
        commit: Commit(sequence: sequence, time: 0, assignments: assignments),
        views: ConcernedViews(), before: before, after: tree.root), bytes: 10)
  }

  /// Whether the rules allow a subscription to get an event, after another loop has delivered the event or not.
  @Test(arguments: [true, false], [true, false])
  func `the rules are asked about an event, also after another loop has released its commit`(
    _ isAllowed: Bool, _ isReleased: Bool
  ) async throws {
    try await withEngine { engine in
      let authorizations = engine.authorizations
      authorizations.add(
        5,
        ListenAuthorization { root, _ in
          // The value after the commit is secret.
          ReadVerdict(isAllowed: isAllowed || root.child("a").child("0") != 2)
        }, ReadVerdict(isAllowed: true), at: 0, after: 0, isChecked: true, denied: {})
      // The rules have changed, and the engine has not asked them about the listener yet.
      _ = authorizations.waitForVerdicts(since: 6)
      let listening = Listening(try Path("a"), form: .value)
      let change = try Self.change(7)
      let notification = change.notification(for: listening)
      if isReleased { notification.releaseChange() }
      let view = LocalView(listening, Limits(), number: 0)
      let reader = Reader()
      let subscription = HubSubscription(number: 1, isAuthorized: true, subscriber: reader)
      subscription.listener = ListenerID(number: 5)
      view.add(subscription)
      let delivery = view.delivery(of: [(notification, change)], in: engine)
      while delivery.step() != nil { if !reader.cancelled.isEmpty { subscription.hasEnded = true } }
      #expect(reader.cancelled == (isAllowed ? [] : [1]))
      #expect(reader.linesCount == (isAllowed ? 1 : 0))
    }
  }

  @Test func `a commit is withheld from slow connections, and the others get its event`() throws {
    let listening = Listening(try Path("a"), form: .value)
    let view = LocalView(listening, Limits(), number: 0)
    let readers = (0..<3).map { _ in Reader() }
    for (index, reader) in readers.enumerated() {
      view.add(HubSubscription(number: Int64(index), isAuthorized: false, subscriber: reader))
    }
    func deliver(_ sequence: Int64, slow: Set<Int>) throws {
      for (index, reader) in readers.enumerated() {
        reader.isSlow = slow.contains(index)
      }
      let change = try Self.change(sequence)
      view.delivery(of: [(change.notification(for: listening), change)], in: nil).finish()
    }
    try deliver(1, slow: [])
    try deliver(2, slow: [1])
    try deliver(3, slow: [0, 1, 2])
    try deliver(4, slow: [])
    #expect(readers.map(\.withheld) == [[3], [2, 3], [3]])
    #expect(readers.map(\.linesCount) == [3, 2, 3])
  }

  @Test(arguments: [0, 1])
  func `a slow connection gets the events of a query with too many children`(_ excess: Int) throws {
    let count = WithheldChanges.childrenMax + excess
    let listening = Listening(
      try Path("a"), try Query(order: .key, limit: .first(2 * count)), form: .sync)
    let view = LocalView(listening, Limits(), number: 0)
    let reader = Reader()
    reader.isSlow = true
    view.add(HubSubscription(number: 1, isAuthorized: false, subscriber: reader))
    let change = try Self.change(1, children: count)
    view.delivery(of: [(change.notification(for: listening), change)], in: nil).finish()
    #expect(reader.linesCount == excess && reader.withheld.count == 1 - excess)
  }

  /// A view of the children of `a` that many connections have.
  private static func view(
    _ query: Query, readers: [Reader]
  ) throws -> (LocalView, subscriptions: [HubSubscription]) {
    let view = LocalView(Listening(try Path("a"), query), Limits(), number: 0)
    let subscriptions = readers.enumerated().map { index, reader in
      HubSubscription(number: Int64(index), isAuthorized: false, subscriber: reader)
    }
    for subscription in subscriptions { view.add(subscription) }
    return (view, subscriptions)
  }

  /// Begins the delivery of a commit to a view.
  private static func delivery(of change: CommittedChange, to view: LocalView) -> ViewDelivery {
    view.delivery(of: [(change.notification(for: view.listening), change)], in: nil)
  }

  @Test func `a step withholds a commit from one connection, and asks few whether they are slow`()
    throws
  {
    let readers = (0..<1_000).map { _ in Reader() }
    for reader in readers[500...] { reader.isSlow = true }
    let (view, _) = try Self.view(.all, readers: readers)
    let delivery = Self.delivery(of: try Self.change(1), to: view)
    var before = (withheld: 0, asked: 0, sent: 0)
    var isDone = false
    while !isDone {
      isDone = delivery.step() == nil
      let now = (
        withheld: readers.reduce(0) { $0 + $1.withheld.count },
        asked: readers.reduce(0) { $0 + $1.askedCount },
        sent: readers.reduce(0) { $0 + $1.linesCount }
      )
      try #require(now.withheld - before.withheld <= 1)
      try #require(now.asked - before.asked <= 64)
      try #require(now.sent == 0 || now.withheld == 500, "it is decided before anything is sent")
      before = now
    }
    #expect(readers.allSatisfy { $0.askedCount == 1 })
    #expect(readers[..<500].allSatisfy { $0.withheld.isEmpty && $0.linesCount == 1 })
    #expect(readers[500...].allSatisfy { $0.withheld == [1] && $0.linesCount == 0 })
  }

  @Test
  func `a connection that ends while others are asked gets nothing, and the others get it once`()
    throws
  {
    let readers = (0..<6).map { _ in Reader() }
    for reader in readers[..<4] { reader.isSlow = true }
    let (view, subscriptions) = try Self.view(.all, readers: readers)
    let delivery = Self.delivery(of: try Self.change(1), to: view)
    // The first connection is asked.
    _ = delivery.step()
    for index in [1, 4] { subscriptions[index].hasEnded = true }
    // It reads on, but its fate is decided.
    readers[0].isSlow = false
    delivery.finish()
    #expect(readers.map(\.withheld) == [[1], [], [1], [1], [], []])
    #expect(readers.map(\.linesCount) == [0, 0, 0, 0, 0, 1])
  }

  @Test func `a step that leads to the next one withholds a commit once`() throws {
    let readers = (0..<5).map { _ in Reader() }
    for reader in readers { reader.isSlow = true }
    let (view, _) = try Self.view(.all, readers: readers)
    let delivery = Self.delivery(of: try Self.change(1), to: view)
    for reader in readers { reader.onWithheld = { _ = delivery.step() } }
    delivery.finish()
    #expect(readers.allSatisfy { $0.withheld == [1] && $0.linesCount == 0 })
  }

  #if CANOPY_COUNT_WORK
    @Test func `the list that slow connections know is made once for all of them`() throws {
      let query = try Query(order: .key, limit: .last(1_000))
      func work(_ count: Int) throws -> Int {
        let readers = (0..<count).map { _ in Reader() }
        for reader in readers { reader.isSlow = true }
        let (view, subscriptions) = try Self.view(query, readers: readers)
        let delivery = Self.delivery(of: try Self.change(1, children: 2_000), to: view)
        let nodes = WorkCounter.nodesTouched { delivery.finish() }
        #expect(subscriptions.allSatisfy { $0.isBehind })
        return nodes
      }
      let (one, many) = (try work(1), try work(100))
      #expect(many <= one + 100, "\(one) nodes for one connection and \(many) for 100")
    }

    /// Whether the list is made on the event loop or beside it, and whether beside works at all.
    @Test(arguments: [(0, true), (1, true), (1, false)])
    func `a list without an index is sorted on another thread`(
      _ excess: Int, _ isBegun: Bool
    ) throws {
      let reader = Reader()
      reader.isSlow = true
      let (view, subscriptions) = try Self.view(
        try Query(order: .value, limit: .last(3)), readers: [reader])
      let count = EventHub.comparedChildrenMax + excess
      let delivery = Self.delivery(of: try Self.change(1, children: count), to: view)
      var (works, touched) = (0, 0)
      var step: ViewDelivery.Step?
      repeat {
        touched += WorkCounter.nodesTouched { step = delivery.step() }
        if let work = step?.work {
          works += 1
          if isBegun { work() }
        }
      } while step != nil
      #expect(works == excess)
      #expect((touched < 50) == (excess == 1 && isBegun), "\(touched) nodes")
      #expect(reader.withheld == [1] && subscriptions[0].isBehind)
    }

    @Test func `a subscription that has ended while its events are computed costs nothing more`()
      throws
    {
      let reader = Reader()
      let (view, subscriptions) = try Self.view(
        try Query(order: .value, limit: .last(3)), readers: [reader])
      let count = EventHub.comparedChildrenMax + 1
      let delivery = Self.delivery(of: try Self.change(1, children: count), to: view)
      let step = try #require(delivery.step())
      let work = try #require(step.work)
      subscriptions[0].hasEnded = true
      work()
      let touched = WorkCounter.nodesTouched { delivery.finish() }
      #expect(touched == 0 && reader.linesCount == 0)
    }
  #endif
}
