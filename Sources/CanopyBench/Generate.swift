import ArgumentParser
import CanopyTree
import Foundation

struct Generate: ParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Write a data set of posts as JSON for canopy import.")

  @Option var posts = 1_000_000
  @Option var users = 1_000
  @Option(help: "Bytes in each body.") var bodyBytes = 300
  @Argument var file: String

  func run() throws {
    guard FileManager.default.createFile(atPath: file, contents: nil) else {
      throw BenchFailure("\(file) cannot be written")
    }
    guard let handle = FileHandle(forWritingAtPath: file) else {
      throw BenchFailure("\(file) cannot be written")
    }
    var output = JSONOutput { try handle.write(contentsOf: $0) }
    var ids = PushIDGenerator()
    var state: UInt64 = 42
    let keys = (0..<posts).map { i in
      ids.next(at: 1_700_000_000_000 + Int64(i) * 100) {
        state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
        return state
      }
    }
    let uids = try (0..<users).map { try Key("u" + String(1_000_000_000_000_000_000 + $0)) }

    output.append("{\"users\":{")
    for (i, uid) in uids.enumerated() {
      separate(&output, i)
      output.append(key: uid)
      output.append(raw: ":{\"username\":\"user\(i)\",\"createdAt\":1700000000000}")
    }
    output.append("},\"usernames\":{")
    for (i, uid) in uids.enumerated() {
      separate(&output, i)
      output.append(raw: "\"user\(i)\":")
      output.append(key: uid)
    }
    output.append("},\"posts\":{")
    for i in 0..<posts {
      separate(&output, i)
      append(&output, keys[i], i, uids)
    }
    output.append("},\"user-posts\":{")
    for (u, uid) in uids.enumerated() {
      separate(&output, u)
      output.append(key: uid)
      output.append(":{")
      for (n, i) in stride(from: u, to: posts, by: users).enumerated() {
        separate(&output, n)
        append(&output, keys[i], i, uids)
      }
      output.append("}")
    }
    output.append("}}\n")
    try output.finish()
  }

  private func separate(_ output: inout JSONOutput, _ i: Int) {
    if i > 0 { output.append(",") }
  }

  private func append(_ output: inout JSONOutput, _ key: Key, _ i: Int, _ uids: [Key]) {
    output.append(key: key)
    output.append(raw: ":{\"author\":\"user\(i % users)\",\"body\":\"")
    let text = "Post number \(i) of a data set, with a body of the usual length. "
    output.append(
      raw: String(
        String(repeating: text, count: bodyBytes / text.utf8.count + 1)
          .prefix(bodyBytes)))
    output.append(raw: "\",\"createdAt\":\(1_700_000_000_000 + Int64(i) * 100)")
    output.append(raw: ",\"starCount\":0,\"title\":\"Post number \(i)\",\"uid\":")
    output.append(key: uids[i % users])
    output.append("}")
  }
}
