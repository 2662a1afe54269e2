import CanopyAccounts
@testable import CanopyClient
import CanopyTesting
import Foundation
import Testing

/// Sign-up and sign-in as in the original client, over both protocols.
@Suite(.timeLimit(.minutes(20))) struct AuthSignInBehaviourTests: AccountSuite {
  @Test(
    .ported(
      "AuthTests.testCreateUserEmptyEmailFailure", "AuthTests.testCreateUserEmptyPasswordFailure",
      "AuthTests.testCreateUserWithEmailPasswordFailure",
      "AuthTests.testCreateUserWithEmailPasswordSuccess"),
    arguments: WireKind.allCases)
  func `a sign-up returns the user, and names a missing address or a weak password`(
    _ kind: WireKind
  ) async throws {
    try await withBackend(over: kind) { backend in
      let auth = try auth(backend)
      for weak in ["", "x"] {
        #expect(
          await failure { try await auth.createUser(withEmail: Self.email, password: weak) }
            == .weakPassword)
      }
      #expect(
        await failure { try await auth.createUser(withEmail: "", password: Self.password) }
          == .missingEmail)
      #expect(auth.currentUser == nil)
      let user = try await auth.createUser(withEmail: Self.email, password: Self.password).user
      #expect(user.email == Self.email && !user.isAnonymous && !user.uid.isEmpty)
      #expect(auth.currentUser == user)
    }
  }

  @Test(
    .ported(
      "AuthTests.testSignInAndRetrieveDataWithEmailPasswordSuccess",
      "AuthTests.testSignInWithEmailCredentialEmptyPassword",
      "AuthTests.testSignInWithEmailCredentialFailure",
      "AuthTests.testSignInWithEmailCredentialSuccess",
      "AuthTests.testSignInWithEmailPasswordFailure", "AuthTests.testSignOut"),
    arguments: WireKind.allCases)
  func `a sign-in returns the user, or fails with the original's codes`(
    _ kind: WireKind
  ) async throws {
    try await withBackend(over: kind) { backend in
      let auth = try auth(backend)
      let user = try await auth.createUser(withEmail: Self.email, password: Self.password).user
      try auth.signOut()
      #expect(auth.currentUser == nil)
      for wrong in ["", "wrong words"] {
        let credential = EmailAuthProvider.credential(withEmail: Self.email, password: wrong)
        #expect(await failure { try await auth.signIn(with: credential) } == .wrongPassword)
        #expect(auth.currentUser == nil)
      }
      #expect(try await auth.signIn(with: Self.credential).user.uid == user.uid)
      try auth.signOut()
      let again = try await auth.signIn(withEmail: Self.email, password: Self.password).user
      #expect(again.uid == user.uid && again.email == Self.email && !again.isAnonymous)
      #expect(again.refreshToken?.isEmpty == false)
      try auth.signOut()
      try await backend.parts.accounts.setDisabled(true, .uid(user.uid))
      #expect(await failure { try await auth.signIn(with: Self.credential) } == .userDisabled)
      #expect(auth.currentUser == nil)
    }
  }

  @Test(.ported("AuthTests.testAuthStateChanges"), arguments: WireKind.allCases)
  func `a listener hears of another user, and of the same one once`(_ kind: WireKind) async throws {
    try await withBackend(over: kind) { backend in
      let auth = try auth(backend)
      try await self.auth(backend).createUser(withEmail: Self.email, password: Self.password)
      let users = Received<String>()
      let handle = auth.addStateDidChangeListener { _, user in users.add(user?.email ?? "none") }
      await users.wait(for: 1)
      for _ in 1...2 { try await auth.signIn(with: Self.credential) }
      try auth.signOut()
      #expect(await users.wait(for: 3) == ["none", Self.email, "none"])
      auth.removeStateDidChangeListener(handle)
      try await auth.signIn(with: Self.credential)
      await auth.database.reference().waitUntilQuiet()
      #expect(users.values.count == 3)
    }
  }

  @Test(
    .ported("UserTests.testUpdatePasswordFailureAutoSignOut"), arguments: WireKind.allCases)
  func `an operation of a disabled user fails and signs out`(_ kind: WireKind) async throws {
    try await withBackend(over: kind) { backend in
      let auth = try auth(backend)
      let user = try await auth.createUser(withEmail: Self.email, password: Self.password).user
      try await backend.parts.accounts.setDisabled(true, .uid(user.uid))
      let code = await failure { try await user.updatePassword(to: "other words of ada") }
      // The server ends the session first, so that the code may be that of an ended session.
      #expect([.userDisabled, .userTokenExpired, .invalidUserToken, .nullUser].contains(code))
      #expect(auth.currentUser == nil)
    }
  }
}
