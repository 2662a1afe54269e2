import CanopyAccounts
import CanopyClient
import CanopyIdentity
import CanopyTesting
import CanopyTree
import Foundation
import Testing

/// The behaviour of the original client's accounts, over both protocols.
@Suite(.timeLimit(.minutes(20))) struct AuthBehaviourTests: AccountSuite {
  // MARK: Sign-in

  @Test(
    .ported(
      "AuthTests.testSignInAnonymouslySuccess", "AuthTests.testSignInAnonymouslyFailure"),
    arguments: WireKind.allCases)
  func `an anonymous user has a uid and nothing else, and stays the same`(
    _ kind: WireKind
  ) async throws {
    try await withBackend(over: kind) { backend in
      let auth = try auth(backend)
      let user = try await auth.signInAnonymously().user
      #expect(user.isAnonymous && !user.isEmailVerified && !user.uid.isEmpty)
      #expect(user.email == nil && user.displayName == nil)
      #expect(try await auth.signInAnonymously().user == user)
      try await user.reload()
      #expect(auth.currentUser == user)
      #expect(try await user.getIDTokenResult().signInProvider == "anonymous")
      try auth.signOut()
      let other = try await auth.signInAnonymously().user
      #expect(other.uid != user.uid)
    }
  }

  @Test(
    .ported(
      "UserTests.testLinkAndRetrieveDataProviderAlreadyLinked",
      "UserTests.testLinkAndRetrieveDataSuccess"),
    arguments: WireKind.allCases)
  func `an anonymous user who links an address and a password keeps uid and data`(
    _ kind: WireKind
  ) async throws {
    try await withBackend(over: kind) { backend in
      let (auth, other) = (try auth(backend), try auth(backend))
      try await other.createUser(withEmail: "eve@example.org", password: "secret words of eve")
      let user = try await auth.signInAnonymously().user
      age(backend)
      let taken = EmailAuthProvider.credential(
        withEmail: "eve@example.org", password: Self.password)
      #expect(await failure { try await user.link(with: taken) } == .emailAlreadyInUse)
      let linked = try await user.link(with: Self.credential).user
      #expect(linked.uid == user.uid && linked.email == Self.email && !linked.isAnonymous)
      #expect(auth.currentUser == linked)
      #expect(
        await failure { try await linked.link(with: Self.credential) } == .providerAlreadyLinked)
      try auth.signOut()
      #expect(try await auth.signIn(with: Self.credential).user.uid == user.uid)
    }
  }

  @Test(
    .ported(
      "AuthTests.testSignInWithCustomTokenFailure", "AuthTests.testSignInWithCustomTokenSuccess",
      "UserTests.testGetIDTokenResultSuccess"),
    arguments: WireKind.allCases)
  func `a custom token signs in with its claims`(_ kind: WireKind) async throws {
    try await withBackend(over: kind) { backend in
      let auth = try auth(backend)
      let service = try #require(backend.parts.identityService)
      let token = try await service.makeCustomToken(uid: "robot", claims: #"{"level":3}"#)
      #expect(
        await failure { try await auth.signIn(withCustomToken: "nonsense") } == .invalidCustomToken)
      let user = try await auth.signIn(withCustomToken: token).user
      #expect(user.uid == "robot" && !user.isAnonymous && user.email == nil)
      let result = try await user.getIDTokenResult()
      #expect(result.signInProvider == "custom")
      #expect(result.claims["level"] as? Int == 3)
      let now = Double(backend.parts.clock.now / 1_000)
      #expect(result.issuedAtDate.timeIntervalSince1970 == now)
      #expect(result.authDate.timeIntervalSince1970 == now)
      #expect(result.expirationDate.timeIntervalSince1970 == now + 3_600)
      try await user.reload()
      #expect(auth.currentUser?.isAnonymous == false)
    }
  }

  // MARK: Credentials

  @Test(
    .ported(
      "UserTests.testReauthenticateFailure", "UserTests.testReauthenticateSuccess",
      "UserTests.testReauthenticateUserMismatchFailure", "UserTests.testUpdateEmptyPasswordFailure",
      "UserTests.testUpdatePasswordFailure", "UserTests.testUpdatePasswordSuccess"),
    arguments: WireKind.allCases)
  func `a new password needs a recent sign-in, and ends the other sessions`(
    _ kind: WireKind
  ) async throws {
    try await withBackend(over: kind) { backend in
      let (auth, other) = (try auth(backend), try auth(backend))
      let user = try await auth.createUser(withEmail: Self.email, password: Self.password).user
      try await other.signIn(with: Self.credential)
      try await Auth.auth(database: try backend.anonymousClient())
        .createUser(withEmail: "eve@example.org", password: "secret words of eve")
      age(backend)
      #expect(
        await failure { try await user.updatePassword(to: "other words of ada") }
          == .requiresRecentLogin)
      let wrong = EmailAuthProvider.credential(withEmail: Self.email, password: "wrong words")
      #expect(await failure { try await user.reauthenticate(with: wrong) } == .wrongPassword)
      let eve = EmailAuthProvider.credential(
        withEmail: "eve@example.org", password: "secret words of eve")
      #expect(await failure { try await user.reauthenticate(with: eve) } == .userMismatch)
      #expect(auth.currentUser?.uid == user.uid)
      let again = try await user.reauthenticate(with: Self.credential).user
      #expect(again.uid == user.uid && again.email == Self.email)
      for weak in ["", "x"] {
        #expect(await failure { try await user.updatePassword(to: weak) } == .weakPassword)
      }
      try await user.updatePassword(to: "other words of ada")
      #expect(auth.currentUser?.uid == user.uid)
      try await user.reload()
      #expect(
        await failure { try await other.signIn(with: Self.credential) } == .wrongPassword)
      try await other.signIn(withEmail: Self.email, password: "other words of ada")
    }
  }

  @Test(
    .ported(
      "UserTests.testReloadFailureAutoSignOut", "UserTests.testReloadSuccess",
      "UserTests.testUpdateEmailFailure", "UserTests.testUpdateEmailSuccess"),
    arguments: WireKind.allCases)
  func `a new address ends the other sessions, whose next operation signs out`(
    _ kind: WireKind
  ) async throws {
    try await withBackend(over: kind) { backend in
      let (auth, other) = (try auth(backend), try auth(backend))
      let user = try await auth.createUser(withEmail: Self.email, password: Self.password).user
      let same = try await other.signIn(with: Self.credential).user
      #expect(await failure { try await user.updateEmail(to: "nonsense") } == .invalidEmail)
      #expect(auth.currentUser?.email == Self.email)
      try await user.updateEmail(to: "countess@example.org")
      #expect(auth.currentUser?.email == "countess@example.org")
      #expect(auth.currentUser?.uid == user.uid)
      #expect(await failure { try await same.reload() } != nil)
      #expect(other.currentUser == nil)
      try await other.signIn(withEmail: "countess@example.org", password: Self.password)
    }
  }

  @Test(arguments: WireKind.allCases)
  func `a user who deletes the account is signed out, and the data stay`(
    _ kind: WireKind
  ) async throws {
    try await withBackend(over: kind) { backend in
      let auth = try auth(backend)
      let states = Received<String>()
      auth.addStateDidChangeListener { _, user in states.add(user?.email ?? "none") }
      let user = try await auth.createUser(
        withEmail: Self.email, password: Self.password, username: "ada"
      ).user
      let post = ["uid": user.uid, "author": "ada", "title": "a", "body": "b"]
      try await backend.client().reference(withPath: "posts/p").setValue(post)
      age(backend)
      #expect(await failure { try await user.delete() } == .requiresRecentLogin)
      #expect(auth.currentUser?.uid == user.uid)
      try await user.reauthenticate(with: Self.credential)
      try await user.delete()
      #expect(auth.currentUser == nil && user.refreshToken == nil)
      #expect(await states.wait(for: 3) == ["none", Self.email, "none"])
      #expect(await failure { try await user.delete() } == .nullUser)
      #expect(
        await failure { try await auth.signIn(with: Self.credential) } == .wrongPassword)
      #expect(try backend.node("posts/p/title") == "a")
      try await auth.createUser(
        withEmail: Self.email, password: Self.password, username: "ada-again")
    }
  }

  // MARK: Codes

  @Test(
    .ported(
      "AuthTests.testResetPasswordFailure", "AuthTests.testResetPasswordSuccess",
      "AuthTests.testSendPasswordResetEmailSuccess",
      "AuthTests.testVerifyPasswordResetCodeFailure",
      "AuthTests.testVerifyPasswordResetCodeSuccess"),
    arguments: WireKind.allCases)
  func `a code of the administrator sets a new password once`(_ kind: WireKind) async throws {
    try await withBackend(over: kind) { backend in
      let auth = try auth(backend)
      try await auth.createUser(withEmail: Self.email, password: Self.password)
      try auth.signOut()
      try await auth.sendPasswordReset(withEmail: "stranger@example.org")
      #expect(backend.parts.codes.all.isEmpty)
      #expect(
        await failure { try await auth.sendPasswordReset(withEmail: "nonsense") } == .invalidEmail)
      try await auth.sendPasswordReset(withEmail: Self.email)
      // The reply does not wait for the code. A stranger's address gets none.
      try await eventually { backend.parts.codes.all.count == 1 }
      let code = try #require(backend.parts.codes.all.last?.text)
      #expect(try await auth.verifyPasswordResetCode(code) == Self.email)
      #expect(
        await failure { _ = try await auth.verifyPasswordResetCode("guess") }
          == .invalidActionCode)
      #expect(
        await failure { try await auth.confirmPasswordReset(withCode: code, newPassword: "x") }
          == .weakPassword)
      let new = "other words of ada"
      try await auth.confirmPasswordReset(withCode: code, newPassword: new)
      #expect(
        await failure { try await auth.confirmPasswordReset(withCode: code, newPassword: new) }
          == .invalidActionCode)
      try await auth.signIn(withEmail: Self.email, password: new)
      try await auth.sendPasswordReset(withEmail: Self.email)
      try await eventually { backend.parts.codes.all.count == 2 }
      let late = try #require(backend.parts.codes.all.last?.text)
      backend.parts.clock.advance(3_600_000)
      #expect(
        await failure { _ = try await auth.verifyPasswordResetCode(late) } == .expiredActionCode)
    }
  }

  @Test(
    .ported("AuthTests.testApplyActionCodeFailure", "AuthTests.testApplyActionCodeSuccess"),
    arguments: WireKind.allCases)
  func `a code proves the address, which a reload shows`(_ kind: WireKind) async throws {
    try await withBackend(over: kind) { backend in
      let auth = try auth(backend)
      let user = try await auth.createUser(withEmail: Self.email, password: Self.password).user
      #expect(!user.isEmailVerified)
      try await user.sendEmailVerification()
      let code = try #require(backend.parts.codes.all.last?.text)
      #expect(await failure { try await auth.applyActionCode("guess") } == .invalidActionCode)
      try await auth.applyActionCode(code)
      try await user.reload()
      #expect(auth.currentUser?.isEmailVerified == true)
      try auth.signOut()
      #expect(try await auth.signIn(with: Self.credential).user.isEmailVerified)
    }
  }
}
