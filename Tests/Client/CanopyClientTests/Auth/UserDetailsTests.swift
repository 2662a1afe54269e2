import CanopyAccounts
import CanopyIdentity
import CanopyTesting
import Foundation
import Testing

@testable import CanopyClient

/// The details of a user's account, and the circumstances of a sign-in.
@Suite(.timeLimit(.minutes(20))) struct UserDetailsTests: AccountSuite {
  private func now(_ backend: Backend) -> Date {
    Date(timeIntervalSince1970: Double(backend.parts.clock.now) / 1_000)
  }

  @Test(arguments: WireKind.allCases)
  func `a user has the times of the account and the way of the sign-in`(
    _ kind: WireKind
  ) async throws {
    try await withBackend(over: kind) { backend in
      let auth = try auth(backend)
      let created = now(backend)
      let user = try await auth.createUser(withEmail: Self.email, password: Self.password).user
      #expect(user.metadata.creationDate == created)
      #expect(user.metadata.lastSignInDate == (kind == .realtime ? created : nil))
      let provider = try #require(user.providerData.first)
      #expect(user.providerData.count == 1)
      #expect(provider.providerID == EmailAuthProvider.id && provider.providerID == "password")
      #expect(provider.uid == Self.email && provider.email == Self.email)
      #expect(provider.displayName == user.displayName && provider.photoURL == nil)
      backend.parts.clock.advance(10_000)
      try auth.signOut()
      let again = try await auth.signIn(with: Self.credential).user
      #expect(again.metadata.creationDate == created)
      #expect(again.metadata.lastSignInDate == (kind == .realtime ? now(backend) : nil))
      try await again.reload()
      #expect(auth.currentUser?.metadata == again.metadata)
      #expect(auth.currentUser?.providerData == again.providerData)
    }
  }

  @Test(arguments: WireKind.allCases)
  func `an anonymous user has no provider until it is linked`(_ kind: WireKind) async throws {
    try await withBackend(over: kind) { backend in
      let auth = try auth(backend)
      let visitor = try await auth.signInAnonymously().user
      #expect(visitor.providerData.isEmpty && visitor.metadata.creationDate == now(backend))
      let user = try await visitor.link(with: Self.credential).user
      #expect(user.providerData.map(\.uid) == [Self.email])
      #expect(user.metadata.creationDate == visitor.metadata.creationDate)
    }
  }

  @Test(arguments: WireKind.allCases)
  func `a sign-in says whether it created the user`(_ kind: WireKind) async throws {
    try await withBackend(over: kind) { backend in
      let auth = try auth(backend)
      let first = try await auth.signInAnonymously().additionalUserInfo
      #expect(first == AdditionalUserInfo(providerID: "", isNewUser: true))
      let second = try await auth.signInAnonymously().additionalUserInfo
      #expect(second == AdditionalUserInfo(providerID: "", isNewUser: false))
      try auth.signOut()
      let signUp = try await auth.createUser(withEmail: Self.email, password: Self.password)
      #expect(
        signUp.additionalUserInfo == AdditionalUserInfo(providerID: "password", isNewUser: true))
      let signIn = try await auth.signIn(with: Self.credential)
      #expect(
        signIn.additionalUserInfo == AdditionalUserInfo(providerID: "password", isNewUser: false))
      let change = try await auth.updatePassword(from: Self.password, to: "other words of ada")
      #expect(change.additionalUserInfo == nil)
      let service = try #require(backend.parts.identityService)
      let token = try await service.makeCustomToken(uid: "robot")
      for isNew in [kind == .realtime, false] {
        let robot = try await auth.signIn(withCustomToken: token)
        #expect(
          robot.additionalUserInfo == AdditionalUserInfo(providerID: "", isNewUser: isNew))
      }
    }
  }

  @Test func `over HTTP a profile change sets and removes the picture`() async throws {
    try await withBackend(over: .realtime) { backend in
      let auth = try auth(backend)
      let user = try await auth.createUser(
        withEmail: Self.email, password: Self.password, username: "ada"
      ).user
      let url = try #require(URL(string: "https://example.org/ada.png"))
      let change = user.createProfileChangeRequest()
      change.photoURL = url
      change.displayName = "Ada L."
      try await change.commitChanges()
      let changed = try #require(auth.currentUser)
      #expect(changed.photoURL == url && changed.displayName == "Ada L.")
      #expect(changed.metadata == user.metadata && changed != user)
      #expect(changed.providerData.map(\.photoURL) == [url])
      try await changed.reload()
      #expect(auth.currentUser == changed)
      // A change of the name alone keeps the picture.
      let name = changed.createProfileChangeRequest()
      name.displayName = "ada"
      try await name.commitChanges()
      #expect(auth.currentUser?.photoURL == url && auth.currentUser?.displayName == "ada")
      let removal = try #require(auth.currentUser?.createProfileChangeRequest())
      removal.photoURL = nil
      try await removal.commitChanges()
      #expect(auth.currentUser?.photoURL == nil && auth.currentUser?.displayName == "ada")
    }
  }

  @Test func `over the line protocol a change of the picture is refused as a whole`() async throws {
    try await withBackend(over: .line) { backend in
      let auth = try auth(backend)
      let user = try await auth.createUser(
        withEmail: Self.email, password: Self.password, username: "ada"
      ).user
      let change = user.createProfileChangeRequest()
      change.photoURL = URL(string: "https://example.org/ada.png")
      change.displayName = "lovelace"
      #expect(await failure { try await change.commitChanges() } == .operationNotAllowed)
      try await user.reload()
      #expect(auth.currentUser == user)
    }
  }

  @Test func `the details survive a restart without a connection`() async throws {
    try await withBackend(over: .realtime) { backend in
      let folder = try TemporaryFolder()
      func open(_ name: String) throws -> Database {
        let database = try backend.anonymousClient { $0.persistenceFolder = folder.file(name) }
        database.isPersistenceEnabled = true
        return database
      }
      let first = try open("first")
      let user = try await Auth.auth(database: first).createUser(
        withEmail: Self.email, password: Self.password
      ).user
      let change = user.createProfileChangeRequest()
      change.photoURL = URL(string: "https://example.org/ada.png")
      try await change.commitChanges()
      first.goOffline()
      await first.recorded()
      // The first one still has its folder open.
      try FileManager.default.copyItem(
        atPath: folder.file("first"), toPath: folder.file("second"))
      let second = try open("second")
      second.goOffline()
      let kept = try #require(Auth.auth(database: second).currentUser)
      #expect(kept == Auth.auth(database: first).currentUser)
      #expect(kept.metadata == user.metadata && kept.photoURL != nil)
      #expect(kept.providerData.count == 1)
    }
  }
}
