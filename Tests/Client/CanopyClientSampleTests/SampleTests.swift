import CanopyClient
import CanopyEngine
import CanopySocial
import CanopyTesting
import CanopyTree
import Foundation
import Observation
import Synchronization
import Testing

@testable import CanopyClientBench

/// The published samples and those of the documents, run with a server. They are compiled as an application is, and
/// run on the main actor where an application would.
///
/// The tests run one after the other, because `Database.database()` uses the environment and each test has its server.
@Suite(.serialized, .timeLimit(.minutes(20))) struct SampleTests {
  /// Runs a body with a server that `Database.database()` uses, signed in as a new user.
  private func withServer(
    _ body: @MainActor (Engine, User) async throws -> Void
  ) async throws {
    try await withLineServer { parts, port in
      // The library creates keys by the time of this machine, and the rules compare them with the server's time.
      parts.clock.advance(Int64(Date().timeIntervalSince1970 * 1_000) - parts.clock.now)
      setenv("CANOPY_URL", "canopy://127.0.0.1:\(port)", 1)
      defer { unsetenv("CANOPY_URL") }
      // An earlier test may have had this port, and have left its database offline.
      Database.database().goOnline()
      let user = try await Auth.auth().createUser(
        withEmail: "ada@example.org", password: "secret words of ada", username: "ada"
      ).user
      let database = Database.database()
      let result: Result<Void, Error>
      do { result = .success(try await body(parts.engine, user)) } catch {
        result = .failure(error)
      }
      database.goOffline()
      try result.get()
    }
  }

  private func at(_ engine: Engine, _ path: String) throws -> Node {
    engine.root.at(try Path(path))
  }

  @Test func `a profile is read once, and a post is observed, published and removed`() async throws
  {
    try await withServer { engine, user in
      let controller = PostController()
      controller.appear()
      controller.readProfileOnce()
      try await eventually { controller.profiles.count == 1 }
      #expect(controller.profiles == [Profile(username: "ada")])
      controller.publish(userID: user.uid, username: "ada", title: "A title", body: "A body")
      let posts = Database.database().reference().child("posts")
      let (first, _) = try await posts.observeSingleEventAndPreviousSiblingKey(of: .childAdded)
      controller.postRef = posts.child(first.key)
      controller.observePost()
      try await eventually { !controller.shownPosts.isEmpty }
      #expect(controller.shownPosts.last?["title"] as? String == "A title")
      _ = try await posts.child(first.key).getData()
      let copies = [
        try at(engine, "posts/\(first.key)"), try at(engine, "user-posts/\(user.uid)/\(first.key)"),
      ]
      #expect(copies[0] == copies[1] && copies[0].childCount == 4)
      controller.remove(first.key, of: user.uid)
      try await eventually { controller.shownPosts.last?.isEmpty == true }
      controller.disappear()
      _ = try await posts.getData()
      #expect(try at(engine, "posts").isAbsent)
      #expect(try at(engine, "user-posts").isAbsent)
    }
  }

  @Test func `transactions add and remove a star`() async throws {
    try await withServer { engine, user in
      let controller = PostController()
      controller.appear()
      controller.publish(userID: user.uid, username: "ada", title: "A title", body: "A body")
      let posts = Database.database().reference().child("posts")
      let (post, _) = try await posts.observeSingleEventAndPreviousSiblingKey(of: .childAdded)
      for count in [1, 0] {
        controller.toggleStar(on: post.ref)
        try await eventually { controller.outcomes.count == 2 - count }
        #expect(controller.outcomes.last == "committed true \(post.key)")
        let stored = try at(engine, "posts/\(post.key)")
        #expect(stored.child("starCount") == Node(Int64(count)))
        #expect(stored.child("stars").childCount == count)
        #expect(try at(engine, "user-posts/\(user.uid)/\(post.key)") == stored)
      }
    }
  }

  @Test func `a refused write is undone, and its completion says so`() async throws {
    try await withServer { engine, user in
      let controller = PostController()
      controller.appear()
      controller.setUserAndTell(user, "somebody else")
      try await eventually { controller.outcomes.count == 1 }
      #expect(controller.outcomes[0].hasPrefix("not saved: permissionDenied"))
      controller.readProfileOnce()
      try await eventually { controller.profiles.count == 1 }
      #expect(controller.profiles == [Profile(username: "ada")])
      // Writes without a completion are refused too.
      controller.setUser(user, "b b")
      controller.setUsername(user, "c c")
      _ = try await controller.ref.child("users").child(user.uid).getData()
      #expect(try at(engine, "users/\(user.uid)/username") == "ada")
    }
  }

  @Test
  func `an account of an address and a password writes its profile, posts, stars and comments`()
    async throws
  {
    try await withServer { engine, _ in
      let user = try await Auth.auth().createUser(
        withEmail: "grace@example.org", password: "secret words of grace"
      ).user
      let controller = PostController()
      controller.appear()
      let ref: DatabaseReference = controller.ref
      let profile = ref.child("users").child(user.uid)
      controller.setUserAndTell(user, "Grace")
      try await eventually { controller.outcomes == ["saved \(user.uid)"] }
      controller.publish(userID: user.uid, username: "Grace", title: "Moths", body: "A body")
      let (post, _) = try await ref.child("posts")
        .observeSingleEventAndPreviousSiblingKey(of: .childAdded)
      let copy = ref.child("user-posts").child(user.uid).child(post.key)
      let comment = ref.child("post-comments").child(post.key).childByAutoId()
      try await comment.setValue(["uid": user.uid, "author": "Grace", "text": "Also bees."])
      for count in [1, 0, 1] {
        controller.outcomes = []
        controller.toggleStar(on: post.ref)
        controller.toggleStar(on: copy)
        try await eventually { controller.outcomes.count == 2 }
        #expect(
          controller.outcomes == ["committed true \(post.key)", "committed true \(post.key)"])
        #expect(try at(engine, "posts/\(post.key)/stars").childCount == count)
        #expect(SocialCheck.problems(in: engine.root) == [])
      }
      let top = try await ref.child("user-posts").child(user.uid)
        .queryOrdered(byChild: "starCount").getData()
      #expect(top.childSnapshots.map(\.key) == [post.key])
      // A new name changes the post and the comment, and the name of another user is refused with the reason.
      controller.setUsername(user, "Hopper")
      _ = try await profile.getData()
      #expect(try at(engine, "posts/\(post.key)/author") == "Hopper")
      #expect(try at(engine, "post-comments/\(post.key)/\(comment.key ?? "")/author") == "Hopper")
      #expect(try at(engine, "usernames/grace").isAbsent)
      controller.outcomes = []
      controller.setUserAndTell(user, "ADA")
      try await eventually { controller.outcomes.count == 1 }
      #expect(controller.outcomes[0].contains("the user name ADA is taken"))
      #expect(SocialCheck.problems(in: engine.root) == [])
      controller.remove(post.key, of: user.uid)
      _ = try await profile.getData()
      #expect(try at(engine, "posts").isAbsent)
      #expect(SocialCheck.problems(in: engine.root) == [])
    }
  }

  @Test(arguments: ChaosTransport.allCases)
  func `the samples run on the demo server over both transports`(
    _ transport: ChaosTransport
  ) async throws {
    let folder = try TemporaryFolder()
    let server = try ServerProcess(
      transport, folder: folder.file("data"),
      seed: Checkout.root.appending(path: "Seeds/demo.json").path)
    defer {
      server.stop()
      withExtendedLifetime(folder) {}
    }
    setenv("CANOPY_URL", transport.url(port: server.port), 1)
    defer { unsetenv("CANOPY_URL") }
    let database = Database.database()
    // An earlier test may have had this port, and have left its database offline.
    database.goOnline()
    let result: Result<Void, any Error>
    do { result = .success(try await runSamples(transport)) } catch { result = .failure(error) }
    database.goOffline()
    try result.get()
  }

  @MainActor private func runSamples(_ transport: ChaosTransport) async throws {
    let user = try await Auth.auth().createUser(
      withEmail: "grace@example.org", password: "secret words of grace"
    ).user
    let controller = PostController()
    controller.appear()
    let ref: DatabaseReference = controller.ref
    let profile = ref.child("users").child(user.uid)
    // Over HTTP the sign-up writes no profile. A post before the profile is refused.
    #expect(try await profile.getData().exists() == (transport == .line))
    let early = ["uid": user.uid, "author": "Grace", "title": "Early", "body": "A body"]
    let key = try #require(ref.child("posts").childByAutoId().key)
    let refusal = await #expect(throws: DatabaseError.self) {
      try await ref.updateChildValues([
        "/posts/\(key)": early, "/user-posts/\(user.uid)/\(key)": early,
      ])
    }
    #expect(refusal?.code == .permissionDenied)
    controller.setUserAndTell(user, "Grace")
    try await eventually { controller.outcomes == ["saved \(user.uid)"] }
    controller.readProfileOnce()
    try await eventually { controller.profiles == [Profile(username: "Grace")] }

    controller.publish(userID: user.uid, username: "Grace", title: "Moths", body: "A body")
    let (copy, _) = try await ref.child("user-posts").child(user.uid)
      .observeSingleEventAndPreviousSiblingKey(of: .childAdded)
    let post = ref.child("posts").child(copy.key)
    controller.postRef = post
    controller.observePost()
    try await eventually { controller.shownPosts.last?["title"] as? String == "Moths" }

    let comments = CommentsController(post: copy.key)
    comments.appear()
    comments.list()
    let comment = comments.commentsRef.childByAutoId()
    try await comment.setValue(["uid": user.uid, "author": "Grace", "text": "Also bees."])
    try await eventually { comments.comments.count == 1 }
    for count in [1, 0, 1] {
      controller.outcomes = []
      controller.toggleStar(on: post)
      controller.toggleStar(on: copy.ref)
      try await eventually { controller.outcomes.count == 2 }
      #expect(
        controller.outcomes == ["committed true \(copy.key)", "committed true \(copy.key)"])
      let stored = try await post.getData()
      #expect(stored.childSnapshot(forPath: "stars").childrenCount == UInt(count))
      #expect(stored.childSnapshot(forPath: "starCount").value as? Int == count)
    }
    #expect(try await comments.myTopPosts.getData().childSnapshots.map(\.key) == [copy.key])
    #expect(try await comments.oldestPosts.getData().childrenCount == 63)
    #expect(try await comments.mostViewed.getData().childrenCount > 0)

    // A new name changes the post and the comment, and the name of another user is refused with the reason.
    controller.setUsername(user, "Hopper")
    _ = try await profile.getData()
    #expect(try await post.child("author").getData().value as? String == "Hopper")
    #expect(try await comment.child("author").getData().value as? String == "Hopper")
    controller.outcomes = []
    controller.setUserAndTell(user, "OldChalk")
    try await eventually { controller.outcomes.count == 1 }
    #expect(controller.outcomes[0].contains("the user name OldChalk is taken"))

    try await comment.removeValue()
    try await eventually { comments.comments.isEmpty }
    comments.disappear()
    controller.remove(copy.key, of: user.uid)
    try await eventually { controller.shownPosts.last?.isEmpty == true }
    controller.disappear()
    #expect(try await ref.child("posts").getData().childrenCount == 62)
  }

  @Test func `added and removed comments are rows of a table`() async throws {
    try await withServer { engine, user in
      let key = try #require(try await DocumentedSamples.publish("A title", "A body", by: user))
      let controller = CommentsController(post: key)
      controller.appear()
      controller.list()
      let ids = (1...3).map { _ in controller.commentsRef.childByAutoId().key ?? "" }
      for id in ids {
        try await controller.commentsRef.child(id).setValue([
          "uid": user.uid, "author": "ada", "text": "Comment \(id)",
        ])
      }
      try await eventually { controller.comments.count == 3 && controller.listed.last == ids }
      #expect(controller.tableView.inserted.map(\.row) == [0, 1, 2])
      try await controller.commentsRef.child(ids[1]).removeValue()
      try await eventually {
        controller.comments.count == 2 && controller.listed.last == [ids[0], ids[2]]
      }
      #expect(controller.tableView.deleted == [IndexPath(row: 1, section: 2)])
      controller.disappear()
      try await controller.commentsRef.child(ids[0]).removeValue()
      #expect(controller.comments.map(\.key) == [ids[0], ids[2]])
      #expect(try at(engine, "post-comments/\(key)").childCount == 1)
      #expect(try at(engine, "posts/\(key)/commentCount") == 1)
      #expect(SocialCheck.problems(in: engine.root) == [])
    }
  }

  @Test func `posts are listed by stars, by a nested value, and from their beginning`() async throws
  {
    try await withServer { _, user in
      var keys: [String] = []
      for title in ["one", "two"] {
        keys.append(try #require(try await DocumentedSamples.publish(title, "A body", by: user)))
      }
      let ref = Database.database().reference()
      let first = ref.child("posts").child(keys[0])
      #expect(try await DocumentedSamples.toggleStar(first, by: user.uid))
      let controller = CommentsController(post: keys[0])
      let top = try await controller.myTopPosts.getData()
      #expect(top.childSnapshots.map(\.key) == [keys[1], keys[0]])
      #expect(try await controller.oldestPosts.getData().childSnapshots.map(\.key) == keys)
      #expect(try await controller.mostViewed.getData().childrenCount == 2)
    }
  }

  @Test func `an observable store of recent posts follows the database`() async throws {
    try await withServer { _, user in
      let store = DocumentedSamples.RecentPosts(2)
      store.appear()
      _ = try await DocumentedSamples.publish("Rain gauge", "Eleven mm.", by: user)
      try await eventually { store.titles == ["Rain gauge"] }
      let changes = Mutex(0)
      withObservationTracking {
        _ = store.titles
      } onChange: {
        changes.withLock { $0 += 1 }
      }
      _ = try await DocumentedSamples.publish("Wind vane", "It turns.", by: user)
      try await eventually { store.titles == ["Wind vane", "Rain gauge"] }
      #expect(changes.withLock { $0 } == 1 && store.problem == nil)
      store.disappear()
    }
  }

  @Test func `a visitor gets an address and a password, and leaves`() async throws {
    try await withServer { _, _ in
      let (email, password) = ("visitor@example.org", "two lamps and a ladder")
      let user = try await DocumentedSamples.tryFirst(email, password)
      #expect(user.email == email && !user.isAnonymous)
      #expect(Auth.auth().currentUser == user)
      try await DocumentedSamples.leave(user, password)
      #expect(Auth.auth().currentUser == nil)
      await #expect(throws: AuthError.self) {
        try await Auth.auth().signIn(withEmail: email, password: password)
      }
    }
  }

  @Test func `the samples of the documents have the results that the documents state`() async throws
  {
    try await withServer { engine, _ in
      let user = try await DocumentedSamples.signIn()
      #expect(user.displayName == "Harriet" && Auth.auth().currentUser?.uid == user.uid)
      let shown = Mutex<[String]>([])
      let stop = DocumentedSamples.watch { snapshot in shown.withLock { $0.append(snapshot.key) } }
      let key = try #require(
        try await DocumentedSamples.publish("Rain gauge", "Eleven mm.", by: user))
      try await eventually { shown.withLock { $0 } == [key] }
      stop()
      #expect(try await DocumentedSamples.titlesWhenThereAre(1) == ["Rain gauge"])
      let place = Database.database().reference(withPath: "posts/\(key)")
      #expect(try await DocumentedSamples.toggleStar(place, by: user.uid))
      let post = try await DocumentedSamples.read(key)
      #expect(post.title == "Rain gauge" && post.starCount == 1 && post.stars == [user.uid: true])
      #expect(try await DocumentedSamples.toggleStar(place, by: user.uid))
      #expect(try at(engine, "posts/\(key)/starCount") == 0)
      let outcomes = Mutex<[String]>([])
      DocumentedSamples.workOffline(place.child("title")) { text in
        outcomes.withLock { $0.append(text) }
      }
      try await eventually { outcomes.withLock { $0.count } == 2 }
      #expect(outcomes.withLock { $0 } == ["seen: Written on a train", "at the server"])
      #expect(try at(engine, "posts/\(key)/title") == "Written on a train")
    }
  }

  @Test func `a post has the author of the profile, also after a write to it`() async throws {
    try await withServer { engine, user in
      let profile = Database.database().reference(withPath: "users/\(user.uid)")
      try await profile.child("username").setValue("ada-2")
      #expect(Auth.auth().currentUser?.displayName == "ada")
      let key = try #require(
        try await DocumentedSamples.publish("Rain gauge", "Eleven mm.", by: user))
      #expect(try at(engine, "posts/\(key)/author") == "ada-2")
      try await user.reload()
      #expect(Auth.auth().currentUser?.displayName == "ada-2")
    }
  }

  @Test func `an application is tested with a server in the process`() async throws {
    try await DocumentedSamples.testWithServer()
  }

  @Test func `a server for tests has the time of the machine, until the test moves it`()
    async throws
  {
    try await withTestServer { server in
      let folder = try TemporaryFolder()
      var options = DatabaseOptions()
      options.persistenceFolder = folder.path
      let database = try Database(url: server.url, options: options)
      let posts = database.reference(withPath: "posts")
      DocumentedSamples.keepReadable(posts)
      #expect(database.isPersistenceEnabled)
      try await Auth.auth(database: database).signIn(
        withAdministratorToken: server.administratorToken)
      let place = posts.child("p/createdAt")
      var times: [Int] = []
      for _ in 0..<2 {
        try await place.setValue(ServerValue.timestamp())
        times.append(try await place.getData().value as? Int ?? 0)
        server.advance(milliseconds: 5_000)
      }
      #expect(times[1] - times[0] == 5_000)
      #expect(abs(Double(times[0]) / 1_000 - Date().timeIntervalSince1970) < 300)
      database.goOffline()
      let kept = try await posts.queryLimited(toLast: 100).getData()
      #expect(kept.childSnapshots.map(\.key) == ["p"])
    }
  }

  @Test func `the deletion of the default app ends its databases`() async throws {
    try await withServer { _, user in
      FirebaseApp.configure()
      let app = try #require(FirebaseApp.app())
      let database = Database.database()
      #expect(database.app === app)
      database.goOffline()
      let write = Task {
        try await database.reference(withPath: "users/\(user.uid)/username").setValue("eve")
      }
      await Task.yield()
      #expect(await app.delete())
      let error = await #expect(throws: DatabaseError.self) { try await write.value }
      #expect(error?.code == .appDeleted)
      #expect(FirebaseApp.app() == nil)
      #expect(Database.database() !== database)
      Database.database().goOffline()
    }
  }
}
