import ArgumentParser
import CanopyTree
import Foundation

extension DataSet {
  /// Writes both copies of the posts as JSON for `canopy import`.
  func writeExport(to file: String) throws {
    guard FileManager.default.createFile(atPath: file, contents: nil),
      let handle = FileHandle(forWritingAtPath: file)
    else { throw BenchFailure("\(file) cannot be written") }
    var output = JSONOutput { try handle.write(contentsOf: $0) }
    let keys = keys()
    let uids = try (0..<users).map { try Key(uid($0)) }

    output.append("{\"users\":{")
    for (user, uid) in uids.enumerated() {
      separate(&output, user)
      output.append(key: uid)
      output.append(raw: ":{\"username\":\"\(username(user))\",\"createdAt\":1700000000000}")
    }
    output.append("},\"usernames\":{")
    for (user, uid) in uids.enumerated() {
      separate(&output, user)
      output.append(raw: "\"\(username(user))\":")
      output.append(key: uid)
    }
    output.append("},\"posts\":{")
    for post in 0..<posts {
      separate(&output, post)
      append(&output, keys[post], post, uids)
    }
    output.append("},\"user-posts\":{")
    for (user, uid) in uids.prefix(posts).enumerated() {
      separate(&output, user)
      output.append(key: uid)
      output.append(":{")
      for (n, post) in stride(from: user, to: posts, by: users).enumerated() {
        separate(&output, n)
        append(&output, keys[post], post, uids)
      }
      output.append("}")
    }
    output.append("}}\n")
    try output.finish()
    try handle.close()
  }

  private func separate(_ output: inout JSONOutput, _ i: Int) {
    if i > 0 { output.append(",") }
  }

  private func append(_ output: inout JSONOutput, _ key: Key, _ post: Int, _ uids: [Key]) {
    let user = author(of: post)
    output.append(key: key)
    output.append(raw: ":{\"author\":\"\(username(user))\",\"body\":\"\(body(post))\"")
    output.append(raw: ",\"createdAt\":\(createdAt(post)),\"starCount\":0")
    output.append(raw: ",\"title\":\"\(title(post))\",\"uid\":")
    output.append(key: uids[user])
    output.append("}")
  }
}

struct Generate: ParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Write a data set of posts as JSON for canopy import.")

  @Option var posts = 1_000_000
  @Option var users = 1_000
  @Option(help: "The number of bytes in each body.") var bodyBytes = 300
  @Argument var file: String

  func run() throws {
    try DataSet(posts: posts, users: users, bodyBytes: bodyBytes).writeExport(to: file)
  }
}
