import ArgumentParser
import CanopyClient
import Dispatch
import Foundation

/// A contention test: many client processes star one post at once, by the transaction of Firebase's
/// samples.
struct Stars: AsyncParsableCommand {
  static let configuration = CommandConfiguration(abstract: "Star one post from many clients.")

  @Option(help: "How many clients.")
  var clients = 20

  func run() async throws {
    let server = try ServerProcess()
    defer { server.stop() }
    let database = try Database(url: "canopy://127.0.0.1:\(server.port)", options: .quiet)
    try await Auth.auth(database: database).signIn(withAdministratorToken: server.token)
    let post = database.reference(withPath: "posts/p")
    try await post.setValue(["uid": "u", "author": "ada", "title": "A title", "body": "A body"])
    let started = ContinuousClock.now
    let processes = try (1...clients).map { number in
      try ClientProcess(
        ["star-client", "--port", "\(server.port)", "--uid", "user\(number)"], token: server.token)
    }
    for process in processes { _ = try process.lines() }
    let seconds = started.duration(to: .now) / .seconds(1)
    let snapshot = try await post.getData()
    let count = snapshot.childSnapshot(forPath: "starCount").value as? Int ?? 0
    let stars = snapshot.childSnapshot(forPath: "stars").childrenCount
    print(
      "\(clients) clients: starCount \(count), \(stars) stars, "
        + "\(String(format: "%.1f", seconds)) s with the start of the processes")
    if count != clients || stars != clients { throw ExitCode.failure }
  }
}

/// One client of `stars`.
struct StarClient: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "star-client", abstract: "One client of stars.", shouldDisplay: false)

  @Option var port: Int
  @Option var uid: String

  func run() async throws {
    let database = try Database(url: "canopy://127.0.0.1:\(port)", options: .quiet)
    let token = ProcessInfo.processInfo.environment["CANOPY_TOKEN"] ?? ""
    try await Auth.auth(database: database).signIn(withAdministratorToken: token)
    let isCommitted = try await toggleStar(on: database.reference(withPath: "posts/p"), of: uid)
    guard isCommitted else { throw BenchFailure("\(uid) did not star") }
  }
}

/// Adds a user's star to a post, or removes it, safely under concurrent changes.
///
/// One transaction is tried 25 times. With many clients on one post that may not be enough; then a
/// new one begins.
@discardableResult
func toggleStar(on post: DatabaseReference, of uid: String) async throws -> Bool {
  while true {
    do {
      return try await post.runTransactionBlock { currentData in
        guard var post = currentData.value as? [String: AnyObject] else {
          return .success(withValue: currentData)
        }
        var stars = post["stars"] as? [String: Bool] ?? [:]
        var starCount = post["starCount"] as? Int ?? 0
        if stars.removeValue(forKey: uid) != nil {
          starCount -= 1
        } else {
          starCount += 1
          stars[uid] = true
        }
        post["starCount"] = starCount as AnyObject?
        post["stars"] = stars as AnyObject?
        currentData.value = post
        return .success(withValue: currentData)
      }.0
    } catch let error as DatabaseError where error.code == .maxRetries {
      continue
    }
  }
}
