import ArgumentParser
import Foundation

/// A server under callgrind, a tool of valgrind that counts instructions. It is about fifty times slower.
final class CountedServer {
  /// The programs that a counted server needs.
  struct Programs: ParsableArguments {
    @Option(help: "The canopy to measure, without debug information, which valgrind cannot read.")
    var program: String
    @Option(help: "A library to load before it; see Scripts/instructions.")
    var preload: String
  }

  let server: Server
  /// The file whose name begins those of the dumps.
  private let output: String

  /// Starts a server on a folder. It counts nothing yet.
  init(_ programs: Programs, folder: String, arguments: [String]) throws {
    output = folder + "-callgrind.out"
    server = try Server(
      folder: folder, arguments: arguments,
      through: [
        // With a value of this variable the server does not start itself once more, which valgrind would not follow.
        "GLIBC_TUNABLES=glibc.malloc.tcache_count=256", "LD_PRELOAD=\(programs.preload)",
        "valgrind", "--tool=callgrind", "--instr-atstart=no",
        "--quiet", "--callgrind-out-file=\(output)", programs.program,
      ])
  }

  /// Returns the number of instructions of the server while `body` runs.
  ///
  /// - Parameter profile: the file that keeps the counts of all functions, for `callgrind_annotate`; nil for none.
  func count(keeping profile: String? = nil, _ body: () throws -> Void) throws -> Double {
    let before = try dumps()
    try control("--instr=on")
    // Otherwise the counts from before the last stop would be included.
    try control("--zero")
    try body()
    try control("--dump")
    try control("--instr=off")
    guard let dump = try dumps().subtracting(before).first,
      let line = try String(contentsOfFile: dump, encoding: .utf8).split(separator: "\n")
        .first(where: { $0.hasPrefix("totals: ") || $0.hasPrefix("summary: ") }),
      let total = line.split(separator: " ").last.flatMap({ Double($0) }), total > 0
    else { throw BenchFailure("callgrind has counted no instructions") }
    if let profile { try FileManager.default.copyItem(atPath: dump, toPath: profile) }
    return total
  }

  private func control(_ command: String) throws {
    try ChildProcess.run("/usr/bin/env", ["callgrind_control", command, "\(server.processID)"])
  }

  private func dumps() throws -> Set<String> {
    let url = URL(fileURLWithPath: output)
    let folder = url.deletingLastPathComponent()
    let files = try FileManager.default.contentsOfDirectory(atPath: folder.path)
    return Set(
      files.filter { $0.hasPrefix(url.lastPathComponent + ".") }.map { folder.path + "/" + $0 })
  }
}
