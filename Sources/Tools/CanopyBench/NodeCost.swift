import ArgumentParser
import CanopyTree
import Foundation

struct NodeCost: ParsableCommand {
  static let configuration = CommandConfiguration(
    abstract:
      "Count the instructions of a node on PostgreSQL for its own commits, those of others, and events.",
    discussion: """
      Two nodes use one PostgreSQL server. One of them runs under callgrind. It makes commits itself, follows \
      those that the other node makes one after the other and those that come many at a time, and sends \
      events of followed commits to listeners. Scripts/instructions builds the required programs.
      """)

  @OptionGroup var programs: CountedServer.Programs
  @Option(help: "The number of counted requests of each kind.") var requests = 200
  @Option(help: "The number of posts at the start.") var posts = 200
  @Option(help: "The number of listeners.") var listeners = 50

  func validate() throws {
    guard requests > 0, posts > 0, listeners > 0 else {
      throw ValidationError("the numbers of requests, posts and listeners must be at least 1")
    }
  }

  func run() throws {
    let signals = Children.endAllOnSignals()
    defer {
      Children.endAll()
      withExtendedLifetime(signals) {}
    }
    let folder = try Children.makeFolder()
    let postgres = try PostgresServer(folder: folder + "/postgres")
    let options = ["--postgres", postgres.url, "--checkpoint-after", "1800"]
    let other = try Server(folder: folder + "/other", arguments: options)
    let writer = try LineSocket(port: other.port)
    let token = try writer.signUp("star").token
    var posted: [String] = []
    for i in 0..<posts {
      let line = "POST \"Post \(i)\" \"\(String(repeating: "x", count: 300))\""
      guard let id = try writer.success(line)["id"]?.string else { throw BenchFailure("no post") }
      posted.append(id)
    }
    let node = try CountedServer(
      programs, folder: folder + "/node", arguments: options + ["--threads", "1"])
    let reader = try LineSocket(port: node.server.port)
    _ = try reader.success("AUTH \(token)")
    let administrator = try logIn(other, folder)
    let nodes = Nodes(node: node, reader: reader, administrator: administrator)

    let stars = (0..<requests).map { "STAR \(posted[$0 % posted.count])" }
    let sets = (0..<requests).map { "SET /fan-out \"\($0) \(String(repeating: "x", count: 288))\"" }
    let own = try nodes.count(stars) { for line in $0 { _ = try reader.success(line) } }
    let show = try nodes.count(posted.map { "SHOW \($0)" }) {
      for line in $0 { _ = try reader.success(line) }
    }
    let followed = try nodes.count(stars) { for line in $0 { _ = try writer.success(line) } }
    let followedTogether = try nodes.count(stars) { try writer.successes($0) }
    let set = try nodes.count(sets) { for line in $0 { _ = try administrator.success(line) } }
    let sockets = try (0..<listeners).map { _ in
      let socket = try logIn(node.server, folder)
      _ = try socket.success("LISTEN /fan-out {\"events\":\"value\"}")
      return socket
    }
    let told = try nodes.count(sets) {
      for line in $0 { _ = try administrator.success(line) }
      // The reply to a later request comes after the events.
      try nodes.awaitCommits()
      for socket in sockets { _ = try socket.success("PING") }
    }
    print("instructions of a node, of \(requests) requests each:")
    print("  STAR, a commit of its own                           \(Int(own))")
    print("  SHOW                                                \(Int(show))")
    print("  STAR of another node, one after the other           \(Int(followed))")
    print("  STAR of another node, many at a time                \(Int(followedTogether))")
    print("  SET of another node                                 \(Int(set))")
    print(
      "  event of that SET for one of \(listeners) listeners           "
        + "\(Int((told - set) / Double(listeners)))")
    try node.server.stop()
    try other.stop()
    postgres.stop()
  }

  private func logIn(_ server: Server, _ folder: String) throws -> LineSocket {
    let socket = try LineSocket(port: server.port)
    let token = try String(contentsOfFile: server.folder + "/admin-token", encoding: .utf8)
    _ = try socket.success("AUTH \(token.trimmingCharacters(in: .whitespacesAndNewlines))")
    return socket
  }

  /// The counted node, and a connection to the other one.
  private struct Nodes {
    let node: CountedServer
    let reader: LineSocket
    let administrator: LineSocket

    /// Returns the number of instructions of the node for one of these requests, until it has their commits.
    func count(_ lines: [String], _ send: ([String]) throws -> Void) throws -> Double {
      // Work that happens once is not counted.
      try send(Array(lines.prefix(20)))
      try awaitCommits()
      let total = try node.count {
        try send(lines)
        try awaitCommits()
      }
      return total / Double(lines.count)
    }

    /// Waits until the node has all commits of the other one.
    func awaitCommits() throws {
      let reply = try administrator.success("SET /last 1")
      guard case .leaf(let sequence)? = reply["seq"] else {
        throw BenchFailure("the reply to SET has no number")
      }
      let line = "COUNT /posts {\"atLeast\":\(sequence.integerValue ?? 0)}"
      // A node under callgrind may take longer than a read waits.
      for _ in 0..<60 {
        guard let reply = reader.request(line) else { throw BenchFailure("the node has ended") }
        if reply.hasPrefix("+") { return }
      }
      throw BenchFailure("the node does not get the commits of the other one")
    }
  }
}
