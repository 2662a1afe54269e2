import Testing

@testable import CanopyClient

/// Signing out takes effect at once, even while the network is active.
@Suite(.timeLimit(.minutes(20))) struct SignOutTests {
  @Test func `a reply during a sign-out does not sign in again`() async throws {
    try await withBackend { backend in
      let database = try backend.anonymousClient()
      let auth = Auth.auth(database: database)
      let user = try await auth.createUser(
        withEmail: "ada@example.org", password: "secret words of ada", username: "ada"
      ).user
      let isOut = await withCheckedContinuation { done in
        database.repository.use { state in
          let token = state.session.token
          try? auth.signOut()
          let isOut = auth.currentUser == nil
          state.setSession(user, token: token)
          done.resume(returning: isOut)
        }
      }
      #expect(isOut)
      await withCheckedContinuation { done in database.repository.use { _ in done.resume() } }
      #expect(auth.currentUser == nil && database.repository.session.token == nil)
    }
  }
}
