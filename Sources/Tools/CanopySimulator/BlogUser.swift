import CanopyTree
import CanopyWire

/// A user of the blog behind a raw client: the account, the posts, and the checks of their replies.
///
/// `@unchecked Sendable`: the simulation has one thread.
final class BlogUser: @unchecked Sendable {
  /// The kind of a request.
  enum Kind {
    case post, star, comment, delete
  }

  /// A request with what its check needs: a text that no other request has, or the id of a post.
  enum Action {
    case post(String)
    case star(String)
    case comment(String)
    case delete(String)
  }

  private let name: String
  private let history: History
  /// The posts of the user that are not deleted.
  private var posts: [String] = []
  private var hasAccount = false
  private var hasLoggedIn = false
  /// The user of the present connection; nil while it is anonymous.
  private var uid: Key?
  private var choice = Choice()

  init(_ name: String, _ history: History) {
    self.name = name
    self.history = history
  }

  /// The line that logs the user in. The first one creates the account.
  var login: String {
    let account = "\(name)@example.org \"password of \(name)\""
    return hasAccount ? "LOGIN \(account)" : "SIGNUP \(account) \(name)"
  }

  /// Notes that the connection has ended.
  func leave() { uid = nil }

  /// Returns a request and its line; nil if the user is not logged in, or has no post for it.
  func request(_ kind: Kind, _ text: String) -> (Action, String)? {
    guard uid != nil else { return nil }
    switch kind {
    case .post:
      return (.post(text), "POST \"title of \(text)\" \"\(text)\"")
    case .star:
      let id = ([Seeds.posts[0].text] + posts).randomElement(using: &choice)
      return id.map { (.star($0), "STAR \($0)") }
    case .comment:
      let id = posts.randomElement(using: &choice)
      return id.map { (.comment(text), "COMMENT \($0) \"\(text)\"") }
    case .delete:
      guard let index = posts.indices.randomElement(using: &choice) else { return nil }
      let id = posts.remove(at: index)
      return (.delete(id), "DELETE \(id)")
    }
  }

  // MARK: Replies

  /// Takes the reply to a login. Returns whether the user must log in once more.
  func take(login answer: Result<[UInt8], WireError>) throws -> Bool {
    switch answer {
    case .success(let json):
      hasAccount = true
      hasLoggedIn = true
      uid = try json.withUnsafeBytes { try JSONMembers($0).text("uid") }.flatMap { try? Key($0) }
      if uid == nil { throw Finding("no uid") }
    case .failure(let error) where error.code == .conflict && !hasAccount:
      // The reply to the sign-up was lost.
      hasAccount = true
      return true
    case .failure(let error) where [.unavailable, .overloaded].contains(error.code): break
    case .failure(let error) where error.code == .unauthenticated && !hasLoggedIn:
      // An error of the disk has interrupted the sign-up. The server completes it later, or removes the account.
      hasAccount = false
    case .failure(let error): throw error
    }
    return false
  }

  /// Checks the reply to a request.
  ///
  /// - Parameter known: the last commit that anybody had seen when the request was sent.
  func take(_ answer: Result<[UInt8], WireError>, to action: Action, since known: Int64) throws {
    let json: [UInt8]
    switch answer {
    case .success(let bytes): json = bytes
    case .failure(let error) where [.unavailable, .overloaded].contains(error.code): return
    case .failure(let error): throw error
    }
    let isTrue =
      switch action {
      case .post(let text):
        try add(json) && Set(history.sequences(of: text)).count == 1
      case .comment(let text): Set(history.sequences(of: text)).count == 1
      case .star(let id): try isStar(json, on: id, since: known)
      case .delete(let id):
        history.holds(after: known) { BlogUser.post(id, in: $0).isAbsent }
      }
    if !isTrue {
      let reply = String(decoding: json, as: UTF8.self)
      history.fail(
        "\(name) got \(reply) to \(action), which no commit after \(known) has")
    }
  }

  private func add(_ json: [UInt8]) throws -> Bool {
    guard let id = try json.withUnsafeBytes({ try JSONMembers($0).text("id") }) else {
      return false
    }
    posts.append(id)
    return true
  }

  private func isStar(_ json: [UInt8], on id: String, since known: Int64) throws -> Bool {
    let reply = try json.withUnsafeBytes { try WriteValue(json: $0, limits: .none).node }
    guard let uid else { return false }
    return history.holds(after: known) { root in
      let post = BlogUser.post(id, in: root)
      return post.child(Seeds.starCount) == reply.child(Seeds.starCount)
        && Node(!post.child(Seeds.stars).child(uid).isAbsent) == reply.child("starred")
    }
  }

  private static func post(_ id: String, in root: Node) -> Node {
    (try? Key(id)).map { root.child("posts").child($0) } ?? .absent
  }
}
