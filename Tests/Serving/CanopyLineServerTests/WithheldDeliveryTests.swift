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
    var withholdsEvents = false
    private(set) var linesCount = 0
    private(set) var withheld: [Int64] = []
    private(set) var cancelled: [Int64] = []

    func accepts(_ notifications: [Notification], bytes: ValueBytes, for subscription: Int64)
      -> Bool
    { true }

    func send(events lines: ByteBuffer) { linesCount += 1 }

    func send(eventHead head: ByteBuffer, rest: ByteBuffer) { linesCount += 1 }

    func send(events lines: LinePieces) { linesCount += 1 }

    func withhold(_ change: CommittedChange, from subscription: HubSubscription) {
      _ = subscription.withhold(change)
      withheld.append(change.sequence)
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
          ListenVerdict(isAllowed: isAllowed || root.child("a").child("0") != 2)
        }, ListenVerdict(isAllowed: true), at: 0, isChecked: true, denied: {})
      // The rules have changed, and the engine has not asked them about the listener yet.
      authorizations.wait(authorizations.cases(of: nil), since: 6)
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
        reader.withholdsEvents = slow.contains(index)
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
    reader.withholdsEvents = true
    view.add(HubSubscription(number: 1, isAuthorized: false, subscriber: reader))
    let change = try Self.change(1, children: count)
    view.delivery(of: [(change.notification(for: listening), change)], in: nil).finish()
    #expect(reader.linesCount == excess && reader.withheld.count == 1 - excess)
  }
}
