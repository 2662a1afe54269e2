import CanopyTesting
import CanopyTree
import CanopyWire
import NIOCore
import Synchronization
import Testing

@testable import CanopyEngine
@testable import CanopyEvents

/// The rules that a hub asks before it delivers events, and that take many steps.
struct CheckedDeliveryTests {
  private final class Reader: Subscriber {
    private(set) var linesCount = 0
    private(set) var cancelled: [Int64] = []
    private(set) var longChecks = 0

    func accepts(_ notifications: [Notification], bytes: ValueBytes, for subscription: Int64)
      -> Bool
    { true }

    func send(events lines: ByteBuffer) { linesCount += 1 }

    func send(eventHead head: ByteBuffer, rest: ByteBuffer) { linesCount += 1 }

    func send(events lines: LinePieces) { linesCount += 1 }

    func noteLongCheck(of subscription: Int64) { longChecks += 1 }

    func cancel(_ subscription: Int64, _ code: WireError.Code) { cancelled.append(subscription) }
  }

  /// Returns a commit that changes a child of `a`.
  private static func change(_ sequence: Int64) throws -> CommittedChange {
    var tree = Tree(root: Node(children: [("a", Node(children: [("x", Node(sequence - 1))]))]))
    let before = tree.root
    let assignments = [Assignment(Location(try Path("a/x")), Node(sequence))]
    tree.apply(assignments)
    return CommittedChange(
      Change(
        commit: Commit(sequence: sequence, time: 0, assignments: assignments),
        views: ConcernedViews(), before: before, after: tree.root), bytes: 10)
  }

  /// The number of times that the rules were asked with a bound on their steps, and without.
  private final class Counts: Sendable {
    let brief = Mutex(0)
    let long = Mutex(0)

    var asked: [Int] { [brief.withLock { $0 }, long.withLock { $0 }] }
  }

  /// Adds the listener of a subscription, whose verdict waits.
  private static func add(
    _ number: Int, _ listening: Listening, to authorizations: ListenAuthorizations,
    _ counts: Counts, steps: Int, isAllowed: Bool = true, dependsOnQuery: Bool = false
  ) {
    let verdict = ReadVerdict(isAllowed: isAllowed, dependsOnQuery: dependsOnQuery)
    let authorization = ListenAuthorization(subject: .init(caller: nil, listening)) {
      _, _, stepsLeft in
      guard stepsLeft != .max else {
        counts.long.withLock { $0 += 1 }
        return verdict
      }
      counts.brief.withLock { $0 += 1 }
      guard steps <= stepsLeft else { return nil }
      stepsLeft -= steps
      return verdict
    }
    authorizations.add(
      number, authorization, ReadVerdict(isAllowed: true), at: 0, after: 0, isChecked: true,
      denied: {})
  }

  @Test(arguments: [0, 1], [true, false])
  func `a hub asks rules with many steps on another thread`(
    excess: Int, isAllowed: Bool
  ) async throws {
    for carriesOut in [true, false] {
      try await withEngine { engine in
        let counts = Counts()
        let listening = Listening(try Path("a"), form: .value)
        Self.add(
          1, listening, to: engine.authorizations, counts,
          steps: CheckedVerdicts.stepsMax + excess, isAllowed: isAllowed)
        _ = engine.authorizations.waitForVerdicts(since: 1)
        let view = LocalView(listening, Limits(), number: 0)
        let readers = (0..<2 * ViewDelivery.movedMax).map { _ in Reader() }
        for reader in readers {
          let subscription = HubSubscription(number: 1, isAuthorized: true, subscriber: reader)
          subscription.listener = ListenerID(number: 1)
          view.add(subscription)
        }
        let change = try Self.change(2)
        let delivery = view.delivery(
          of: [(change.notification(for: listening), change)], in: engine)
        var works = 0
        while let step = delivery.step() {
          guard let work = step.work else { continue }
          works += 1
          #expect(counts.asked == [1, 0] && readers.allSatisfy { $0.linesCount == 0 })
          if carriesOut { work() }
        }
        #expect(works == excess)
        #expect(counts.asked == [1, excess])
        #expect(readers.reduce(0) { $0 + $1.longChecks } == excess * ViewDelivery.movedMax)
        for reader in readers {
          #expect(reader.cancelled == (isAllowed ? [] : [1]))
          // A subscription ends in its connection, which this test has not.
          if isAllowed { #expect(reader.linesCount == 1) }
        }
      }
    }
  }

  @Test(arguments: [false, true], [1, Int.max])
  func `a hub asks once for all queries of a caller if the rules do not read the query`(
    dependsOnQuery: Bool, steps: Int
  ) async throws {
    try await withEngine { engine in
      let counts = Counts()
      let count = 60
      let reader = Reader()
      let views = try (1...count).map { number in
        let query = try Query(order: .key, limit: .first(number))
        let listening = Listening(try Path("a"), query)
        Self.add(
          number, listening, to: engine.authorizations, counts, steps: steps,
          dependsOnQuery: dependsOnQuery)
        let view = LocalView(listening, Limits(), number: number)
        let subscription = HubSubscription(
          number: Int64(number), isAuthorized: true, subscriber: reader)
        subscription.listener = ListenerID(number: number)
        view.add(subscription)
        return view
      }
      _ = engine.authorizations.waitForVerdicts(since: 1)
      let checked = CheckedVerdicts()
      for (index, sequence) in [Int64(2), 3].enumerated() {
        let change = try Self.change(sequence)
        for view in views {
          let delivery = view.delivery(
            of: [(change.notification(for: view.listening), change)], in: engine, checked: checked)
          while let step = delivery.step() { step.work?() }
        }
        let asked = (index + 1) * (dependsOnQuery ? count : 1)
        // Rules that take many steps for one query are not tried with few for the others.
        #expect(counts.asked == (steps == 1 ? [asked, 0] : [index + 1, asked]))
        #expect(reader.linesCount == (index + 1) * count)
      }
    }
  }
}
