import CanopyAccounts
import CanopyIdentity
import CanopyTesting
import CanopyTree
import Foundation
import Testing

@testable import CanopyClient

/// The tokens of a session, its restart and the forms with a completion, over both protocols.
@Suite(.timeLimit(.minutes(20))) struct AuthSessionTests: AccountSuite {
  @Test(.ported("AuthTests.testIDTokenChanges"), arguments: WireKind.allCases)
  func `an identity token is kept until shortly before its end, and a new one is announced`(
    _ kind: WireKind
  ) async throws {
    try await withBackend(over: kind) { backend in
      let auth = try auth(backend)
      let tokens = Received<String>()
      let user = try await auth.createUser(withEmail: Self.email, password: Self.password).user
      let first = try await user.getIDToken()
      auth.addIDTokenDidChangeListener { _, user in tokens.add(user?.email ?? "none") }
      #expect(try await user.getIDToken() == first)
      backend.parts.clock.advance(1_000)
      let second = try await user.getIDToken(forcingRefresh: true)
      #expect(second != first)
      #expect(try await user.getIDToken() == second)
      #expect(await tokens.wait(for: 2) == [Self.email, Self.email])
      // Other servers accept it, and this one does.
      let service = try #require(backend.parts.identityService)
      #expect(try await service.verify(second).uid == user.uid)
      try auth.signOut()
      #expect(await failure { _ = try await user.getIDToken() } == .nullUser)
      #expect(await tokens.wait(for: 3).last == "none")
    }
  }

  @Test(arguments: WireKind.allCases)
  func `the token of a session continues it elsewhere`(_ kind: WireKind) async throws {
    try await withBackend(over: kind) { backend in
      let (auth, other) = (try auth(backend), try auth(backend))
      let user = try await auth.signInAnonymously().user
      try await other.signIn(withToken: try #require(user.refreshToken))
      #expect(other.currentUser?.uid == user.uid && other.currentUser?.isAnonymous == true)
      let result = try await #require(other.currentUser).getIDTokenResult()
      #expect(result.claims["user_id"] as? String == user.uid)
    }
  }

  @Test(arguments: WireKind.allCases)
  func `an anonymous user survives a restart of the application`(_ kind: WireKind) async throws {
    try await withBackend(over: kind) { backend in
      let folder = try TemporaryFolder()
      func open(_ name: String) throws -> Database {
        let database = try backend.anonymousClient { $0.persistenceFolder = folder.file(name) }
        database.isPersistenceEnabled = true
        return database
      }
      let first = try open("first")
      let user = try await Auth.auth(database: first).signInAnonymously().user
      first.goOffline()
      await first.recorded()
      // The first one still has its folder open.
      try FileManager.default.copyItem(
        atPath: folder.file("first"), toPath: folder.file("second"))
      let auth = Auth.auth(database: try open("second"))
      #expect(auth.currentUser == user && auth.currentUser?.isAnonymous == true)
      #expect(try await auth.signInAnonymously().user == user)
      let linked = try await user.with(auth).link(with: Self.credential).user
      #expect(linked.uid == user.uid && linked.email == Self.email)
    }
  }

  @Test(arguments: WireKind.allCases)
  func `the administrator has no account to change`(_ kind: WireKind) async throws {
    try await withBackend(over: kind) { backend in
      let auth = Auth.auth(database: try await backend.client())
      let user = try #require(auth.currentUser)
      #expect(
        await failure { try await user.updatePassword(to: "other words") }
          == .operationNotAllowed)
      #expect(await failure { try await user.delete() } == .operationNotAllowed)
      #expect(
        await failure { try await user.reauthenticate(with: Self.credential) }
          == .operationNotAllowed)
      try await user.reload()
      #expect(try await user.getIDToken() == backend.parts.administratorToken.text)
      #expect(
        await failure { _ = try await user.getIDTokenResult() } == .operationNotAllowed)
      #expect(auth.currentUser == user)
    }
  }

  @Test(arguments: WireKind.allCases)
  func `each operation calls its completion`(_ kind: WireKind) async throws {
    try await withBackend(over: kind) { backend in
      let auth = try auth(backend)
      let results = Received<String>()
      @Sendable func code(_ error: (any Error)?) -> String {
        error.map { "\(($0 as NSError).code)" } ?? "ok"
      }
      startEverything(auth, results, code)
      #expect(
        await results.wait(for: 5) == [
          "anonymous ok", "custom 17000", "reset 17008", "check 17030", "apply 17030",
        ])
      let user = try #require(auth.currentUser)
      startEverything(user, results, code)
      let expected: Set<String> = [
        "token ok", "result ok", "link 17026", "password 17034", "verify 17034",
        "reauthenticate 17008", "profile ok",
      ]
      #expect(Set(await results.wait(for: 12).dropFirst(5)) == expected)
      end(user, results, code)
      #expect(await results.wait(for: 14).suffix(2) == ["reload ok", "delete ok"])
      #expect(auth.currentUser == nil)
    }
  }

  // Without `async`, so that Swift takes the forms with a completion.
  private func startEverything(
    _ auth: Auth, _ results: Received<String>,
    _ code: @escaping @Sendable ((any Error)?) -> String
  ) {
    auth.signInAnonymously { result, error in
      results.add("anonymous \(result?.user.isAnonymous == true ? code(error) : "no")")
      auth.signIn(withCustomToken: "x") { _, error in
        results.add("custom \(code(error))")
        auth.sendPasswordReset(withEmail: "x") { error in
          results.add("reset \(code(error))")
          auth.verifyPasswordResetCode("x") { _, error in
            results.add("check \(code(error))")
            auth.applyActionCode("x") { error in results.add("apply \(code(error))") }
          }
        }
      }
    }
  }

  private func startEverything(
    _ user: User, _ results: Received<String>,
    _ code: @escaping @Sendable ((any Error)?) -> String
  ) {
    let weak = EmailAuthProvider.credential(withEmail: "ada@example.org", password: "x")
    let invalid = EmailAuthProvider.credential(withEmail: "x", password: "x")
    user.getIDToken { token, error in results.add("token \(token == nil ? "no" : code(error))") }
    user.getIDTokenResult { result, error in
      results.add("result \(result == nil ? "no" : code(error))")
    }
    user.link(with: weak) { _, error in results.add("link \(code(error))") }
    user.updatePassword(to: "other words") { error in results.add("password \(code(error))") }
    user.sendEmailVerification { error in results.add("verify \(code(error))") }
    user.reauthenticate(with: invalid) { _, error in results.add("reauthenticate \(code(error))") }
    user.createProfileChangeRequest().commitChanges { error in
      results.add("profile \(code(error))")
    }
  }

  private func end(
    _ user: User, _ results: Received<String>,
    _ code: @escaping @Sendable ((any Error)?) -> String
  ) {
    user.reload { error in
      results.add("reload \(code(error))")
      user.delete { error in results.add("delete \(code(error))") }
    }
  }
}
