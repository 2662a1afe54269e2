import Foundation

/// The properties of the machine, without which the results cannot be compared.
enum Machine {
  /// The CPU seconds of all programs since the start of the machine, to a hundredth.
  static func busySeconds() -> Double {
    let text = (try? String(contentsOfFile: "/proc/stat", encoding: .utf8)) ?? ""
    // The first line has user, nice, system, idle, iowait, irq, softirq and steal.
    let ticks = text.prefix { $0 != "\n" }.split(separator: " ").dropFirst().compactMap { Int($0) }
    guard ticks.count >= 8 else { return 0 }
    let idle = ticks[3] + ticks[4]
    return Double(ticks.prefix(8).reduce(0, +) - idle) / Double(sysconf(Int32(_SC_CLK_TCK)))
  }

  /// Returns the median milliseconds to append four kilobytes to a file and sync it.
  static func syncMilliseconds(in folder: String) throws -> Double {
    let path = folder + "/sync"
    guard FileManager.default.createFile(atPath: path, contents: nil),
      let file = FileHandle(forWritingAtPath: path)
    else { throw BenchFailure("\(path) cannot be written") }
    defer { try? FileManager.default.removeItem(atPath: path) }
    let block = Data(repeating: 1, count: 4096)
    return median(
      try (0..<200).map { _ in
        let started = monotonicNanoseconds()
        try file.write(contentsOf: block)
        guard fdatasync(file.fileDescriptor) == 0 else {
          throw BenchFailure("fdatasync: \(systemError())")
        }
        return Double(monotonicNanoseconds() - started) / 1e6
      })
  }
}
