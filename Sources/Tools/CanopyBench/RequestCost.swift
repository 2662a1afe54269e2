import ArgumentParser
import CanopyTree
import Foundation

struct RequestCost: ParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Count the instructions of each kind of request.",
    discussion: """
      One client sends one request at a time to a server with one event loop, under callgrind. So each write is a \
      batch of its own, and the count of a request includes that of a round of the event loop. It does not depend on \
      other work of the machine. Instructions of the kernel are not counted. Scripts/instructions builds the required \
      programs.
      """)

  @OptionGroup var programs: CountedServer.Programs
  @Option(help: "The number of counted requests of each kind.") var requests = 400
  @Option(help: "The number of posts at the start.") var posts = 1000
  @Option(help: "A folder for the counts of all functions, a file for each kind of request.")
  var profiles: String?

  func run() throws {
    let signals = Children.endAllOnSignals()
    defer {
      Children.endAll()
      withExtendedLifetime(signals) {}
    }
    if let profiles {
      try FileManager.default.createDirectory(
        atPath: profiles, withIntermediateDirectories: true)
    }
    let folder = try Children.makeFolder()
    let counted = try CountedServer(
      programs, folder: folder + "/data", arguments: ["--threads", "1"])
    let socket = try LineSocket(port: counted.server.port)
    _ = try socket.signUp("counter")
    let body = String(repeating: "x", count: 300)
    let ids = try (0..<posts).map { number in
      guard let id = try socket.success("POST \"Post \(number)\" \"\(body)\"")["id"]?.string else {
        throw BenchFailure("no post")
      }
      return id
    }
    guard let hot = ids.first else { throw BenchFailure("there must be a post") }
    print("instructions of one request, of \(requests), with \(posts) posts:")
    // Neighbours in a run of stars are far apart in the tree.
    let spread = (0..<requests).map { ids[$0 * 61 % ids.count] }
    for (name, lines) in [
      ("PING", spread.map { _ in "PING" }),
      ("SHOW", spread.map { "SHOW \($0)" }),
      ("RECENT, 20 posts", spread.map { _ in "RECENT" }),
      ("GET of a title", spread.map { "GET /posts/\($0)/title" }),
      ("STAR, spread over all posts", spread.map { "STAR \($0)" }),
      ("STAR, one post", spread.map { _ in "STAR \(hot)" }),
      ("POST", spread.map { _ in "POST \"A title\" \"\(body)\"" }),
    ] {
      // Work that happens once is not counted.
      for line in lines.prefix(20) { _ = try socket.success(line) }
      let file = name.split { !$0.isLetter }.joined(separator: "-") + ".callgrind"
      let total = try counted.count(keeping: profiles.map { $0 + "/" + file }) {
        for line in lines { _ = try socket.success(line) }
      }
      let label = name.padding(toLength: 30, withPad: " ", startingAt: 0)
      print("  \(label)\(Int(total / Double(lines.count)))")
    }
    try counted.server.stop()
  }
}
