import ArgumentParser
import CanopyTree
import Foundation

struct RulesCost: ParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Count the instructions of a raw star update, with and without the rules.",
    discussion: """
      A user, whose writes need the permission of the rules, and the administrator, whose writes do not, make \
      the same updates of stars/<uid> and starCount of a post in one request, one after the other, under \
      callgrind. The difference is the cost of authorization: evaluating the rules, and keeping the tree \
      from before the write. The command fails if the cost exceeds the bound. Scripts/instructions builds \
      the required programs.
      """)

  @OptionGroup var programs: CountedServer.Programs
  @Option(help: "The number of counted updates of each kind.") var requests = 400
  @Option(help: "The number of other posts.") var posts = 200
  @Option(help: "The largest share of authorization in a request, in percent.") var percentMax =
    20.0

  func run() throws {
    let signals = Children.endAllOnSignals()
    defer {
      Children.endAll()
      withExtendedLifetime(signals) {}
    }
    let folder = try Children.makeFolder()
    let counted = try CountedServer(
      programs, folder: folder + "/data", arguments: ["--threads", "1"])
    let server = counted.server
    let socket = try LineSocket(port: server.port)
    let uid = try socket.signUp("star").uid
    for i in 0..<posts {
      _ = try socket.success("POST \"Post \(i)\" \"\(String(repeating: "x", count: 300))\"")
    }
    guard let post = try socket.success("POST \"Title\" \"Body\"")["id"]?.string else {
      throw BenchFailure("no post")
    }
    let updates = (0..<requests).map { i in
      let isOn = i.isMultiple(of: 2)
      return "UPDATE /posts/\(post) {\"stars/\(uid)\":\(isOn ? "true" : "null"),"
        + "\"starCount\":\(isOn ? 1 : 0)}"
    }
    let withRules = try count(updates, socket, counted)
    let blog = try count(updates.map { _ in "STAR \(post)" }, socket, counted)
    let token = try String(contentsOfFile: folder + "/data/admin-token", encoding: .utf8)
    _ = try socket.success("AUTH \(token.trimmingCharacters(in: .whitespacesAndNewlines))")
    let withoutRules = try count(updates, socket, counted)
    try server.stop()

    let percent = 100 * (withRules - withoutRules) / withRules
    print("instructions of one request, of \(requests):")
    print("  a star by UPDATE, with the rules          \(Int(withRules))")
    print("  the same as the administrator, without    \(Int(withoutRules))")
    print("  a star by STAR, of both copies            \(Int(blog))")
    print(
      "authorization: \(Int(withRules - withoutRules)), \(String(format: "%.1f", percent)) % of a request"
    )
    guard percent <= percentMax else { throw BenchFailure("more than \(percentMax) %") }
  }

  /// Returns the number of instructions of the server for one of these requests.
  private func count(
    _ lines: [String], _ socket: LineSocket, _ counted: CountedServer
  ) throws -> Double {
    // Work that happens once is not counted.
    for line in lines.prefix(20) { _ = try socket.success(line) }
    let total = try counted.count { for line in lines { _ = try socket.success(line) } }
    return total / Double(lines.count)
  }
}
