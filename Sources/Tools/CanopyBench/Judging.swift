import ArgumentParser
import CanopyTree
import Foundation

struct Judging: ParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Count the instructions of a raw star update, with and without the rules.",
    discussion: """
      The same updates, of stars/<uid> and starCount of a post in one request, are made by a user, whom \
      the rules bind, and by the administrator, whom they do not; one request after the other, under \
      callgrind. Judging is what the one costs more: the rules themselves, and keeping the tree as it \
      was before. It fails when that is more than the bound. Scripts/judging-cost builds what this needs.
      """)

  @Option(help: "The canopy to measure, without debug information: valgrind cannot read it.")
  var program: String
  @Option(help: "A library that is loaded before it; see Scripts/judging-cost.")
  var preload: String
  @Option(help: "Updates that are counted, of each kind.") var requests = 400
  @Option(help: "Posts that are there besides.") var posts = 200
  @Option(help: "The most that judging may be of a request, in percent.") var percentMax = 20.0

  func run() throws {
    let signals = Children.endAllOnSignals()
    defer {
      Children.endAll()
      withExtendedLifetime(signals) {}
    }
    let folder = try Children.makeFolder()
    let output = folder + "/callgrind.out"
    let server = try Server(
      folder: folder + "/data", arguments: ["--threads", "1"],
      through: [
        "LD_PRELOAD=\(preload)", "valgrind", "--tool=callgrind", "--instr-atstart=no", "--quiet",
        "--callgrind-out-file=\(output)", program,
      ])
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
    let judged = try count(updates, socket, server, output)
    let blog = try count(updates.map { _ in "STAR \(post)" }, socket, server, output)
    let token = try String(contentsOfFile: folder + "/data/admin-token", encoding: .utf8)
    _ = try socket.success("AUTH \(token.trimmingCharacters(in: .whitespacesAndNewlines))")
    let unjudged = try count(updates, socket, server, output)
    try server.stop()

    let percent = 100 * (judged - unjudged) / judged
    print("instructions of one request, of \(requests):")
    print("  a star by UPDATE, judged by the rules     \(Int(judged))")
    print("  the same as the administrator, not judged \(Int(unjudged))")
    print("  a star by STAR, of both copies            \(Int(blog))")
    print("judging: \(Int(judged - unjudged)), \(String(format: "%.1f", percent)) % of a request")
    guard percent <= percentMax else { throw BenchFailure("more than \(percentMax) %") }
  }

  /// The instructions that the server takes for one of these requests.
  private func count(
    _ lines: [String], _ socket: LineSocket, _ server: Server, _ output: String
  ) throws -> Double {
    // What is made once is not counted.
    for line in lines.prefix(20) { _ = try socket.success(line) }
    let before = try dumps(output)
    try control(server, "--instr=on")
    // What was counted before it was switched off last comes back otherwise.
    try control(server, "--zero")
    for line in lines { _ = try socket.success(line) }
    try control(server, "--dump")
    try control(server, "--instr=off")
    guard let dump = try dumps(output).subtracting(before).first,
      let line = try String(contentsOfFile: dump, encoding: .utf8).split(separator: "\n")
        .first(where: { $0.hasPrefix("totals: ") || $0.hasPrefix("summary: ") }),
      let total = line.split(separator: " ").last.flatMap({ Double($0) }), total > 0
    else { throw BenchFailure("callgrind has counted nothing") }
    return total / Double(lines.count)
  }

  private func control(_ server: Server, _ command: String) throws {
    try ChildProcess.run("/usr/bin/env", ["callgrind_control", command, "\(server.processID)"])
  }

  private func dumps(_ output: String) throws -> Set<String> {
    let folder = URL(fileURLWithPath: output).deletingLastPathComponent()
    let files = try FileManager.default.contentsOfDirectory(atPath: folder.path)
    return Set(
      files.filter { $0.hasPrefix("callgrind.out.") }.map { folder.path + "/" + $0 })
  }
}
