import CanopyTesting
import Foundation
import Testing

@testable import CanopyClient

/// Replies about accounts that arrive after the user has signed out, or after another sign-in.
@Suite(.timeLimit(.minutes(20))) struct LateReplyTests: AccountSuite {
  private static let eve = EmailAuthProvider.credential(
    withEmail: "eve@example.org", password: "secret words of eve")

  /// Runs a body with the accounts of Ada and Eve, and a client behind a proxy. Only users may read.
  private func withProxy(
    _ kind: WireKind, _ body: (Backend, RewritingProxy, Auth) async throws -> Void
  ) async throws {
    try await withBackend(over: kind) { backend in
      for credential in [Self.credential, Self.eve] {
        try await auth(backend).createUser(
          withEmail: credential.email, password: credential.password)
      }
      try await backend.replaceRules(by: #"{"rules":{".read":"auth != null"}}"#)
      let proxy = RewritingProxy(target: backend.port)
      let port = try await proxy.start()
      let database = try backend.anonymousClient(through: port)
      try await body(backend, proxy, Auth.auth(database: database))
      database.goOffline()
      try await proxy.stop()
    }
  }

  /// A text of the reply to a sign-in.
  private func reply(_ kind: WireKind) -> String { kind == .line ? "\"token\"" : "\"localId\"" }

  /// Returns the code of the refusal of a read; nil if the client may read.
  private func refusal(_ auth: Auth) async -> DatabaseError.Code? {
    do {
      _ = try await auth.database.reference(withPath: "a").getData()
      return nil
    } catch { return (error as? DatabaseError)?.code }
  }

  /// Signs out and in as Eve while a reply is held, and releases the reply. On a line connection, the sign-in waits for it.
  private func changeToEve(_ kind: WireKind, _ proxy: RewritingProxy, _ auth: Auth) async throws {
    try auth.signOut()
    async let error = failure { try await auth.signIn(with: Self.eve) }
    if kind == .realtime { #expect(await error == nil) }
    try await proxy.release()
    #expect(await error == nil)
  }

  @Test(arguments: WireKind.allCases)
  func `a sign-in whose reply comes after the sign-out changes nothing`(
    _ kind: WireKind
  ) async throws {
    try await withProxy(kind) { _, proxy, auth in
      let users = Received<String>()
      auth.addStateDidChangeListener { _, user in users.add(user?.email ?? "none") }
      proxy.hold(reply(kind))
      async let error = failure { try await auth.signIn(with: Self.credential) }
      await proxy.holding.wait(for: 1)
      try auth.signOut()
      try await proxy.release()
      #expect(await error == .nullUser)
      #expect(auth.currentUser == nil && auth.token == nil)
      // The server knows of it too.
      #expect(await refusal(auth) == .permissionDenied)
      #expect(await users.wait(for: 1) == ["none"])
      try await auth.signIn(with: Self.credential)
      #expect(auth.currentUser?.email == Self.email)
      #expect(await refusal(auth) == nil)
    }
  }

  @Test(arguments: WireKind.allCases)
  func `a sign-in whose reply comes after another sign-in changes nothing`(
    _ kind: WireKind
  ) async throws {
    try await withProxy(kind) { _, proxy, auth in
      proxy.hold(reply(kind))
      async let error = failure { try await auth.signIn(with: Self.credential) }
      await proxy.holding.wait(for: 1)
      try await changeToEve(kind, proxy, auth)
      #expect(await error == (kind == .line ? .nullUser : .userMismatch))
      #expect(auth.currentUser?.email == Self.eve.email)
      #expect(await refusal(auth) == nil)
    }
  }

  @Test func `of two sign-ins the one that was called last counts, whichever reply comes first`()
    async throws
  {
    try await withProxy(.realtime) { _, proxy, auth in
      proxy.hold(reply(.realtime))
      async let error = failure { try await auth.signIn(with: Self.credential) }
      await proxy.holding.wait(for: 1)
      try await auth.signIn(with: Self.eve)
      try await proxy.release()
      #expect(await error == .userMismatch)
      #expect(auth.currentUser?.email == Self.eve.email)
      // The same user twice is no mismatch.
      proxy.hold(reply(.realtime))
      async let same = failure { try await auth.signIn(with: Self.eve) }
      await proxy.holding.wait(for: 2)
      try await auth.signIn(with: Self.eve)
      try await proxy.release()
      #expect(await same == nil)
      #expect(auth.currentUser?.email == Self.eve.email)
    }
  }

  // Without `async`, so that both requests are made before the first reply.
  private func signInTwice(_ auth: Auth, _ ends: Received<String>) {
    for credential in [Self.credential, Self.eve] {
      auth.signIn(with: credential) { result, error in
        ends.add("\(credential.email) \(error == nil ? "succeeded" : "failed")")
        #expect(error == nil || (error as? AuthError)?.code == .userMismatch)
        #expect(result == nil || result?.user.email == credential.email)
      }
    }
  }

  @Test(arguments: WireKind.allCases)
  func `of two sign-ins at once, nobody is announced whose sign-in fails`(_ kind: WireKind)
    async throws
  {
    try await withProxy(kind) { _, _, auth in
      let ends = Received<String>()
      auth.addStateDidChangeListener { _, user in
        if let email = user?.email { ends.add("\(email) announced") }
      }
      signInTwice(auth, ends)
      let all = await ends.wait { $0.count { !$0.hasSuffix("announced") } == 2 }
      for email in [Self.email, Self.eve.email] where all.contains("\(email) announced") {
        #expect(all.contains("\(email) succeeded"))
      }
      #expect(all.last == "\(Self.eve.email) succeeded" || kind == .realtime)
      #expect(auth.currentUser?.email == Self.eve.email)
      // On one connection, the replies come in the order of the requests.
      if kind == .line {
        #expect(
          all == [Self.email, Self.eve.email].flatMap { ["\($0) announced", "\($0) succeeded"] })
      }
    }
  }

  @Test(arguments: WireKind.allCases)
  func `a sign-in that was announced before the sign-out has succeeded`(_ kind: WireKind)
    async throws
  {
    try await withProxy(kind) { _, proxy, auth in
      let users = Received<String>()
      auth.addStateDidChangeListener { _, user in
        guard let email = user?.email else { return }
        users.add(email)
        try? auth.signOut()
      }
      // The reply with the rest of the account, which is read after the sign-in.
      proxy.hold(kind == .line ? "\"createdAt\"" : "\"users\"")
      async let result = auth.signIn(with: Self.credential)
      await users.wait(for: 1)
      #expect(try await result.user.email == Self.email)
      await proxy.holding.wait(for: 1)
      try await proxy.release()
      #expect(auth.currentUser == nil)
      #expect(await refusal(auth) == .permissionDenied)
    }
  }

  @Test(arguments: WireKind.allCases)
  func `a deletion that is confirmed after another sign-in signs no other user out`(
    _ kind: WireKind
  ) async throws {
    try await withProxy(kind) { backend, proxy, auth in
      let ada = try await auth.signIn(with: Self.credential).user
      proxy.hold(kind == .line ? "" : "HTTP/1.1 200")
      async let deletion = failure { try await ada.delete() }
      await proxy.holding.wait(for: 1)
      try await changeToEve(kind, proxy, auth)
      #expect(await deletion == nil)
      #expect(auth.currentUser?.email == Self.eve.email)
      let other = try self.auth(backend)
      #expect(await failure { try await other.signIn(with: Self.credential) } == .wrongPassword)
    }
  }

  @Test(arguments: WireKind.allCases)
  func `a change that is confirmed after the sign-out does not sign in again`(
    _ kind: WireKind
  ) async throws {
    try await withProxy(kind) { backend, proxy, auth in
      let ada = try await auth.signIn(with: Self.credential).user
      proxy.hold(kind == .line ? "" : "HTTP/1.1 200")
      async let change = ada.reauthenticate(with: Self.credential)
      await proxy.holding.wait(for: 1)
      try auth.signOut()
      try await proxy.release()
      // The server has carried it out.
      #expect(try await change.user.uid == ada.uid)
      #expect(auth.currentUser == nil && auth.token == nil)
      #expect(await refusal(auth) == .permissionDenied)
    }
  }

  @Test(arguments: WireKind.allCases)
  func `a token or an account that comes after the sign-out is not used`(
    _ kind: WireKind
  ) async throws {
    try await withProxy(kind) { _, proxy, auth in
      for count in [1, 2] {
        let ada = try await auth.signIn(with: Self.credential).user
        proxy.hold(kind == .line ? "" : "HTTP/1.1 200")
        async let error = failure {
          if count == 1 {
            _ = try await ada.getIDToken(forcingRefresh: true)
          } else {
            try await ada.reload()
          }
        }
        await proxy.holding.wait(for: count)
        try await changeToEve(kind, proxy, auth)
        #expect(await error == (kind == .line ? .nullUser : .userMismatch))
        let eve = try #require(auth.currentUser)
        #expect(eve.email == Self.eve.email)
        #expect(try await eve.getIDTokenResult().claims["user_id"] as? String == eve.uid)
        try auth.signOut()
      }
    }
  }

  @Test func `an operation of a user waits for a sign-in under way, and spares the other account`()
    async throws
  {
    try await withProxy(.line) { backend, proxy, auth in
      let ada = try await auth.signIn(with: Self.credential).user
      proxy.hold(reply(.line))
      async let second = failure { try await auth.signIn(with: Self.eve) }
      await proxy.holding.wait(for: 1)
      let results = Received<AuthErrorCode?>()
      start(ada, results)
      try await proxy.release()
      #expect(await second == nil)
      #expect(await results.wait(for: 2) == [.userMismatch, .userMismatch])
      for credential in [Self.credential, Self.eve] {
        try await self.auth(backend).signIn(with: credential)
      }
      // After a failed sign-in, the operation is the present user's.
      proxy.hold("")
      let eve = try #require(auth.currentUser)
      let wrong = EmailAuthProvider.credential(withEmail: Self.email, password: "wrong words")
      async let third = failure { try await auth.signIn(with: wrong) }
      await proxy.holding.wait(for: 2)
      reload(eve, results)
      try await proxy.release()
      #expect(await third == .wrongPassword)
      #expect(await results.wait(for: 3).last == .some(nil))
    }
  }

  // Without `async`, so that Swift takes the forms with a completion, which make the request before they return.
  private func start(_ user: User, _ results: Received<AuthErrorCode?>) {
    user.delete { results.add(($0 as? AuthError)?.code) }
    user.updateEmail(to: "new@example.org") { results.add(($0 as? AuthError)?.code) }
  }

  private func reload(_ user: User, _ results: Received<AuthErrorCode?>) {
    user.reload { results.add(($0 as? AuthError)?.code) }
  }

  @Test(arguments: WireKind.allCases)
  func `a sign-out while a connection begins takes effect at the server`(
    _ kind: WireKind
  ) async throws {
    try await withProxy(kind) { _, proxy, auth in
      try await auth.signIn(with: Self.credential)
      auth.database.goOffline()
      // Part of the first reply of a connection.
      proxy.hold(kind == .line ? "" : "\"ts\"")
      auth.database.goOnline()
      await proxy.holding.wait(for: 1)
      try auth.signOut()
      try await proxy.release()
      #expect(await refusal(auth) == .permissionDenied)
      #expect(auth.currentUser == nil)
    }
  }

  @Test(arguments: WireKind.allCases)
  func `a sign-in that waits for a connection is withdrawn by the sign-out`(
    _ kind: WireKind
  ) async throws {
    try await withProxy(kind) { _, proxy, auth in
      proxy.hold("")
      async let error = failure { try await auth.signIn(with: Self.credential) }
      await proxy.holding.wait(for: 1)
      try auth.signOut()
      // Before the connection is ready.
      #expect(await error == .nullUser)
      try await proxy.release()
      #expect(await refusal(auth) == .permissionDenied)
      #expect(auth.currentUser == nil)
    }
  }
}

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
