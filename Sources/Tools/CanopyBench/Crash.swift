import ArgumentParser
import CanopyTree
import Foundation
import Synchronization

struct Crash: ParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Kill a server under load many times, and look for lost writes.",
    discussion: """
      Every write that was acknowledged before a kill must exist after the restart. A write that was \
      under way must be complete or absent. After each kill, canopy verify must find no problem.
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
        let (count, missing) = try user.check(socket)
        checked += count
        lost += missing.count
        for text in missing { print("lost: \(text)") }
      }
      for user in users { board.posts.append(contentsOf: user.takeNewPosts()) }
      if kill % 10 == 0 { print("\(kill) kills, \(checked) acknowledged writes checked") }
    }
    // Check all writes again, also the old ones.
    let socket = try LineSocket(port: server.port)
    for user in users {
      let missing = try user.checkAll(socket)
      lost += missing.count
      for text in missing { print("lost: \(text)") }
    }
    try server.stop()
    let verdict = try Server.run(["verify", "--data", folder])
    print(verdict.output, terminator: "")
    if verdict.status != 0 { torn += 1 }
    print("kills \(kills), acknowledged writes checked \(checked), lost \(lost), torn \(torn)")
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

  private let uid: String
  private let token: String
  private var random: SplitMix64
  private var newPosts: [String] = []
  private var newComments: [(post: String, id: String)] = []
  private var newStars: Set<String> = []
  private var posts: [String] = []
  private var comments: [(post: String, id: String)] = []
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
      let all = posts + newPosts
      number += 1
      let dice = random.next() % 10
      guard dice >= 3, let post = all.randomElement(using: &random) else {
        guard let reply = socket.request("POST \"Post \(number)\" \"By \(uid), number \(number)\""),
          let id = Self.id(reply)
        else { return }
        newPosts.append(id)
        continue
      }
      if dice < 7 {
        stars[post] = .unknown
        guard let reply = socket.request("STAR \(post)"), reply.hasPrefix("+") else { return }
        stars[post] = .known(reply.contains("\"starred\":true"))
        newStars.insert(post)
      } else {
        guard let reply = socket.request("COMMENT \(post) \"Comment \(number) of \(uid)\""),
          let id = Self.id(reply)
        else { return }
        newComments.append((post, id))
      }
    }
  }

  private static func id(_ reply: String) -> String? {
    guard reply.hasPrefix("+") else { return nil }
    return (try? JSONValue(json: String(reply.dropFirst())))?["id"]?.string
  }

  func takeNewPosts() -> [String] {
    defer {
      posts += newPosts
      comments += newComments
      newPosts = []
      newComments = []
      newStars = []
    }
    return newPosts
  }

  /// Checks the writes that were acknowledged since the last check.
  func check(_ socket: LineSocket) throws -> (count: Int, missing: [String]) {
    let missing = try missing(socket, newPosts, newComments, Array(newStars))
    return (newPosts.count + newComments.count + newStars.count, missing)
  }

  func checkAll(_ socket: LineSocket) throws -> [String] {
    try missing(socket, posts, comments, Array(stars.keys))
  }

  private func missing(
    _ socket: LineSocket, _ posts: [String], _ comments: [(post: String, id: String)],
    _ starred: [String]
  ) throws -> [String] {
    var missing: [String] = []
    for id in posts {
      guard let reply = socket.request("SHOW \(id)"), reply.hasPrefix("+") else {
        missing.append("post \(id)")
        continue
      }
    }
    for (post, id) in comments {
      // The page before a key that is just above the comment's key begins with the comment.
      let reply = try socket.success("COMMENTS \(post) {\"limit\":1,\"before\":\"\(id)~\"}")
      if reply.elements?.first?["id"]?.string != id { missing.append("comment \(id) on \(post)") }
    }
    for post in starred {
      guard case .known(let isStarred) = stars[post] else { continue }
      let show = try socket.success("SHOW \(post)")
      if (show["stars"]?[uid] != nil) != isStarred { missing.append("star of \(uid) on \(post)") }
    }
    return missing
  }
}
