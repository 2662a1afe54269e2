import ArgumentParser
import CanopyTree
import Foundation
import Synchronization

struct Contention: ParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Star one post from many connections at random, and compare all counts.")

  @Option var connections = 50
  @Option var seconds = 5.0

  func run() throws {
    let folder = FileManager.default.temporaryDirectory
      .appendingPathComponent("canopy-stars-\(ProcessInfo.processInfo.processIdentifier)").path
    defer { try? FileManager.default.removeItem(atPath: folder) }
    let server = try Server(folder: folder)
    let sockets = try (0..<connections).map { i in
      let socket = try LineSocket(port: server.port)
      let uid = try socket.signUp("star\(i)").uid
      return Starrer(socket: socket, uid: uid)
    }
    guard let first = sockets.first,
      let post = try first.socket.success("POST \"Everyone\" \"star me\"")["id"]?.string
    else { throw BenchFailure("no post") }
    let end = Date().addingTimeInterval(seconds)
    let done = DispatchSemaphore(value: 0)
    for starrer in sockets {
      Thread.detachNewThread {
        starrer.run(post, until: end)
        done.signal()
      }
    }
    for _ in sockets { done.wait() }

    let replies = sockets.reduce(0) { $0 + $1.replies }
    let sum = sockets.reduce(0) { $0 + $1.sum }
    let show = try first.socket.success("SHOW \(post)")
    let copy = try first.socket.success("POSTS me {\"limit\":1}").elements?.first
    let count = Self.count(show)
    let copyCount = Self.count(copy)
    let stars = Self.stars(show)
    let copyStars = Self.stars(copy)
    print(
      "replies \(replies), their sum \(sum), starCount \(count), stars \(stars), "
        + "in the other copy \(copyCount) and \(copyStars)")
    try server.stop()
    let verdict = try Server.run(["verify", "--data", folder])
    print(verdict.output, terminator: "")
    guard sum == count, count == stars, copyCount == count, copyStars == stars,
      verdict.status == 0, !sockets.contains(where: \.hasFailed)
    else { throw BenchFailure("the counts differ") }
  }

  private static func count(_ post: JSONValue?) -> Int {
    if case .leaf(let node) = post?["starCount"] { Int(node.integerValue ?? -1) } else { -1 }
  }

  private static func stars(_ post: JSONValue?) -> Int {
    if case .object(let members) = post?["stars"] { members.count } else { 0 }
  }
}

/// A client that stars and unstars one post.
///
/// `@unchecked Sendable`: its own thread uses it, and then the main thread after that thread has ended.
private final class Starrer: @unchecked Sendable {
  let socket: LineSocket
  let uid: String
  private(set) var replies = 0
  private(set) var sum = 0
  private(set) var hasFailed = false

  init(socket: LineSocket, uid: String) {
    self.socket = socket
    self.uid = uid
  }

  func run(_ post: String, until end: Date) {
    while Date() < end {
      guard let reply = socket.request("STAR \(post)"), reply.hasPrefix("+") else {
        hasFailed = true
        return
      }
      replies += 1
      sum += reply.contains("\"starred\":true") ? 1 : -1
    }
  }
}
