import CanopyTesting
import CanopyTree
import Foundation
import Testing

@testable import CanopyClient

/// Transactions against a live server, as the original client runs them.
@Suite(.timeLimit(.minutes(20))) struct TransactionBehaviourTests {
  /// The end of a transaction.
  struct End: Sendable {
    var code: DatabaseError.Code?
    var isCommitted: Bool
    var snapshot: DataSnapshot?
  }

  /// Runs a transaction, and adds its end to `ends`.
  func run(
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

  func set(_ value: any Sendable) -> @Sendable (MutableData) -> TransactionResult {
    { data in
      data.value = value
      return .success(withValue: data)
    }
  }

  @Test(.ported("FTransactionTest.testTransactionSetSetWorks"), arguments: WireKind.allCases)
  func `writes after a transaction follow it and do not replace it`(_ kind: WireKind) async throws {
    try await withBackend(over: kind) { backend in
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

  @Test(arguments: WireKind.allCases)
  func `an update after a transaction follows it too`(_ kind: WireKind) async throws {
    try await withBackend(over: kind) { backend in
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

  @Test(arguments: WireKind.allCases)
  func `many transactions at one place call their functions once each`(_ kind: WireKind)
    async throws
  {
    try await withBackend(over: kind) { backend in
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

  @Test(arguments: WireKind.allCases)
  func `many transactions at one place call their functions twice each after one conflict`(
    _ kind: WireKind
  )
    async throws
  {
    try await withBackend(over: kind) { backend in
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
      "FTransactionTest.testSecondTransactionGetsRunImmediatelyOnPreviousOutputAndOnlyRunsOnce"),
    arguments: WireKind.allCases)
  func `a second transaction runs at once on the result of the first, and only once`(
    _ kind: WireKind
  )
    async throws
  {
    try await withBackend(over: kind) { backend in
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

  @Test(.ported("FTransactionTest.testNewValueIsImmediatelyVisible"), arguments: WireKind.allCases)
  func `the result of a transaction is visible to the next observer`(_ kind: WireKind) async throws
  {
    try await withBackend(over: kind) { backend in
      let database = try await backend.client()
      database.goOffline()
      let place = database.reference(withPath: "foo")
      let seen = Received<String>()
      place.startTransaction(set(42))
      place.observe(.value, with: { seen.add($0.text) })
      #expect(await seen.wait(for: 1) == ["42"])
    }
  }

  @Test(.ported("FTransactionTest.testSetCancelsPendingTransaction"), arguments: WireKind.allCases)
  func `a write ends a transaction that waits for another one`(_ kind: WireKind) async throws {
    try await withBackend(over: kind) { backend in
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

  @Test(
    .ported("FTransactionTest.testSetShouldCancelSentTransactionsThatComeBackAsDatastale"),
    arguments: WireKind.allCases)
  func `a transaction that conflicts is not tried again after a write`(_ kind: WireKind)
    async throws
  {
    try await withBackend(over: kind) { backend in
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

  @Test(
    .ported("FTransactionTest.testUpdateShouldNotCancelUnrelatedTransactions"),
    arguments: WireKind.allCases)
  func `an update ends only the transactions at its own locations`(_ kind: WireKind) async throws {
    try await withBackend(over: kind) { backend in
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
      "FTransactionTest.testImmediatelyAbortedTransactions"), arguments: WireKind.allCases)
  func `the completion says whether the transaction was committed`(_ kind: WireKind) async throws {
    try await withBackend(over: kind) { backend in
      let place = try await backend.client().reference(withPath: "n")
      let ends = Received<End>()
      run(place, ends, set(42))
      run(place.child("x"), ends) { _ in .abort() }
      let all = await ends.wait(for: 2)
      #expect(Set(all.map(\.isCommitted)) == [true, false])
      #expect(all.allSatisfy { $0.code == nil })
    }
  }

  @Test(
    .ported("FTransactionTest.testResultSnapshotIsPassedToOnComplete"), arguments: WireKind.allCases
  )
  func `an aborted transaction returns the value that its function saw`(_ kind: WireKind)
    async throws
  {
    try await withBackend(over: kind) { backend in
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
    ), arguments: WireKind.allCases)
  func `a transaction that aborts when the data arrive is undone with an event`(_ kind: WireKind)
    async throws
  {
    try await withBackend(over: kind) { backend in
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
}
