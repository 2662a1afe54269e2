import Foundation
import Logging

/// The output of commands: results on stdout, progress and notes on stderr.
enum Output {
  /// Prints a line to stdout without buffering.
  ///
  /// - Throws: `Failure` if stdout cannot be written.
  static func line(_ text: String) throws {
    try bytes(Data((text + "\n").utf8))
  }

  /// Prints the line of a listener that is ready. The server also serves if stdout is closed.
  static func ready(_ name: String, _ host: String, _ port: Int, _ logger: Logger) {
    let ready = "ready \(name) \(host.contains(":") ? "[\(host)]" : host):\(port)"
    logger.info("a port is open", metadata: ["listener": "\(name)", "port": "\(port)"])
    do { try line(ready) } catch { logger.warning("\(ready), but stdout is closed") }
  }

  /// Writes bytes to stdout without buffering.
  static func bytes(_ data: Data) throws {
    try data.withUnsafeBytes { try bytes($0) }
  }

  /// Writes bytes to stdout without buffering.
  static func bytes(_ bytes: UnsafeRawBufferPointer) throws {
    do { try FileHandle.standardOutput.write(contentsOf: bytes) } catch {
      throw Failure(
        "stdout cannot be written: its reader has closed it, or its disk is full")
    }
  }

  /// Prints a line to stderr.
  static func note(_ text: String) {
    try? FileHandle.standardError.write(contentsOf: Data((text + "\n").utf8))
  }

  /// Replaces the line of progress on stderr if that is a terminal, and ends the line if `isDone`.
  static func progress(_ text: String, isDone: Bool = false) {
    guard isatty(2) == 1 else { return }
    try? FileHandle.standardError.write(
      contentsOf: Data(("\r\u{1B}[K" + text + (isDone ? "\n" : "")).utf8))
  }

  /// Returns a number of bytes as text in MiB.
  static func megabytes(_ bytes: Int) -> String {
    "\(bytes / 1_048_576) MiB"
  }
}
