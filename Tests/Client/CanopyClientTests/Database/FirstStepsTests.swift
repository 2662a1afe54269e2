import CanopyClient
import CanopyTree
import Testing

/// The first steps of a new user of the library.
@Suite(.timeLimit(.minutes(20))) struct FirstStepsTests {
  @Test(arguments: WireKind.allCases) func `a write is visible at once and then reaches the server`(
    _ kind: WireKind
  ) async throws {
    try await withBackend(over: kind) { backend in
      let database = try await backend.client()
      let place = database.reference(withPath: "a/b")
      let reported = Received<String>()
      place.observe(.value, with: { reported.add($0.text) })
      await reported.wait(for: 1)
      place.setValue("x") { error, reference in
        reported.add("\(error.map { "\($0)" } ?? "saved") \(reference.key ?? "")")
      }
      #expect(await reported.wait(for: 3) == ["nothing", "x", "saved b"])
      #expect(try backend.node("a/b") == "x")
      let other = try await backend.client()
      let snapshot = try await other.reference(withPath: "a").getData()
      #expect(snapshot.childSnapshot(forPath: "b").value as? String == "x")
      try await other.reference(withPath: "a/b").setValue(["c": 1])
      #expect(await reported.wait(for: 4).last?.contains("c") == true)
    }
  }

  @Test(arguments: WireKind.allCases) func `a transaction adds to the writes of others`(
    _ kind: WireKind
  ) async throws {
    try await withBackend(over: kind) { backend in
      let first = try await backend.client().reference(withPath: "n")
      let second = try await backend.client().reference(withPath: "n")
      for reference in [first, second, first] {
        let (isCommitted, _) = try await reference.runTransactionBlock { data in
          data.value = (data.value as? Int ?? 0) + 1
          return .success(withValue: data)
        }
        #expect(isCommitted)
      }
      #expect(try backend.node("n") == 3)
    }
  }

  @Test(arguments: WireKind.allCases) func `accounts are created, and sessions begin and end`(
    _ kind: WireKind
  ) async throws {
    try await withBackend(over: kind) { backend in
      let database = try backend.anonymousClient()
      let auth = Auth.auth(database: database)
      let reported = Received<String>()
      auth.addStateDidChangeListener { _, user in reported.add(user?.displayName ?? "nobody") }
      await reported.wait(for: 1)
      let result = try await auth.createUser(
        withEmail: "ada@example.org", password: "secret words of ada", username: "ada")
      #expect(auth.currentUser == result.user && result.user.email == "ada@example.org")
      try auth.signOut()
      #expect(auth.currentUser == nil)
      await #expect(throws: AuthError.self) {
        try await auth.signIn(withEmail: "ada@example.org", password: "something else")
      }
      try await auth.signIn(withEmail: "ada@example.org", password: "secret words of ada")
      #expect(await reported.wait(for: 4) == ["nobody", "ada", "nobody", "ada"])
    }
  }

  @Test(arguments: WireKind.allCases)
  func `a session continues on a later connection, and its account can be changed`(
    _ kind: WireKind
  ) async throws {
    try await withBackend(over: kind) { backend in
      let database = try backend.anonymousClient()
      let auth = Auth.auth(database: database)
      let uid = try await auth.createUser(
        withEmail: "ada@example.org", password: "secret words of ada", username: "ada"
      ).user.uid
      database.goOffline()
      database.goOnline()
      let renamed = try await auth.updateDisplayName("countess")
      #expect(renamed.user.displayName == "countess" && renamed.user.uid == uid)
      try await auth.updatePassword(from: "secret words of ada", to: "other words of ada")
      database.goOffline()
      database.goOnline()
      // The server answers a request about the session after the one that continues it.
      #expect(try await auth.updateDisplayName("ada-2").user.uid == uid)
      #expect(auth.currentUser?.uid == uid)
      try auth.signOut()
      let again = try await auth.signIn(
        withEmail: "ada@example.org", password: "other words of ada")
      #expect(again.user.uid == uid && again.user.displayName == "ada-2")
    }
  }
}
