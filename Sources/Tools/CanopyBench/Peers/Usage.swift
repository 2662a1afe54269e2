import Foundation

/// What a server has used, as `/proc` tells.
struct Usage {
  let processID: Int32
  /// Whether its processes are many (PostgreSQL has one for each connection).
  var hasChildren = false

  private var processIDs: [Int32] {
    guard hasChildren else { return [processID] }
    let path = "/proc/\(processID)/task/\(processID)/children"
    let text = (try? String(contentsOfFile: path, encoding: .utf8)) ?? ""
    return [processID] + text.split(separator: " ").compactMap { Int32($0) }
  }

  /// CPU seconds, in user and kernel, of all its processes, to a hundredth.
  func cpuSeconds() throws -> Double {
    var ticks = 0
    for id in processIDs {
      guard let text = try? String(contentsOfFile: "/proc/\(id)/stat", encoding: .utf8),
        let name = text.lastIndex(of: ")")
      else { continue }
      // The fields after the name, which may have spaces: utime and stime are the 12th and 13th.
      let fields = text[name...].split(separator: " ").dropFirst()
      ticks += fields.dropFirst(11).prefix(2).reduce(0) { $0 + (Int($1) ?? 0) }
    }
    guard ticks > 0 else { return 0 }
    return Double(ticks) / Double(sysconf(Int32(_SC_CLK_TCK)))
  }

  /// Forgets the peak of memory so far.
  func resetPeak() {
    try? "5".write(toFile: "/proc/\(processID)/clear_refs")
  }

  /// The most memory since `resetPeak`. Of many processes: the sum of their proportional shares now, as
  /// what they share must not be counted often and nobody keeps the peak of that.
  func peakBytes() -> Int {
    hasChildren
      ? processIDs.reduce(0) { $0 + field("Pss", of: "/proc/\($1)/smaps_rollup") }
      : field("VmHWM", of: "/proc/\(processID)/status")
  }

  func residentBytes() -> Int {
    field("VmRSS", of: "/proc/\(processID)/status")
  }

  private func field(_ name: String, of path: String) -> Int {
    guard let text = try? String(contentsOfFile: path, encoding: .utf8) else { return 0 }
    let line = text.split(separator: "\n").first { $0.hasPrefix(name + ":") }
    let number = line?.split(whereSeparator: { !$0.isNumber }).first.flatMap { Int($0) }
    return (number ?? 0) * 1024
  }
}

extension String {
  /// Writes to a file that is there: those in `/proc` cannot be replaced.
  fileprivate func write(toFile path: String) throws {
    guard let handle = FileHandle(forWritingAtPath: path) else { return }
    try handle.write(contentsOf: Data(utf8))
    try handle.close()
  }
}
