import CanopyTesting
import CanopyTree
import Foundation
import Testing
@testable import CanopyClient

/// The values and events of transactions, alone and beside others.
extension TransactionBehaviourTests {
  @Test(
    .ported("FTransactionTest.testTransactionOnlyCalledOnceWhenInitializingAnEmptyNode"),
    arguments: WireKind.allCases)
  func `an empty location is initialised by one call`(_ kind: WireKind) async throws {
    try await withBackend(over: kind) { backend in
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
    .ported("FTransactionTest.testUseTransactionToCreateANodeMakeSureExactlyOneEventIsReceived"),
    arguments: WireKind.allCases)
  func `a transaction that creates a location raises one event`(_ kind: WireKind) async throws {
    try await withBackend(over: kind) { backend in
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
    ), arguments: WireKind.allCases)
  func `a transaction raises events only for the children that it changes`(_ kind: WireKind)
    async throws
  {
    try await withBackend(over: kind) { backend in
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

  @Test(
    .ported("FTransactionTest.testPriorityIsNotPreservedWhenSettingData"),
    arguments: WireKind.allCases)
  func `a new value of a transaction has no priority`(_ kind: WireKind) async throws {
    try await withBackend(over: kind) { backend in
      let place = try await backend.client().reference(withPath: "n")
      try await place.setValue("test", andPriority: 5)
      let ends = Received<End>()
      run(place, ends, set("new"))
      let end = await ends.wait(for: 1)[0]
      #expect(end.snapshot?.value as? String == "new" && end.snapshot?.priority is NSNull)
      #expect(try backend.node("n") == "new")
    }
  }

  @Test(.ported("FTransactionTest.testTransactionOnWackyUnicode"), arguments: WireKind.allCases)
  func `a transaction compares characters beyond ASCII`(_ kind: WireKind) async throws {
    try await withBackend(over: kind) { backend in
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

  @Test(
    .ported("FTransactionTest.testAddingToAnArrayWithATransaction"), arguments: WireKind.allCases)
  func `a transaction appends to an array`(_ kind: WireKind) async throws {
    try await withBackend(over: kind) { backend in
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

  @Test(
    .ported("FTransactionTest.testMergedTransactionsHaveCorrectSnapshotInOnComplete"),
    arguments: WireKind.allCases)
  func `transactions above and below each other return their own results`(_ kind: WireKind)
    async throws
  {
    try await withBackend(over: kind) { backend in
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

  @Test(
    .ported("FTransactionTest.testTransactionWithoutLocalEvents1"), arguments: WireKind.allCases)
  func `without local events, the result is visible when it is committed`(_ kind: WireKind)
    async throws
  {
    try await withBackend(over: kind) { backend in
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

  @Test(
    .ported("FTransactionTest.testTransactionRevertsDataWhenAddADeeperListen"),
    arguments: WireKind.allCases)
  func `a transaction that ends leaves an observer below it with the data of the server`(
    _ kind: WireKind
  )
    async throws
  {
    try await withBackend(over: kind) { backend in
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

  @Test(.ported("FTransactionTest.testTransactionWithIntegerKeys"), arguments: WireKind.allCases)
  func `a transaction replaces children with integer keys`(_ kind: WireKind) async throws {
    try await withBackend(over: kind) { backend in
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

  @Test(.ported("FTransactionTest.testBubbleAppTransactionBug"), arguments: WireKind.allCases)
  func `a transaction above others runs on their results`(_ kind: WireKind) async throws {
    try await withBackend(over: kind) { backend in
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

  @Test(
    .ported("FTransactionTest.testTransactionsAreRunInitiallyOnCurrentlyCachedData"),
    arguments: WireKind.allCases)
  func `a transaction runs at first on the observed data`(_ kind: WireKind) async throws {
    try await withBackend(over: kind) { backend in
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

  @Test(.ported("FTransactionTest.testMultipleLevels"), arguments: WireKind.allCases)
  func `transactions of several levels that change nothing all end`(_ kind: WireKind) async throws {
    try await withBackend(over: kind) { backend in
      let root = try await backend.client().reference(withPath: "t")
      let ends = Received<End>()
      for place in [root, root.child("a"), root.child("b"), root] {
        run(place, ends) { .success(withValue: $0) }
      }
      #expect(await ends.wait(for: 4).allSatisfy { $0.isCommitted })
    }
  }

  @Test(.ported("FTransactionTest.testTransactionWithQueryListen"), arguments: WireKind.allCases)
  func `a transaction runs beside an observed query`(_ kind: WireKind) async throws {
    try await withBackend(over: kind) { backend in
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
      "FTransactionTest.testTransactionDoesNotPickUpCachedDataFromPreviousTransaction"),
    arguments: WireKind.allCases)
  func `a transaction does not use data that are no longer observed`(_ kind: WireKind) async throws
  {
    try await withBackend(over: kind) { backend in
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
