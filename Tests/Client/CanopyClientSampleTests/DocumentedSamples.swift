import CanopyClient
import CanopyTesting
import Observation
import Testing

/// The Swift samples of README.md and of the articles. A test of the repository compares them with the documents.
enum DocumentedSamples {
  static func signIn() async throws -> User {
    let auth = Auth.auth()
    let result = try await auth.createUser(
      withEmail: "harriet@example.org", password: "chalk-dust-and-litmus-7", username: "Harriet")
    try auth.signOut()
    try await auth.signIn(withEmail: "harriet@example.org", password: "chalk-dust-and-litmus-7")
    return result.user
  }

  static func tryFirst(_ email: String, _ password: String) async throws -> User {
    let visitor = try await Auth.auth().signInAnonymously().user
    let credential = EmailAuthProvider.credential(withEmail: email, password: password)
    return try await visitor.link(with: credential).user
  }

  static func leave(_ user: User, _ password: String) async throws {
    let credential = EmailAuthProvider.credential(withEmail: user.email ?? "", password: password)
    try await user.reauthenticate(with: credential)
    try await user.delete()
  }

  static func publish(_ title: String, _ body: String, by user: User) async throws -> String? {
    let ref = Database.database().reference()
    guard let key = ref.child("posts").childByAutoId().key else { return nil }
    let author = try await ref.child("users/\(user.uid)/username").getData().value
    let post: [String: Any] = [
      "uid": user.uid, "author": author as? String ?? "", "title": title, "body": body,
      "createdAt": ServerValue.timestamp(),
    ]
    try await ref.updateChildValues([
      "/posts/\(key)": post,
      "/user-posts/\(user.uid)/\(key)": post,
    ])
    return key
  }

  static func watch(_ show: @escaping @Sendable (DataSnapshot) -> Void) -> () -> Void {
    let recent = Database.database().reference().child("posts").queryLimited(toLast: 10)
    let handle = recent.observe(.childAdded, with: { snapshot in show(snapshot) }) { error in
      print("not allowed: \(error.localizedDescription)")
    }
    return { recent.removeObserver(withHandle: handle) }
  }

  static func titlesWhenThereAre(_ count: Int) async throws -> [String] {
    let posts = Database.database().reference().child("posts")
    for try await snapshot in posts.queryLimited(toLast: 10).values {
      let titles = snapshot.childSnapshots.map {
        $0.childSnapshot(forPath: "title").value as? String ?? ""
      }
      if titles.count >= count { return titles }
    }
    return []
  }

  struct Post: Codable, Sendable {
    var uid, author, title, body: String
    var starCount: Int?
    var stars: [String: Bool]?
  }

  static func read(_ key: String) async throws -> Post {
    let snapshot = try await Database.database().reference(withPath: "posts/\(key)").getData()
    return try snapshot.data(as: Post.self)
  }

  static func toggleStar(_ post: DatabaseReference, by uid: String) async throws -> Bool {
    let (isCommitted, _) = try await post.runTransactionBlock { data in
      guard var post = data.value as? [String: Any] else { return .success(withValue: data) }
      var stars = post["stars"] as? [String: Bool] ?? [:]
      let count = post["starCount"] as? Int ?? 0
      post["starCount"] = stars[uid] == nil ? count + 1 : count - 1
      stars[uid] = stars[uid] == nil ? true : nil
      post["stars"] = stars
      data.value = post
      return .success(withValue: data)
    }
    return isCommitted
  }

  static func workOffline(_ name: DatabaseReference, _ done: @escaping @Sendable (String) -> Void) {
    name.database.goOffline()
    name.observeSingleEvent(of: .value, with: { done("seen: \($0.value as? String ?? "")") })
    name.setValue("Written on a train") { error, _ in
      done(error.map { "refused: \($0.localizedDescription)" } ?? "at the server")
    }
    name.database.goOnline()
  }

  static func testWithServer() async throws {
    try await withTestServer { server in
      let database = try Database(url: server.url)
      database.callbackQueue = DispatchQueue(label: "callbacks")
      try await Auth.auth(database: database).signIn(
        withAdministratorToken: server.administratorToken)
      let title = database.reference(withPath: "posts/p/title")
      try await title.setValue("Moths")
      #expect(try await title.getData().value as? String == "Moths")
    }
  }

  static func keepReadable(_ posts: DatabaseReference) {
    // Before any other use of the database.
    posts.database.isPersistenceEnabled = true
    posts.queryLimited(toLast: 100).keepSynced(true)
  }

  @MainActor @Observable final class RecentPosts {
    private(set) var titles: [String] = []
    private(set) var problem: String?
    private let query: DatabaseQuery
    private var handle: DatabaseHandle?

    init(_ count: UInt) {
      query = Database.database().reference().child("posts").queryLimited(toLast: count)
    }

    func appear() {
      handle = query.observe(
        .value,
        with: { snapshot in
          self.titles = snapshot.childSnapshots.reversed().map {
            $0.childSnapshot(forPath: "title").value as? String ?? ""
          }
        }
      ) { error in self.problem = error.localizedDescription }
    }

    func disappear() {
      if let handle { query.removeObserver(withHandle: handle) }
    }
  }
}
