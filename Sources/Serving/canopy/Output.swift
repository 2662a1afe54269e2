import CanopySession
import Foundation
import Logging
import Synchronization

/// The output of commands: results on stdout, progress and notes on stderr.
enum Output {
  /// Prints a line to stdout without buffering.
  ///
  /// - Throws: `Failure` if stdout cannot be written.
  static func line(_ text: String) throws {
    try bytes(Data((shown(text) + "\n").utf8))
  }

  /// Writes bytes to stdout without buffering.
  static func bytes(_ data: Data) throws {
    try data.withUnsafeBytes { try bytes($0) }
  }

  /// Writes bytes to stdout without buffering. A terminal gets escapes in place of the characters that it obeys: the
  /// bytes may be text of strangers.
  static func bytes(_ bytes: UnsafeRawBufferPointer) throws {
    guard isTerminal else { return try write(bytes) }
    let text = unfinished.withLock { unfinished in
      unfinished += bytes
      return wholeCharacters(of: &unfinished)
    }
    try Data(shown(text).utf8).withUnsafeBytes { try write($0) }
  }

  private static let isTerminal = isatty(1) == 1
  /// The first bytes of a character whose last bytes are not written yet.
  private static let unfinished = Mutex<[UInt8]>([])

  /// Removes and returns the text of the bytes up to the last whole character.
  private static func wholeCharacters(of bytes: inout [UInt8]) -> String {
    var end = bytes.count
    // A character has at most four bytes.
    if let first = bytes.suffix(3).lastIndex(where: { $0 & 0xC0 != 0x80 }) {
      let length =
        switch bytes[first] {
        case 0xF0...: 4
        case 0xE0...: 3
        case 0xC0...: 2
        default: 1
        }
      if first + length > end { end = first }
    }
    defer { bytes.removeFirst(end) }
    return String(decoding: bytes[..<end], as: UTF8.self)
  }

  private static func write(_ bytes: UnsafeRawBufferPointer) throws {
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

/// The lines of the listeners of a server. They are printed when all ports are open: if one of them is in use, the server
/// ends, and none was ready.
final class ReadyLines: Sendable {
  private let count: Int
  private let logger: Logger
  private let lines = Mutex<[String]>([])

  /// - Parameter count: the number of listeners.
  init(of count: Int, _ logger: Logger) {
    self.count = count
    self.logger = logger
  }

  /// Notes a listener that is ready. The server also serves if stdout is closed.
  func note(_ name: String, _ host: String, _ port: Int) {
    logger.info("a port is open", metadata: ["listener": "\(name)", "port": "\(port)"])
    let line = "ready \(name) \(ConsoleAddress.text(host, port))"
    let complete = lines.withLock { lines in
      lines.append(line)
      return lines.count == count ? lines : []
    }
    for line in complete {
      do { try Output.line(line) } catch { logger.warning("\(line), but stdout is closed") }
    }
  }
}
