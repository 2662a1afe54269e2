import CanopyTree
import CanopyWire
import Testing

@testable import CanopyClient

struct TransactionTests {
  private let fixture = SyncFixture()
  private let path: Path

  init() throws {
    path = try Path("count")
    _ = fixture.tree.connected()
  }

  @Test
  func `a transaction is visible at once, depends on its input, and ends without extra events`()
    throws
  {
    _ = try fixture.listen("count", to: "count", for: .value)
    _ = try fixture.received(try QuerySpec("count"), "", "5")
    let run = try begin()
    #expect(run.current == 5)
    #expect(fixture.texts(answer(run, 6)) == ["count value 6"])
    let (id, base, value) = try sent()
    #expect(base == 5 && value == 6)
    #expect(fixture.texts(try fixture.received(try QuerySpec("count"), "", "6")).isEmpty)
    let effects = fixture.tree.transactionAnswered(id, .committed)
    #expect(fixture.texts(effects).isEmpty)
    #expect(outcomes(effects) == ["1 committed 6"])
    #expect(fixture.tree.transactions.all.isEmpty && fixture.tree.writes.isEmpty)
  }

  @Test func `an unknown value is nil, and a conflict reports the current one`() throws {
    let run = try begin()
    #expect(run.current.isAbsent)
    _ = answer(run, 1)
    let (id, base, _) = try sent()
    #expect(base.isAbsent)
    let again = try #require(fixture.tree.transactionAnswered(id, .conflict(41)).runs.first)
    #expect(again.current == 41)
    _ = answer(again, 42)
    let (second, newBase, value) = try sent()
    #expect(newBase == 41 && value == 42)
    #expect(outcomes(fixture.tree.transactionAnswered(second, .committed)) == ["1 committed 42"])
  }

  @Test func `without local events nothing is visible before the confirmation`() throws {
    _ = try fixture.listen("count", to: "count", for: .value)
    _ = try fixture.received(try QuerySpec("count"), "", "5")
    let run = try begin(hasLocalEvents: false)
    #expect(fixture.texts(answer(run, 6)).isEmpty)
    let id = try sent().id
    #expect(
      fixture.texts(try fixture.received(try QuerySpec("count"), "", "6")) == ["count value 6"])
    #expect(fixture.texts(fixture.tree.transactionAnswered(id, .committed)).isEmpty)
  }

  @Test(.ported("FTransactionTest.testTransactionAbortsAfter25Retries"))
  func `after twenty-five conflicts it is abandoned and undone`() throws {
    _ = try fixture.listen("count", to: "count", for: .value)
    _ = try fixture.received(try QuerySpec("count"), "", "0")
    var run = try begin()
    for attempt in 1...TransactionQueue.attemptsMax {
      _ = answer(run, -1)
      let id = try sent().id
      let effects = fixture.tree.transactionAnswered(id, .conflict(Node(Int64(attempt))))
      if attempt < TransactionQueue.attemptsMax {
        run = try #require(effects.runs.first)
      } else {
        #expect(effects.runs.isEmpty)
        #expect(outcomes(effects) == ["1 tooManyConflicts 24"])
        #expect(fixture.texts(effects) == ["count value 0"])
      }
    }
    #expect(TransactionQueue.attemptsMax == 25)
  }

  @Test func `its function may abort it, at first and after a conflict`() throws {
    _ = try fixture.listen("count", to: "count", for: .value)
    _ = try fixture.received(try QuerySpec("count"), "", "5")
    #expect(outcomes(answer(try begin(), nil)) == ["1 aborted 5"])
    _ = answer(try begin(), 6)
    let again = try #require(
      fixture.tree.transactionAnswered(try sent().id, .conflict(9)).runs.first)
    let effects = answer(again, nil)
    #expect(outcomes(effects) == ["2 aborted 9"])
    #expect(fixture.texts(effects) == ["count value 5"])
  }

  @Test(arguments: ["", "count", "count/below"])
  func `a write at, above or below it overrides an unsent transaction`(
    place: String
  ) throws {
    let run = try begin()
    let (_, effects) = try fixture.set(place, #"{"count":7}"#)
    #expect(outcomes(effects).map { $0.prefix(12) } == ["1 overridden"])
    // The function's result comes too late.
    #expect(answer(run, 1).events.isEmpty)
    #expect(fixture.tree.transactions.all.isEmpty)
  }

  @Test(arguments: ["", "count", "count/below"])
  func `a write at, above or below it follows a transaction whose result is ready`(
    place: String
  ) throws {
    for isConflict in [false, true] {
      _ = answer(try begin(), 8)
      let second = answer(try begin(), 9)
      #expect(second.ended.isEmpty)
      // The second waits for the first, and ends at once.
      let (write, effects) = try fixture.set(place, "1")
      #expect(outcomes(effects).map { $0.split(separator: " ")[1] } == ["overridden"])
      let id = try sent().id
      guard case .write(write, _)? = fixture.tree.nextRequest() else {
        Issue.record("the write follows")
        return
      }
      let ended = fixture.tree.transactionAnswered(id, isConflict ? .conflict(5) : .committed)
      #expect(ended.runs.isEmpty)
      let outcome = isConflict ? "overridden" : "committed"
      #expect(outcomes(ended).map { $0.split(separator: " ")[1] == outcome } == [true])
      _ = fixture.tree.acknowledged(write)
      #expect(fixture.tree.transactions.all.isEmpty && fixture.tree.writes.isEmpty)
    }
  }

  @Test func `a transaction after a write that overrides another is sent after that write`() throws
  {
    _ = answer(try begin(), 8)
    let write = try fixture.set("count", "1").id
    let last = try begin()
    #expect(last.current == 1)
    _ = answer(last, 2)
    let first = try sent()
    #expect(first.value == 8, "the last one is not in its batch")
    guard case .write(write, _)? = fixture.tree.nextRequest() else {
      Issue.record("the write follows")
      return
    }
    #expect(fixture.tree.nextRequest() == nil, "the last one waits for the first")
    _ = fixture.tree.transactionAnswered(first.id, .committed)
    let (id, base, value) = try sent()
    #expect(id == last.id && base == 1 && value == 2)
  }

  @Test func `each of many conflicting transactions runs again once`() throws {
    let count = 50
    for number in 1...count { _ = answer(try begin(), Int64(number)) }
    let (first, _, _) = try sent()
    var effects = fixture.tree.transactionAnswered(first, .conflict(1_000))
    var calls = 0
    while let run = effects.runs.first {
      #expect(effects.runs.count == 1)
      #expect(run.current == Node(Int64(1_000 + calls)))
      calls += 1
      effects = answer(run, Int64(1_000 + calls))
    }
    #expect(calls == count)
    let (_, base, value) = try sent()
    #expect(base == 1_000 && value == Node(Int64(1_000 + count)))
  }

  @Test func `a transaction that aborts at its second call gives later ones its input`() throws {
    _ = answer(try begin(), 1)
    let (first, _, _) = try sent()
    let second = try begin()
    #expect(second.current == 1)
    _ = answer(second, 2)
    let again = try #require(
      fixture.tree.transactionAnswered(first, .conflict(7)).runs.first)
    let aborted = answer(again, nil)
    #expect(outcomes(aborted) == ["1 aborted 7"])
    #expect(aborted.runs.map(\.current) == [7])
  }

  @Test func `a write elsewhere does not affect it`() throws {
    _ = try begin()
    #expect(try fixture.set("other", "1").effects.ended.isEmpty)
    #expect(try fixture.set("coun", "1").effects.ended.isEmpty)
  }

  @Test
  func `a write overrides a sent transaction only if the server refuses it`()
    throws
  {
    for (answered, expected) in [
      (TransactionAnswer.committed, "committed"), (.conflict(9), "overridden"),
      (.refused(WireError(.permissionDenied, "no")), "overridden"),
    ] {
      _ = answer(try begin(), 1)
      let id = try sent().id
      let (write, effects) = try fixture.set("count", "100")
      #expect(effects.ended.isEmpty)
      let ended = fixture.tree.transactionAnswered(id, answered)
      #expect(ended.runs.isEmpty)
      #expect(outcomes(ended).map { $0.split(separator: " ")[1] } == [expected[...]])
      _ = fixture.sent()
      _ = fixture.tree.acknowledged(write)
    }
  }

  @Test func `a refused transaction is undone and its error reported`() throws {
    _ = try fixture.listen("count", to: "count", for: .value)
    _ = try fixture.received(try QuerySpec("count"), "", "5")
    _ = answer(try begin(), 6)
    let effects = fixture.tree.transactionAnswered(
      try sent().id, .refused(WireError(.permissionDenied, "no")))
    #expect(fixture.texts(effects) == ["count value 5"])
    #expect(outcomes(effects).map { $0.prefix(9) } == ["1 refused"])
  }

  @Test func `waiting transactions of one location are sent together`() throws {
    let first = try begin()
    _ = answer(first, 1)
    let second = try begin()
    #expect(second.current == 1)
    _ = answer(second, 2)
    let third = try begin()
    _ = answer(third, 3)
    let (id, base, value) = try sent()
    #expect(base.isAbsent && value == 3)
    #expect(fixture.tree.nextRequest() == nil)
    // The first is tried again; the others after its reply.
    let conflict = fixture.tree.transactionAnswered(id, .conflict(10))
    #expect(conflict.runs.map(\.current) == [10])
    let again = answer(try #require(conflict.runs.first), 11)
    #expect(again.runs.map(\.current) == [11])
    let last = answer(try #require(again.runs.first), 12)
    #expect(last.runs.map(\.current) == [12])
    _ = answer(try #require(last.runs.first), 13)
    let (batch, newBase, newValue) = try sent()
    #expect(newBase == 10 && newValue == 13)
    #expect(
      outcomes(fixture.tree.transactionAnswered(batch, .committed))
        == ["1 committed 11", "2 committed 12", "3 committed 13"])
  }

  @Test func `a transaction waits for an earlier one above or below it`() throws {
    let upper = try begin(at: "a")
    _ = answer(upper, 1)
    let lower = try begin(at: "a/b")
    _ = answer(lower, 2)
    let (id, _, _) = try sent()
    #expect(id == upper.id)
    #expect(fixture.tree.nextRequest() == nil)
    _ = fixture.tree.transactionAnswered(id, .committed)
    #expect(try sent().id == lower.id)
  }

  @Test func `it runs again if the data changes before it is sent`() throws {
    _ = fixture.tree.disconnected()
    _ = fixture.tree.connected()
    _ = try fixture.listen("count", to: "count", for: .value)
    let run = try begin()
    _ = answer(run, 1)
    let effects = try fixture.received(try QuerySpec("count"), "", "7")
    #expect(effects.events.isEmpty)
    let again = try #require(effects.runs.first)
    #expect(again.current == 7)
    #expect(answer(run, 1).events.isEmpty, "the first answer is stale")
    #expect(fixture.tree.nextRequest() == nil, "not while its function runs")
    #expect(fixture.texts(answer(again, 8)) == ["count value 8"])
  }

  @Test func `it is sent again on a new connection`() throws {
    _ = answer(try begin(), 1)
    let id = try sent().id
    _ = fixture.tree.disconnected()
    #expect(fixture.tree.nextRequest() == nil)
    #expect(fixture.tree.transactionAnswered(id, .committed).ended.isEmpty)
    _ = fixture.tree.connected()
    #expect(try sent().id == id)
  }

  @Test func `writes made before it are sent before it`() throws {
    let write = try fixture.set("count", "4").id
    let run = try begin()
    #expect(run.current == 4)
    _ = answer(run, 5)
    guard case .write(write, _)? = fixture.tree.nextRequest() else {
      Issue.record("the write goes first")
      return
    }
    #expect(try sent().base == 4)
  }

  // MARK: Support

  private func begin(
    at place: String = "count", hasLocalEvents: Bool = true
  ) throws -> TransactionRun {
    let (_, effects) = fixture.tree.beginTransaction(
      at: try Path(place), hasLocalEvents: hasLocalEvents)
    return try #require(effects.runs.first)
  }

  private func answer(_ run: TransactionRun, _ value: Int64?) -> Effects {
    fixture.tree.transactionRan(
      run.id, attempt: run.attempt, returning: value.map { WriteValue(Node($0)) }, at: 0)
  }

  private func sent() throws -> (id: TransactionID, base: Node, value: Node) {
    guard case .compareAndSet(let id, _, let base, let value)? = fixture.tree.nextRequest() else {
      throw TreeError.invalidData("no transaction to send")
    }
    return (id, base, value.node)
  }

  private func outcomes(_ effects: Effects) -> [String] {
    effects.ended.map { end in
      let name = "\(end.outcome)".prefix { $0 != "(" }
      return "\(end.id.number) \(name) \(end.node.json())"
    }
  }
}
