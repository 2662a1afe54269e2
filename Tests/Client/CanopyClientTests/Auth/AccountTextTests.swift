import CanopyClient
import CanopyTesting
import CanopyTree
import Testing

/// The sentences about accounts, and the end of an account.
@Suite(.timeLimit(.minutes(20))) struct AccountTextTests: AccountSuite {
  private func sentence(of body: () async throws -> Void) async -> String {
    let error = await #expect(throws: AuthError.self) { try await body() }
    return error?.sentence ?? ""
  }

  @Test func `both protocols refuse with the same sentences`() async throws {
    var sentences: [[String]] = []
    for kind in WireKind.allCases {
      try await withBackend(over: kind) { backend in
        let auth = try auth(backend)
        try await auth.createUser(withEmail: Self.email, password: Self.password)
        sentences.append([
          await sentence {
            try await auth.createUser(withEmail: Self.email, password: Self.password)
          },
          await sentence { try await auth.createUser(withEmail: "a b", password: Self.password) },
          await sentence { try await auth.signIn(withEmail: Self.email, password: "another one") },
          await sentence { try await auth.signIn(withEmail: Self.email, password: "") },
        ])
      }
    }
    #expect(sentences.first == sentences.last && !sentences.joined().contains(""))
  }

  @Test(arguments: WireKind.allCases)
  func `the deletion of an account is not a connection failure`(_ kind: WireKind) async throws {
    try await withBackend(over: kind) { backend in
      let log = LineLog()
      let database = try backend.anonymousClient { $0.logger = log.logger }
      let auth = Auth.auth(database: database)
      let user = try await auth.createUser(withEmail: Self.email, password: Self.password).user
      let states = Received<Bool>()
      database.reference(withPath: ".info/connected").observe(.value) {
        states.add($0.value as? Bool ?? false)
      }
      await states.wait(for: 1)
      try await user.delete()
      #expect(auth.currentUser == nil)
      _ = try await database.reference(withPath: "posts").getData()
      #expect(states.values == [true])
      #expect(!log.lines.contains { $0.hasPrefix("notice") || $0.hasPrefix("warning") })
    }
  }
}
