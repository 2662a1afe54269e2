import CanopyAccounts
import CanopyClient
import CanopyTesting
import CanopyTree
import Dispatch
import Foundation
import Testing

/// The parts of Firebase's surface around the database: apps, coders and the operations of a user.
@Suite(.timeLimit(.minutes(20))) struct SurfaceTests {
  @Test func `databases of named apps have sessions of their own`() async throws {
    try await withBackend { backend in
      let url = "canopy://127.0.0.1:\(backend.port)"
      var databases: [Database] = []
      for name in ["surface-1", "surface-2"] {
        let options = FirebaseOptions(googleAppID: "1:2:ios:3", gcmSenderID: "4")
        options.databaseURL = url
        FirebaseApp.configure(name: name, options: options)
        let app = try #require(FirebaseApp.app(name: name))
        let database = Database.database(app: app)
        database.callbackQueue = DispatchQueue(label: name)
        #expect(Database.database(app: app, url: url) === database)
        try await Auth.auth(app: app).createUser(
          withEmail: "\(name)@example.org", password: "secret words of ada", username: name)
        databases.append(database)
      }
      #expect(databases[0] !== databases[1])
      let names = databases.map { Auth.auth(database: $0).currentUser?.displayName }
      #expect(names == ["surface-1", "surface-2"])
      #expect(FirebaseApp.allApps?.keys.contains("surface-1") == true)
      for name in ["surface-1", "surface-2"] {
        #expect(await FirebaseApp.app(name: name)?.delete() == true)
        #expect(FirebaseApp.app(name: name) == nil)
      }
      #expect(!Database.sdkVersion().isEmpty)
    }
  }

  @Test func `a server for tests replaces that of the URL`() async throws {
    try await withBackend { backend in
      FirebaseApp.configure(
        name: "surface-3", options: FirebaseOptions(databaseURL: "canopy://127.0.0.1:1"))
      let app = try #require(FirebaseApp.app(name: "surface-3"))
      let database = Database.database(app: app)
      database.useEmulator(withHost: "127.0.0.1", port: 0)
      #expect(database.reference().url == "canopy://127.0.0.1:1/")
      database.useEmulator(withHost: "127.0.0.1", port: backend.port)
      Auth.auth(app: app).useEmulator(withHost: "127.0.0.1", port: 9099)
      #expect(Database.database(app: app) === database)
      #expect(database.reference(withPath: "a").url == "canopy://127.0.0.1:\(backend.port)/a")
      try await Auth.auth(app: app).signIn(
        withAdministratorToken: backend.parts.administratorToken.text)
      try await database.reference(withPath: "a").setValue(1)
      #expect(try backend.node("a") == 1)
      await app.delete()
    }
  }

  @Test func `a user's token, account and profile follow the session`() async throws {
    try await withBackend { backend in
      let auth = Auth.auth(database: try backend.anonymousClient())
      let tokens = Received<String>()
      let states = Received<String>()
      let handle = auth.addIDTokenDidChangeListener { _, user in tokens.add(user?.uid ?? "none") }
      auth.addStateDidChangeListener { _, user in states.add(user?.uid ?? "none") }
      await tokens.wait(for: 1)
      let user = try await auth.createUser(
        withEmail: "ada@example.org", password: "secret words of ada", username: "ada"
      ).user
      let first = try #require(user.refreshToken)
      try await auth.updatePassword(from: "secret words of ada", to: "other words of ada")
      let second = try #require(auth.currentUser?.refreshToken)
      #expect(first != second)
      // The password changed the token, not the user.
      #expect(await tokens.wait(for: 3) == ["none", user.uid, user.uid])
      #expect(await states.wait(for: 2) == ["none", user.uid])
      auth.removeIDTokenDidChangeListener(handle)

      let other = Auth.auth(database: try backend.anonymousClient())
      try await other.signIn(withToken: second)
      let change = user.createProfileChangeRequest()
      change.displayName = "countess"
      try await change.commitChanges()
      #expect(auth.currentUser?.displayName == "countess")
      #expect(other.currentUser?.displayName == "ada")
      try await other.currentUser?.reload()
      #expect(other.currentUser?.displayName == "countess")
      try auth.signOut()
      await #expect(throws: AuthError.self) { try await user.getIDToken() }
      await #expect(throws: AuthError.self) { try await user.reload() }
    }
  }

  private struct Note: Codable, Equatable {
    var text: String
    @ServerTimestamp var at: Date?
    @ExplicitNull var mood: String?
  }

  @Test func `the server sets a timestamp, and an explicit null removes a child`() async throws {
    try await withBackend { backend in
      let place = try await backend.client().reference(withPath: "note")
      try await place.setValue(from: Note(text: "a", at: nil, mood: "calm"))
      let first = try await place.getData().data(as: Note.self, decoder: Database.Decoder())
      #expect(first.text == "a" && first.mood == "calm" && first.at != nil)
      var changed = first
      changed.mood = nil
      let members = try #require(Database.Encoder().encode(changed) as? [String: Any])
      #expect(members["mood"] is NSNull)
      try await place.updateChildValues(members)
      let second = try Database.Decoder().decode(
        Note.self, from: try #require(try await place.getData().value))
      #expect(second == changed)
      #expect(try backend.node("note/mood").isAbsent)
    }
  }
}
