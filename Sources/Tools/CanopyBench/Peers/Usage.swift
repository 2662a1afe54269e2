import Foundation

/// The use of CPU and memory by a server, from `/proc`.
struct Usage {
  let processID: Int32
  /// Whether the server has many processes. PostgreSQL has one for each connection.
  var hasChildren = false
  /// The other servers that work for this one.
  var others: [Usage] = []

  private var processIDs: [Int32] {
    guard hasChildren else { return [processID] }
    let path = "/proc/\(processID)/task/\(processID)/children"
    let text = (try? String(contentsOfFile: path, encoding: .utf8)) ?? ""
    return [processID] + text.split(separator: " ").compactMap { Int32($0) }
  }

  /// The CPU seconds of all its processes in user and kernel mode, to a hundredth.
  func cpuSeconds() throws -> Double {
    var ticks = 0
    for id in processIDs {
      guard let text = try? String(contentsOfFile: "/proc/\(id)/stat", encoding: .utf8),
        let name = text.lastIndex(of: ")")
      else { continue }
      // Utime and stime are the 12th and 13th field after the name, which may contain spaces.
      let fields = text[name...].split(separator: " ").dropFirst()
      ticks += fields.dropFirst(11).prefix(2).reduce(0) { $0 + (Int($1) ?? 0) }
    }
    let seconds = Double(ticks) / Double(sysconf(Int32(_SC_CLK_TCK)))
    return try others.reduce(seconds) { $0 + (try $1.cpuSeconds()) }
  }

  /// Sets the peak of memory to the memory in use now.
  func resetPeak() {
    try? "5".write(toFile: "/proc/\(processID)/clear_refs")
    for other in others { other.resetPeak() }
  }

  /// The peak of memory since `resetPeak`. For many processes it is the sum of their proportional shares now: shared
  /// memory must count once, and the system keeps no peak of the shares.
  func peakBytes() -> Int {
    let bytes =
      hasChildren
      ? processIDs.reduce(0) { $0 + field("Pss", of: "/proc/\($1)/smaps_rollup") }
      : field("VmHWM", of: "/proc/\(processID)/status")
    return others.reduce(bytes) { $0 + $1.peakBytes() }
  }

  /// The bytes that its processes have made the system write to the disk. Those of an ended child are part of its
  /// parent's.
  func writtenBytes() -> Int {
    processIDs.reduce(0) { sum, id in
      let text = (try? String(contentsOfFile: "/proc/\(id)/io", encoding: .utf8)) ?? ""
      let line = text.split(separator: "\n").first { $0.hasPrefix("write_bytes:") }
      return sum + (line?.split(separator: " ").last.flatMap { Int($0) } ?? 0)
    }
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
  /// Writes to an existing file. Files in `/proc` cannot be replaced.
  fileprivate func write(toFile path: String) throws {
    guard let handle = FileHandle(forWritingAtPath: path) else { return }
    try handle.write(contentsOf: Data(utf8))
    try handle.close()
  }
}
