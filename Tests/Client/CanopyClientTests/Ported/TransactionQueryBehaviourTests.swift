import CanopyAccounts
import CanopyTesting
import CanopyTree
import Testing

@testable import CanopyClient

/// Transactions beside queries, other writes and interrupted connections, as the original client runs them.
@Suite(.timeLimit(.minutes(20))) struct TransactionQueryBehaviourTests {
  /// Runs a transaction, and adds its end to `ends`: `ok`, or the code of its error, and the value.
  private func run(
    _ place: DatabaseReference, _ ends: Received<String>, withLocalEvents localEvents: Bool = true,
    _ function: @escaping @Sendable (MutableData) -> TransactionResult
  ) {
    place.runTransactionBlock(
      function,
      andCompletionBlock: { error, isCommitted, snapshot in
        let code = (error as? DatabaseError)?.code.rawValue
        ends.add("\(code ?? (isCommitted ? "ok" : "aborted")) \(snapshot?.text ?? "nil")")
      }, withLocalEvents: localEvents)
  }

  @Test(
    .ported("FTransactionTest.testTransactionWithoutLocalEvents2"), arguments: WireKind.allCases)
  func `without local events, the attempts that conflict are invisible`(_ kind: WireKind)
    async throws
  {
    try await withPair(over: kind) { _, writer, reader in
      try await writer.setValue(0)
      let events = EventLog()
      writer.observe(.value, with: { events.add($0.text) })
      await events.wait(for: 1)
      let (calls, ends) = (Received<String>(), Received<String>())
      writer.database.goOffline()
      run(writer, ends, withLocalEvents: false) { data in
        calls.add("\(data.value ?? "nil")")
        data.value = "result"
        return .success(withValue: data)
      }
      await calls.wait(for: 1)
      for number in 1...3 { try await reader.setValue(number) }
      writer.database.goOnline()
      #expect(await ends.wait(for: 1) == ["ok result"])
      #expect(calls.values.count >= 2 && calls.values.last == "3")
      await writer.waitUntilQuiet()
      #expect(events.values.first == "0" && events.values.suffix(2) == ["3", "result"])
      #expect(!events.values.dropLast().contains("result"))
    }
  }

  @Test(
    .ported("FTransactionTest.testLocalServerValuesEventuallyButNotImmediatelyMatchServerWithTxns"),
    arguments: WireKind.allCases)
  func `a timestamp of a transaction is estimated, then that of the server`(_ kind: WireKind)
    async throws
  {
    try await withPair(over: kind) { backend, writer, reader in
      let (local, remote) = (Received<DataSnapshot>(), Received<DataSnapshot>())
      reader.observe(.value, with: { if $0.exists() { remote.add($0) } })
      _ = try await reader.first()
      writer.observe(.value, with: { if $0.exists() { local.add($0) } })
      _ = try await writer.first()
      backend.parts.clock.advance(3_000)
      writer.startTransaction { data in
        data.value = CanopyClient.ServerValue.timestamp()
        data.priority = CanopyClient.ServerValue.timestamp()
        return .success(withValue: data)
      }
      let seen = await local.wait(for: 2)
      let now = Int(backend.parts.clock.now)
      #expect(await remote.wait(for: 1).map { $0.value as? Int } == [now])
      #expect(remote.values[0].priority as? Int == now)
      #expect(seen[1].value as? Int == now && seen[1].priority as? Int == now)
      #expect(seen[0].value as? Int != now && seen[0].value is NSNumber)
      #expect(seen[0].priority as? Int != now && seen[0].priority is NSNumber)
      await reader.waitUntilQuiet()
      #expect(remote.values.count == 1 && local.values.count == 2)
    }
  }

  @Test(
    .ported("FTransactionTest.testTransactionOnQueriedLocationDoesntRunInitiallyOnNull"),
    arguments: WireKind.allCases)
  func `a transaction at a child of a query begins with the child`(_ kind: WireKind) async throws {
    try await withPair(over: kind) { backend, writer, _ in
      let child = writer.childByAutoId()
      try await child.setValue(["a": 1, "b": 2])
      let (seen, ends) = (Received<String>(), Received<String>())
      writer.queryLimited(toFirst: 1).observe(
        .childAdded,
        with: { snapshot in
          run(snapshot.ref, ends) { data in
            seen.add("\(data.childData(byAppendingPath: "b").value ?? "nil")")
            data.value = NSNull()
            return .success(withValue: data)
          }
        })
      #expect(await ends.wait(for: 1) == ["ok nothing"])
      #expect(seen.values == ["2"])
      #expect(try backend.node("t").isAbsent)
    }
  }

  @Test(
    .ported("FTransactionTest.testTransactionsRaiseCorrectChildChangedEventsOnQueries"),
    arguments: WireKind.allCases)
  func `a transaction below a query changes its child once`(_ kind: WireKind) async throws {
    try await withPair(over: kind) { _, writer, _ in
      try await writer.setValue(["foo": ["value": 1]])
      let events = EventLog()
      let query = writer.queryEnding(atValue: Double.leastNormalMagnitude)
      for type in [DataEventType.childAdded, .childChanged] {
        query.observe(type, with: { events.add("\($0.key) \($0.node.json(.export))") })
      }
      await events.wait(for: 1)
      let ends = Received<String>()
      run(writer.child("foo"), ends, withLocalEvents: false) { data in
        data.childData(byAppendingPath: "value").value = 2
        return .success(withValue: data)
      }
      await ends.wait(for: 1)
      await writer.waitUntilQuiet()
      #expect(events.values == [#"foo {"value":1}"#, #"foo {"value":2}"#])
    }
  }

  @Test(.ported("FTransactionTest.testTransactionsUseLocalMerges"), arguments: WireKind.allCases)
  func `a transaction begins with the result of an earlier update`(_ kind: WireKind) async throws {
    try await withPair(over: kind) { _, writer, _ in
      let (seen, ends) = (Received<String>(), Received<String>())
      // Without a connection, the update cannot end before the transaction begins.
      writer.database.goOffline()
      writer.startUpdate(["foo": "bar"])
      run(writer.child("foo"), ends) { data in
        seen.add("\(data.value ?? "nil")")
        return .success(withValue: data)
      }
      writer.database.goOnline()
      #expect(await ends.wait(for: 1) == ["ok bar"])
      #expect(seen.values == ["bar"])
    }
  }

  @Test(
    .ported("FTransactionTest.testOutOfOrderRemoveWritesAreHandledCorrectly"),
    arguments: WireKind.allCases)
  func `an update after two transactions is committed`(_ kind: WireKind) async throws {
    try await withPair(over: kind) { backend, writer, _ in
      writer.startSet(["foo": "bar"])
      for number in 1...2 {
        writer.startTransaction { data in
          data.value = "transaction-\(number)"
          return .success(withValue: data)
        }
      }
      try await writer.updateChildValues(["qux": "quu"])
      #expect(try await writer.getData().node == backend.node("t"))
      #expect(try backend.node("t/qux") == "quu")
    }
  }

  @Test(
    .ported("FTransactionTest.testUnsentTransactionsAreNotCancelledOnDisconnect"),
    arguments: WireKind.allCases)
  func `a transaction that was not sent survives a connection that ends before it is ready`(
    _ kind: WireKind
  ) async throws {
    try await withBackend(over: kind) { backend in
      let proxy = RewritingProxy(target: backend.port)
      let port = try await proxy.start()
      let database = try backend.anonymousClient(through: port)
      try await Auth.auth(database: database).signIn(
        withAdministratorToken: backend.parts.administratorToken.text)
      database.goOffline()
      let (calls, ends) = (Received<Int>(), Received<String>())
      run(database.reference(withPath: "t"), ends) { data in
        calls.add(1)
        data.value = 0
        return .success(withValue: data)
      }
      await calls.wait(for: 1)
      proxy.hold("")
      database.goOnline()
      await proxy.holding.wait(for: 1)
      database.goOffline()
      database.goOnline()
      #expect(await ends.wait(for: 1) == ["ok 0"])
      #expect(try backend.node("t") == 0)
      database.goOffline()
      try await proxy.stop()
    }
  }

  // MARK: The identity

  @Test(.ported("FIRAuthTests.testListensAndAuthRaceCondition"), arguments: WireKind.allCases)
  func `an observer and a write that begin with the connection have the identity of the session`(
    _ kind: WireKind
  ) async throws {
    try await withBackend(over: kind) { backend in
      try await backend.replaceRules(
        by: #"{"rules":{".read":"auth != null",".write":"auth != null"}}"#)
      let database = try backend.anonymousClient()
      let auth = Auth.auth(database: database)
      try await auth.createUser(withEmail: "ada@example.org", password: "secret words of ada")
      database.goOffline()
      let (events, ends) = (EventLog(), Received<String>())
      let place = database.reference(withPath: "t")
      database.reference(withPath: ".info/connected").observe(
        .value,
        with: { snapshot in
          guard snapshot.value as? Bool == true else { return }
          place.observe(.value, with: { events.add($0.text) }) { _ in events.add("cancelled") }
          place.setValue(42) { error, _ in ends.add(error == nil ? "ok" : "refused") }
        })
      database.goOnline()
      #expect(await ends.wait(for: 1) == ["ok"])
      await place.waitUntilQuiet()
      #expect(events.values.last == "42" && !events.values.contains("cancelled"))
      #expect(try backend.node("t") == 42)
    }
  }
}
