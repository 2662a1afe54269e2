import ArgumentParser
import CanopyTree
import Foundation
import Synchronization

struct Crash: ParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Kill a server under load many times, and look for lost writes.",
    discussion: """
      Every write that was acknowledged before a kill must exist after the restart, with the texts that \
      were sent. A write that was under way must be complete or absent. After each kill, canopy verify \
      must find no problem.
      """)

  @Argument(help: "The number of kills.") var kills: Int
  @Option var connections = 16
  @Option(
    help: "The number of commits between checkpoints; a small one, so that kills hit checkpoints.")
  var checkpointEvery = 200
  @Option(help: "The seed of all random numbers; 0 draws one.") var seed: UInt64 = 0

  func run() throws {
    let seed = self.seed == 0 ? UInt64.random(in: 1...UInt64.max) : self.seed
    print("seed \(seed)")
    var random = SplitMix64(seed: seed)
    let folder = FileManager.default.temporaryDirectory
      .appendingPathComponent("canopy-crash-\(ProcessInfo.processInfo.processIdentifier)").path
    defer { try? FileManager.default.removeItem(atPath: folder) }
    let arguments = ["--checkpoint-every", "\(checkpointEvery)", "--retained-commits", "100"]

    var server = try Server(folder: folder, arguments: arguments)
    let users = try (0..<connections).map { i in
      let account = try LineSocket(port: server.port).signUp("crash\(i)")
      return CrashUser(uid: account.uid, token: account.token, seed: random.next())
    }
    var board = Board()
    var checked = 0
    var lost = 0
    var torn = 0
    func note(_ wrong: CrashUser.Wrong) {
      lost += wrong.missing.count
      torn += wrong.altered.count
      for text in wrong.missing { print("lost: \(text)") }
      for text in wrong.altered { print("torn: \(text)") }
    }
    for kill in 1...max(1, kills) {
      let stop = Date().addingTimeInterval(Double(random.next() % 400 + 50) / 1000)
      let port = server.port
      let ids = board.posts
      let threads = users.map { user in
        let done = DispatchSemaphore(value: 0)
        Thread.detachNewThread {
          user.load(port: port, posts: ids)
          done.signal()
        }
        return done
      }
      Thread.sleep(until: stop)
      server.kill()
      for thread in threads { thread.wait() }

      let verdict = try Server.run(["verify", "--data", folder])
      if verdict.status != 0 {
        torn += verdict.output.split(separator: "\n").count
        print(verdict.output)
      }
      server = try Server(folder: folder, arguments: arguments)
      let socket = try LineSocket(port: server.port)
      for user in users {
        let (count, wrong) = try user.check(socket)
        checked += count
        note(wrong)
      }
      for user in users { board.posts.append(contentsOf: user.takeNewPosts()) }
      if kill % 10 == 0 { print("\(kill) kills, \(checked) acknowledged writes checked") }
      // A long run shows how far it is also if its output is a file.
      fflush(nil)
    }
    // Check all writes again, also the old ones.
    let socket = try LineSocket(port: server.port)
    for user in users {
      note(try user.checkAll(socket))
    }
    try server.stop()
    let verdict = try Server.run(["verify", "--data", folder])
    print(verdict.output, terminator: "")
    if verdict.status != 0 { torn += 1 }
    print("kills \(kills), acknowledged writes checked \(checked), lost \(lost), torn \(torn)")
    if checked < kills {
      print("so few writes prove nothing: the users cannot log in, or the server refuses them")
      throw ExitCode(1)
    }
    if lost > 0 || torn > 0 { throw ExitCode(1) }
  }
}

private struct Board {
  var posts: [String] = []
}

/// A user of a crash test, which writes and records the acknowledged writes.
///
/// `@unchecked Sendable`: its own thread uses it during the load, and the main thread between loads.
private final class CrashUser: @unchecked Sendable {
  private enum Star {
    case known(Bool)
    /// A toggle was under way when the server was killed.
    case unknown
  }

  /// The acknowledged writes that are not as they were sent.
  struct Wrong {
    var missing: [String] = []
    var altered: [String] = []
  }

  private struct Post {
    var id: String
    var number: Int
  }

  private struct Comment {
    var post: String
    var id: String
    var number: Int
  }

  private let uid: String
  private let token: String
  private var random: SplitMix64
  private var newPosts: [Post] = []
  private var newComments: [Comment] = []
  private var newStars: Set<String> = []
  private var posts: [Post] = []
  private var comments: [Comment] = []
  private var stars: [String: Star] = [:]
  private var number = 0

  init(uid: String, token: String, seed: UInt64) {
    self.uid = uid
    self.token = token
    random = SplitMix64(seed: seed)
  }

  /// Writes until the connection breaks.
  func load(port: Int, posts: [String]) {
    guard let socket = try? LineSocket(port: port), socket.request("AUTH \(token)") != nil else {
      return
    }
    while true {
      let all = posts + newPosts.map(\.id)
      number += 1
      let dice = random.next() % 10
      guard dice >= 3, let post = all.randomElement(using: &random) else {
        let line = "POST \"\(title(number))\" \"\(body(number))\""
        guard let reply = socket.request(line), let id = Self.id(reply) else { return }
        newPosts.append(Post(id: id, number: number))
        continue
      }
      if dice < 7 {
        stars[post] = .unknown
        guard let reply = socket.request("STAR \(post)"), reply.hasPrefix("+") else { return }
        stars[post] = .known(reply.contains("\"starred\":true"))
        newStars.insert(post)
      } else {
        guard let reply = socket.request("COMMENT \(post) \"\(comment(number))\""),
          let id = Self.id(reply)
        else { return }
        newComments.append(Comment(post: post, id: id, number: number))
      }
    }
  }

  private func title(_ number: Int) -> String { "Post \(number)" }

  private func body(_ number: Int) -> String { "By \(uid), number \(number)" }

  private func comment(_ number: Int) -> String { "Comment \(number) of \(uid)" }

  private static func id(_ reply: String) -> String? {
    guard reply.hasPrefix("+") else { return nil }
    return (try? JSONValue(json: String(reply.dropFirst())))?["id"]?.string
  }

  /// Takes the writes since the last call to the older ones. Returns the ids of the new posts.
  func takeNewPosts() -> [String] {
    defer {
      posts += newPosts
      comments += newComments
      newPosts = []
      newComments = []
      newStars = []
    }
    return newPosts.map(\.id)
  }

  /// Checks the writes that were acknowledged since the last check.
  func check(_ socket: LineSocket) throws -> (count: Int, wrong: Wrong) {
    let wrong = try wrong(socket, newPosts, newComments, Array(newStars))
    return (newPosts.count + newComments.count + newStars.count, wrong)
  }

  func checkAll(_ socket: LineSocket) throws -> Wrong {
    try wrong(socket, posts, comments, Array(stars.keys))
  }

  private func wrong(
    _ socket: LineSocket, _ posts: [Post], _ comments: [Comment], _ starred: [String]
  ) throws -> Wrong {
    var wrong = Wrong()
    for post in posts {
      guard let reply = socket.request("SHOW \(post.id)"), reply.hasPrefix("+") else {
        wrong.missing.append("post \(post.id)")
        continue
      }
      let show = try JSONValue(json: String(reply.dropFirst()))
      if show["title"]?.string != title(post.number) || show["body"]?.string != body(post.number) {
        wrong.altered.append("post \(post.id): \(reply)")
      }
    }
    for comment in comments {
      // The page before a key that is just above the comment's key begins with the comment.
      let page = try socket.success(
        "COMMENTS \(comment.post) {\"limit\":1,\"before\":\"\(comment.id)~\"}")
      guard let found = page.elements?.first, found["id"]?.string == comment.id else {
        wrong.missing.append("comment \(comment.id) on \(comment.post)")
        continue
      }
      if found["text"]?.string != self.comment(comment.number) {
        wrong.altered.append("comment \(comment.id) on \(comment.post)")
      }
    }
    for post in starred {
      guard case .known(let isStarred) = stars[post] else { continue }
      let show = try socket.success("SHOW \(post)")
      if (show["stars"]?[uid] != nil) != isStarred {
        wrong.missing.append("star of \(uid) on \(post)")
      }
    }
    return wrong
  }
}
