import CanopyTesting
import CanopyTree
import Foundation
import Testing

@testable import CanopyClient

/// Transactions against a live server, as the original client runs them.
@Suite(.timeLimit(.minutes(5))) struct TransactionBehaviourTests {
  /// The end of a transaction.
  private struct End: Sendable {
    var code: DatabaseError.Code?
    var isCommitted: Bool
    var snapshot: DataSnapshot?
  }

  /// Runs a transaction, and adds its end to `ends`.
  private func run(
    _ place: DatabaseReference, _ ends: Received<End>, withLocalEvents localEvents: Bool = true,
    _ function: @escaping @Sendable (MutableData) -> TransactionResult
  ) {
    place.runTransactionBlock(
      function,
      andCompletionBlock: { error, isCommitted, snapshot in
        ends.add(
          End(
            code: (error as? DatabaseError)?.code, isCommitted: isCommitted, snapshot: snapshot))
      }, withLocalEvents: localEvents)
  }

  private func set(_ value: any Sendable) -> @Sendable (MutableData) -> TransactionResult {
    { data in
      data.value = value
      return .success(withValue: data)
    }
  }

  @Test(.ported("FTransactionTest.testTransactionSetSetWorks"))
  func `writes after a transaction follow it and do not replace it`() async throws {
    try await withBackend { backend in
      let root = try await backend.client().reference(withPath: "t")
      let seen = Received<String>()
      try await backend.client().reference(withPath: "t/0").observe(
        .value, with: { seen.add($0.text) })
      await seen.wait(for: 1)
      let ends = Received<End>()
      for number in 0..<100 {
        let place = root.child("\(number)")
        run(place, ends, set("hi"))
        place.startSet("foo")
        place.startSet("bar")
      }
      let all = await ends.wait(for: 100)
      #expect(all.filter { $0.isCommitted && $0.code == nil }.count == 100)
      #expect(all.allSatisfy { $0.snapshot?.value as? String == "hi" })
      _ = try await root.getData()
      for number in 0..<100 { #expect(try backend.node("t/\(number)") == "bar") }
      #expect(await seen.wait { $0.last == "bar" } == ["nothing", "hi", "foo", "bar"])
    }
  }

  @Test func `an update after a transaction follows it too`() async throws {
    try await withBackend { backend in
      let root = try await backend.client().reference(withPath: "t")
      let ends = Received<End>()
      for number in 0..<20 {
        run(root.child("\(number)"), ends, set(["a": 1, "b": 1]))
        root.startUpdate(["\(number)/a": 2])
      }
      #expect(await ends.wait(for: 20).allSatisfy { $0.isCommitted && $0.code == nil })
      _ = try await root.getData()
      for number in 0..<20 { #expect(try backend.node("t/\(number)") == json(#"{"a":2,"b":1}"#)) }
    }
  }

  @Test func `many transactions at one place call their functions once each`() async throws {
    try await withBackend { backend in
      let place = try await backend.client().reference(withPath: "n")
      let seen = Received<String>()
      // The value stays known, also if all transactions so far have ended.
      place.observe(.value, with: { seen.add($0.text) })
      await seen.wait(for: 1)
      let (calls, ends) = (Received<Int>(), Received<End>())
      let start = ContinuousClock.now
      for number in 0..<400 {
        run(place, ends) { data in
          calls.add(number)
          data.value = (data.value as? Int ?? 0) + 1
          return .success(withValue: data)
        }
      }
      let all = await ends.wait(for: 400)
      let time = ContinuousClock.now - start
      #expect(all.allSatisfy { $0.isCommitted })
      #expect(Set(all.compactMap { $0.snapshot?.value as? Int }) == Set(1...400))
      #expect((400...440).contains(calls.values.count), "\(calls.values.count) calls, \(time)")
      #expect(try backend.node("n") == 400)
    }
  }

  @Test func `many transactions at one place call their functions twice each after one conflict`()
    async throws
  {
    try await withBackend { backend in
      let database = try await backend.client()
      let place = database.reference(withPath: "n")
      let (calls, ends) = (Received<Int>(), Received<End>())
      _ = try await place.getData()
      database.goOffline()
      try await backend.client().reference(withPath: "n").setValue(1_000)
      for number in 0..<200 {
        run(place, ends) { data in
          calls.add(number)
          data.value = (data.value as? Int ?? 0) + 1
          return .success(withValue: data)
        }
      }
      database.goOnline()
      #expect(await ends.wait(for: 200).allSatisfy { $0.isCommitted })
      #expect((400...440).contains(calls.values.count), "\(calls.values.count) calls")
      #expect(try backend.node("n") == 1_200)
    }
  }

  @Test(
    .ported(
      "FTransactionTest.testSecondTransactionGetsRunImmediatelyOnPreviousOutputAndOnlyRunsOnce"))
  func `a second transaction runs at once on the result of the first, and only once`()
    async throws
  {
    try await withBackend { backend in
      let place = try await backend.client().reference(withPath: "n")
      _ = try await place.getData()
      // The second begins before the first is committed.
      backend.parts.journal.gate.hold()
      let (inputs, ends) = (Received<String>(), Received<End>())
      for output in [42, 84] {
        run(place, ends) { data in
          inputs.add("\(data.value ?? "nil")")
          data.value = output
          return .success(withValue: data)
        }
      }
      await inputs.wait(for: 2)
      backend.parts.journal.gate.open()
      #expect(await ends.wait(for: 2).allSatisfy(\.isCommitted))
      #expect(inputs.values == ["\(NSNull())", "42"])
      let other = try await backend.client().reference(withPath: "n").getData()
      #expect(other.value as? Int == 84)
    }
  }

  @Test(.ported("FTransactionTest.testNewValueIsImmediatelyVisible"))
  func `the result of a transaction is visible to the next observer`() async throws {
    try await withBackend { backend in
      let database = try await backend.client()
      database.goOffline()
      let place = database.reference(withPath: "foo")
      let seen = Received<String>()
      place.startTransaction(set(42))
      place.observe(.value, with: { seen.add($0.text) })
      #expect(await seen.wait(for: 1) == ["42"])
    }
  }

  @Test(.ported("FTransactionTest.testSetCancelsPendingTransaction"))
  func `a write ends a transaction that waits for another one`() async throws {
    try await withBackend { backend in
      let root = try await backend.client().reference(withPath: "t")
      _ = try await root.getData()
      backend.parts.journal.gate.hold()
      let (first, second) = (Received<End>(), Received<End>())
      run(root.child("foo"), first, set(42))
      await backend.parts.journal.gate.reached()
      run(root, second, set(["foo": 84, "bar": 1]))
      root.child("foo").startSet(0)
      let end = await second.wait(for: 1)[0]
      #expect(!end.isCommitted && end.code == .overriddenBySet)
      backend.parts.journal.gate.open()
      #expect(await first.wait(for: 1)[0].isCommitted)
      _ = try await root.getData()
      #expect(try backend.node("t") == json(#"{"foo":0}"#))
    }
  }

  @Test(.ported("FTransactionTest.testSetShouldCancelSentTransactionsThatComeBackAsDatastale"))
  func `a transaction that conflicts is not tried again after a write`() async throws {
    try await withBackend { backend in
      try await backend.client().reference(withPath: "n").setValue(5)
      let database = try await backend.client()
      let place = database.reference(withPath: "n")
      // The write begins before the server answers.
      database.goOffline()
      let (inputs, ends) = (Received<Bool>(), Received<End>())
      run(place, ends) { data in
        inputs.add(data.value is NSNull)
        data.value = 72
        return .success(withValue: data)
      }
      place.startSet(32)
      database.goOnline()
      let end = await ends.wait(for: 1)[0]
      #expect(!end.isCommitted && end.code == .overriddenBySet)
      #expect(inputs.values == [true])
      _ = try await place.getData()
      #expect(try backend.node("n") == 32)
    }
  }

  @Test(.ported("FTransactionTest.testUpdateShouldNotCancelUnrelatedTransactions"))
  func `an update ends only the transactions at its own locations`() async throws {
    try await withBackend { backend in
      try await backend.client().reference(withPath: "t").setValue(["foo": "old", "bar": "old"])
      let database = try await backend.client()
      let root = database.reference(withPath: "t")
      // The update begins before the server answers.
      database.goOffline()
      let (foo, bar) = (Received<End>(), Received<End>())
      run(root.child("foo"), foo, set(72))
      run(root.child("bar"), bar, set(72))
      root.startUpdate(["foo": "new", "boo": "new", "doo/foo": "new"])
      database.goOnline()
      #expect(await foo.wait(for: 1)[0].code == .overriddenBySet)
      #expect(await bar.wait(for: 1)[0].isCommitted)
      _ = try await root.getData()
      #expect(
        try backend.node("t") == json(#"{"foo":"new","bar":72,"boo":"new","doo":{"foo":"new"}}"#))
    }
  }

  @Test(
    .ported(
      "FTransactionTest.testNonAbortedTransactionSetsCommittedToTrueInCallback",
      "FTransactionTest.testAbortedTransactionSetsCommittedToFalseInCallback",
      "FTransactionTest.testImmediatelyAbortedTransactions"))
  func `the completion says whether the transaction was committed`() async throws {
    try await withBackend { backend in
      let place = try await backend.client().reference(withPath: "n")
      let ends = Received<End>()
      run(place, ends, set(42))
      run(place.child("x"), ends) { _ in .abort() }
      let all = await ends.wait(for: 2)
      #expect(Set(all.map(\.isCommitted)) == [true, false])
      #expect(all.allSatisfy { $0.code == nil })
    }
  }

  @Test(.ported("FTransactionTest.testResultSnapshotIsPassedToOnComplete"))
  func `an aborted transaction returns the value that its function saw`() async throws {
    try await withBackend { backend in
      let ends = Received<End>()
      let ifEmpty: @Sendable (MutableData) -> TransactionResult = { data in
        guard data.value is NSNull else { return .abort() }
        data.value = "hello"
        return .success(withValue: data)
      }
      let place = try await backend.client().reference(withPath: "n")
      run(place, ends, ifEmpty)
      #expect(await ends.wait(for: 1)[0].isCommitted)
      run(place, ends, ifEmpty)
      await ends.wait(for: 2)
      // A client that knows nothing of the location learns the value from the conflict.
      let other = try await backend.client().reference(withPath: "n")
      run(other, ends, ifEmpty)
      let all = await ends.wait(for: 3)
      #expect(all.map(\.isCommitted) == [true, false, false])
      #expect(all.map { $0.snapshot?.value as? String } == ["hello", "hello", "hello"])
    }
  }

  @Test(
    .ported(
      "FTransactionTest.testBugTestSetDataReconnectDoTransactionThatAbortsOnceDataArrivesVerifyCorrectEvents"
    ))
  func `a transaction that aborts when the data arrive is undone with an event`() async throws {
    try await withBackend { backend in
      try await backend.client().reference(withPath: "foo").setValue(42)
      let database = try await backend.client()
      database.goOffline()
      let place = database.reference(withPath: "foo")
      let (seen, ends) = (Received<String>(), Received<End>())
      place.observe(.value, with: { seen.add($0.text) })
      run(place, ends) { data in
        guard data.value is NSNull else { return .abort() }
        data.value = "temporary"
        return .success(withValue: data)
      }
      await seen.wait(for: 1)
      database.goOnline()
      let end = await ends.wait(for: 1)[0]
      #expect(!end.isCommitted && end.code == nil)
      #expect(await seen.wait(for: 2) == ["temporary", "42"])
    }
  }

  @Test(.ported("FTransactionTest.testTransactionOnlyCalledOnceWhenInitializingAnEmptyNode"))
  func `an empty location is initialised by one call`() async throws {
    try await withBackend { backend in
      let place = try await backend.client().reference(withPath: "n")
      let (inputs, ends) = (Received<Bool>(), Received<End>())
      run(place, ends) { data in
        inputs.add(data.value is NSNull)
        data.value = ["a": 5, "b": 6]
        return .success(withValue: data)
      }
      await ends.wait(for: 1)
      #expect(inputs.values == [true])
    }
  }

  @Test(
    .ported("FTransactionTest.testUseTransactionToCreateANodeMakeSureExactlyOneEventIsReceived"))
  func `a transaction that creates a location raises one event`() async throws {
    try await withBackend { backend in
      let database = try await backend.client()
      database.goOffline()
      let place = database.reference(withPath: "a")
      let (seen, ends) = (Received<String>(), Received<End>())
      place.observe(.value, with: { seen.add($0.text) })
      run(place, ends, set(42))
      database.goOnline()
      #expect(await ends.wait(for: 1)[0].isCommitted)
      _ = try await place.getData()
      #expect(seen.values == ["42"])
    }
  }

  @Test(
    .ported(
      "FTransactionTest.testUseTransactionToUpdateTwoExistingChildNodesMakeSureEventsAreOnlyRaisedForChangedNode"
    ))
  func `a transaction raises events only for the children that it changes`() async throws {
    try await withBackend { backend in
      try await backend.client().reference(withPath: "t").setValue(["a": 42, "b": 42])
      let root = try await backend.client().reference(withPath: "t")
      let (seen, ends) = (Received<String>(), Received<End>())
      for key in ["a", "b"] {
        root.child(key).observe(.value, with: { seen.add("\(key) \($0.text)") })
      }
      await seen.wait(for: 2)
      run(root, ends, set(["a": 42, "b": 87]))
      #expect(await ends.wait { $0.count == 1 }[0].isCommitted)
      #expect(await seen.wait(for: 3).dropFirst(2) == ["b 87"])
    }
  }

  @Test(.ported("FTransactionTest.testPriorityIsNotPreservedWhenSettingData"))
  func `a new value of a transaction has no priority`() async throws {
    try await withBackend { backend in
      let place = try await backend.client().reference(withPath: "n")
      try await place.setValue("test", andPriority: 5)
      let ends = Received<End>()
      run(place, ends, set("new"))
      let end = await ends.wait(for: 1)[0]
      #expect(end.snapshot?.value as? String == "new" && end.snapshot?.priority is NSNull)
      #expect(try backend.node("n") == "new")
    }
  }

  @Test(.ported("FTransactionTest.testTransactionOnWackyUnicode"))
  func `a transaction compares characters beyond ASCII`() async throws {
    try await withBackend { backend in
      try await backend.client().reference(withPath: "n").setValue("♜♞♝♛♚♝♞♜")
      let place = try await backend.client().reference(withPath: "n")
      let ends = Received<End>()
      run(place, ends) { data in
        if !(data.value is NSNull) { #expect(data.value as? String == "♜♞♝♛♚♝♞♜") }
        data.value = "♖♘♗♕♔♗♘♖"
        return .success(withValue: data)
      }
      #expect(await ends.wait(for: 1)[0].isCommitted)
      #expect(try backend.node("n") == "♖♘♗♕♔♗♘♖")
    }
  }

  @Test(.ported("FTransactionTest.testAddingToAnArrayWithATransaction"))
  func `a transaction appends to an array`() async throws {
    try await withBackend { backend in
      let place = try await backend.client().reference(withPath: "n")
      try await place.setValue(["cat", "horse"])
      let ends = Received<End>()
      run(place, ends) { data in
        data.value = (data.value as? [Any] ?? []) + ["dog"]
        return .success(withValue: data)
      }
      #expect(await ends.wait(for: 1)[0].snapshot?.value as? [String] == ["cat", "horse", "dog"])
    }
  }

  @Test(.ported("FTransactionTest.testMergedTransactionsHaveCorrectSnapshotInOnComplete"))
  func `transactions above and below each other return their own results`() async throws {
    try await withBackend { backend in
      try await backend.client().reference(withPath: "n").setValue(["a": 0])
      let place = try await backend.client().reference(withPath: "n")
      let (upper, lower) = (Received<End>(), Received<End>())
      run(place, upper, set(["a": 1]))
      run(place.child("a"), lower, set(2))
      let (first, second) = (await upper.wait(for: 1)[0], await lower.wait(for: 1)[0])
      #expect(first.isCommitted && first.snapshot?.value as? [String: Int] == ["a": 1])
      #expect(second.isCommitted && second.snapshot?.value as? Int == 2)
      #expect(second.snapshot?.key == "a")
    }
  }

  @Test(.ported("FTransactionTest.testTransactionWithoutLocalEvents1"))
  func `without local events, the result is visible when it is committed`() async throws {
    try await withBackend { backend in
      let place = try await backend.client().reference(withPath: "n")
      let (seen, ends) = (Received<String>(), Received<End>())
      place.observe(.value, with: { seen.add($0.text) })
      await seen.wait(for: 1)
      backend.parts.journal.gate.hold()
      run(place, ends, withLocalEvents: false, set("hello"))
      await backend.parts.journal.gate.reached()
      #expect(seen.values == ["nothing"])
      backend.parts.journal.gate.open()
      let end = await ends.wait(for: 1)[0]
      #expect(end.isCommitted && end.snapshot?.value as? String == "hello")
      #expect(await seen.wait(for: 2) == ["nothing", "hello"])
    }
  }

  @Test(.ported("FTransactionTest.testTransactionRevertsDataWhenAddADeeperListen"))
  func `a transaction that ends leaves an observer below it with the data of the server`()
    async throws
  {
    try await withBackend { backend in
      try await backend.client().reference(withPath: "t/y").setValue("test")
      let root = try await backend.client().reference(withPath: "t")
      let seen = Received<String>()
      root.startTransaction { data in
        guard data.value is NSNull else { return .abort() }
        data.childData(byAppendingPath: "x").value = 5
        return .success(withValue: data)
      }
      root.child("y").observe(.value, with: { seen.add($0.text) })
      #expect(await seen.wait { $0.last == "test" }.last == "test")
      #expect(try backend.node("t") == json(#"{"y":"test"}"#))
    }
  }

  @Test(.ported("FTransactionTest.testTransactionWithIntegerKeys"))
  func `a transaction replaces children with integer keys`() async throws {
    try await withBackend { backend in
      let place = try await backend.client().reference(withPath: "n")
      try await place.setValue(["1": 1, "5": 5, "10": 10, "20": 20, "03": 3])
      let other = try await backend.client().reference(withPath: "n")
      _ = try await other.observeSingleEventAndPreviousSiblingKey(of: .value)
      let ends = Received<End>()
      run(other, ends, set(42))
      let end = await ends.wait(for: 1)[0]
      #expect(end.isCommitted && end.code == nil)
    }
  }

  @Test(.ported("FTransactionTest.testBubbleAppTransactionBug"))
  func `a transaction above others runs on their results`() async throws {
    try await withBackend { backend in
      let root = try await backend.client().reference(withPath: "t")
      root.child("a").startTransaction(set(1))
      root.child("a").startTransaction { data in
        data.value = (data.value as? Int ?? 0) + 42
        return .success(withValue: data)
      }
      root.child("b").startTransaction(set(7))
      let ends = Received<End>()
      run(root, ends) { data in
        let (a, b) = (data.childData(byAppendingPath: "a"), data.childData(byAppendingPath: "b"))
        data.value = (a.value as? Int ?? 0) + (b.value as? Int ?? 0)
        return .success(withValue: data)
      }
      let end = await ends.wait(for: 1)[0]
      #expect(end.isCommitted && end.snapshot?.value as? Int == 50)
    }
  }

  @Test(.ported("FTransactionTest.testTransactionsAreRunInitiallyOnCurrentlyCachedData"))
  func `a transaction runs at first on the observed data`() async throws {
    try await withBackend { backend in
      let place = try await backend.client().reference(withPath: "n")
      try await place.setValue(["a": "x"])
      let (seen, inputs, ends) = (Received<String>(), Received<Bool>(), Received<End>())
      place.observe(.value, with: { seen.add($0.text) })
      await seen.wait(for: 1)
      run(place, ends) { data in
        inputs.add(data.value as? [String: String] == ["a": "x"])
        return .abort()
      }
      await ends.wait(for: 1)
      #expect(inputs.values == [true])
    }
  }

  @Test(.ported("FTransactionTest.testMultipleLevels"))
  func `transactions of several levels that change nothing all end`() async throws {
    try await withBackend { backend in
      let root = try await backend.client().reference(withPath: "t")
      let ends = Received<End>()
      for place in [root, root.child("a"), root.child("b"), root] {
        run(place, ends) { .success(withValue: $0) }
      }
      #expect(await ends.wait(for: 4).allSatisfy { $0.isCommitted })
    }
  }

  @Test(.ported("FTransactionTest.testTransactionWithQueryListen"))
  func `a transaction runs beside an observed query`() async throws {
    try await withBackend { backend in
      let root = try await backend.client().reference(withPath: "t")
      try await root.setValue(["a": 1, "b": 2])
      root.queryLimited(toFirst: 1).observe(.childAdded, with: { _ in })
      let ends = Received<End>()
      run(root.child("a"), ends) { .success(withValue: $0) }
      let end = await ends.wait(for: 1)[0]
      #expect(end.isCommitted && end.snapshot?.value as? Int == 1)
    }
  }

  @Test(
    .ported(
      "FTransactionTest.testTransactionDoesNotPickUpCachedDataFromPreviousOnce",
      "FTransactionTest.testTransactionDoesNotPickUpCachedDataFromPreviousTransaction"))
  func `a transaction does not use data that are no longer observed`() async throws {
    try await withBackend { backend in
      let place = try await backend.client().reference(withPath: "n")
      let other = try await backend.client().reference(withPath: "n")
      let ends = Received<End>()
      for _ in 0..<2 {
        run(place, ends, set("not null"))
        _ = await ends.wait { $0.count % 2 == 1 }
        _ = try await place.observeSingleEventAndPreviousSiblingKey(of: .value)
        try await other.setValue(NSNull())
        run(place, ends) { data in
          data.value = data.value is NSNull ? "it was null" : "it was not null"
          return .success(withValue: data)
        }
        let end = await ends.wait { $0.count % 2 == 0 }.last
        #expect(end?.snapshot?.value as? String == "it was null")
      }
    }
  }
}
