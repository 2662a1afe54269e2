import Foundation
import Logging

/// The output of commands: results on stdout, progress and notes on stderr.
enum Output {
  /// Prints a line to stdout without buffering.
  ///
  /// - Throws: `Failure` if stdout cannot be written.
  static func line(_ text: String) throws {
    try bytes(Data((shown(text) + "\n").utf8))
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
    try? FileHandle.standardError.write(contentsOf: Data((shown(text) + "\n").utf8))
  }

  /// Returns a text with escapes in place of the characters that a terminal obeys: control characters other than line
  /// feeds and tabs, and those that change the direction of text. Stored data and files of others may have them.
  static func shown(_ text: String) -> String {
    guard text.unicodeScalars.contains(where: isObeyed) else { return text }
    var shown = String.UnicodeScalarView()
    for scalar in text.unicodeScalars {
      guard isObeyed(scalar) else {
        shown.append(scalar)
        continue
      }
      shown += "\\u{\(String(scalar.value, radix: 16, uppercase: true))}".unicodeScalars
    }
    return String(shown)
  }

  private static func isObeyed(_ scalar: Unicode.Scalar) -> Bool {
    switch scalar {
    case "\n", "\t": false
    case ..<" ", "\u{7F}"..."\u{9F}", "\u{61C}", "\u{200E}", "\u{200F}", "\u{2028}"..."\u{202E}",
      "\u{2066}"..."\u{2069}":
      true
    default: false
    }
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
