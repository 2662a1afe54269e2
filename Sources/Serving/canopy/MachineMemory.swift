import Foundation

/// The memory that this process may use, in bytes.
enum MachineMemory {
  /// The memory of the machine, or the bound of the control group if that is lower.
  ///
  /// - Parameters:
  ///   - physical: the memory of the machine in bytes.
  ///   - root: the folder in which the system mounts its pseudo file systems.
  static func available(
    physical: UInt64 = ProcessInfo.processInfo.physicalMemory, root: String = ""
  ) -> Int {
    let groups = (try? String(contentsOfFile: root + "/proc/self/cgroup", encoding: .utf8)) ?? ""
    var bytes = Int(clamping: physical)
    for line in groups.split(separator: "\n") {
      // `0::/path` for version 2, `n:memory:/path` for version 1.
      let fields = line.split(separator: ":", maxSplits: 2, omittingEmptySubsequences: false)
      guard fields.count == 3 else { continue }
      let isUnified = fields[1].isEmpty
      guard isUnified || fields[1].split(separator: ",").contains("memory") else { continue }
      let mount = isUnified ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory"
      let name = isUnified ? "memory.max" : "memory.limit_in_bytes"
      // The bounds of the groups above hold as well. In a container the path may not be visible.
      var path = String(fields[2])
      while true {
        if let limit = number(at: root + mount + path + "/" + name) { bytes = min(bytes, limit) }
        guard let slash = path.lastIndex(of: "/") else { break }
        path = String(path[..<slash])
      }
    }
    return bytes
  }

  private static func number(at path: String) -> Int? {
    guard let text = try? String(contentsOfFile: path, encoding: .utf8) else { return nil }
    return Int(text.trimmingCharacters(in: .whitespacesAndNewlines))
  }
}
