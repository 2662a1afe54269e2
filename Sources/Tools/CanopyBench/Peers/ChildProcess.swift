import Foundation

/// A program of the system that runs until it is stopped, with its output in a file.
final class ChildProcess {
  private let process = Process()
  private let log: String

  var processID: Int32 { process.processIdentifier }

  init(_ executable: String, _ arguments: [String], log: String, endedBy signal: Int32) throws {
    self.log = log
    process.executableURL = URL(fileURLWithPath: executable)
    process.arguments = arguments
    process.standardInput = FileHandle.nullDevice
    guard FileManager.default.createFile(atPath: log, contents: nil),
      let handle = FileHandle(forWritingAtPath: log)
    else { throw BenchFailure("\(log) cannot be written") }
    process.standardOutput = handle
    process.standardError = handle
    try process.run()
    Children.add(processID, endedBy: signal)
  }

  /// Repeats an attempt until it succeeds, which shows that the program is ready.
  func waitUntilReady<Result>(_ attempt: () throws -> Result) throws -> Result {
    let end = Date().addingTimeInterval(120)
    while true {
      do {
        return try attempt()
      } catch {
        guard process.isRunning, Date() < end else {
          let text = (try? String(contentsOfFile: log, encoding: .utf8)) ?? ""
          throw BenchFailure("\(error); \(text.suffix(1000))")
        }
        usleep(2_000)
      }
    }
  }

  func stop(_ signal: Int32) {
    kill(processID, signal)
    process.waitUntilExit()
    Children.remove(processID)
  }

  /// Runs a program to its end.
  static func run(_ executable: String, _ arguments: [String]) throws {
    let process = Process()
    process.executableURL = URL(fileURLWithPath: executable)
    process.arguments = arguments
    let pipe = Pipe()
    process.standardOutput = pipe
    process.standardError = pipe
    try process.run()
    Children.add(process.processIdentifier, endedBy: SIGKILL)
    let output = pipe.fileHandleForReading.readDataToEndOfFile()
    process.waitUntilExit()
    Children.remove(process.processIdentifier)
    guard process.terminationStatus == 0 else {
      throw BenchFailure("\(executable): \(String(decoding: output, as: UTF8.self))")
    }
  }
}

/// Returns a port on which no program listens now.
func freePort() throws -> Int {
  let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
  defer { close(descriptor) }
  var address = sockaddr_in()
  address.sin_family = sa_family_t(AF_INET)
  address.sin_addr.s_addr = in_addr_t(0x7F00_0001).bigEndian
  var length = socklen_t(MemoryLayout<sockaddr_in>.size)
  let result = withUnsafeMutablePointer(to: &address) {
    $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
      bind(descriptor, $0, length) == 0 ? getsockname(descriptor, $0, &length) : -1
    }
  }
  guard result == 0 else { throw BenchFailure("no free port: \(systemError())") }
  return Int(UInt16(bigEndian: address.sin_port))
}
