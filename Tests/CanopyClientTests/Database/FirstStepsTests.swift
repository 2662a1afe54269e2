import CanopyClient
import CanopyTree
import Testing

/// The first things that anybody does with the library.
@Suite(.timeLimit(.minutes(5))) struct FirstStepsTests {
  @Test func `what is written is seen here at once, and then stands at the server`() async throws {
    try await withBackend { backend in
      let database = try await backend.client()
      let place = database.reference(withPath: "a/b")
      let told = Told<String>()
      place.observe(.value, with: { told.add("\($0.value ?? "nothing")") })
      await told.wait(for: 1)
      place.setValue("x") { error, reference in
        told.add("\(error.map { "\($0)" } ?? "saved") \(reference.key ?? "")")
      }
      #expect(await told.wait(for: 3) == ["nothing", "x", "saved b"])
      #expect(try backend.node("a/b") == "x")
      let other = try await backend.client()
      let snapshot = try await other.reference(withPath: "a").getData()
      #expect(snapshot.childSnapshot(forPath: "b").value as? String == "x")
      try await other.reference(withPath: "a/b").setValue(["c": 1])
      #expect(await told.wait(for: 4).last?.contains("c") == true)
    }
  }

  @Test func `a transaction adds to what others wrote`() async throws {
    try await withBackend { backend in
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

  @Test func `accounts are opened, and sessions begin and end`() async throws {
    try await withBackend { backend in
      let database = try backend.anonymousClient()
      let auth = Auth.auth(database: database)
      let told = Told<String>()
      auth.addStateDidChangeListener { _, user in told.add(user?.displayName ?? "nobody") }
      await told.wait(for: 1)
      let result = try await auth.createUser(
        withEmail: "ada@example.org", password: "secret words of ada", username: "ada")
      #expect(auth.currentUser == result.user && result.user.email == "ada@example.org")
      try auth.signOut()
      #expect(auth.currentUser == nil)
      await #expect(throws: AuthError.self) {
        try await auth.signIn(withEmail: "ada@example.org", password: "something else")
      }
      try await auth.signIn(withEmail: "ada@example.org", password: "secret words of ada")
      #expect(await told.wait(for: 4) == ["nobody", "ada", "nobody", "ada"])
    }
  }
}
