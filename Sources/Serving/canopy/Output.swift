import Foundation

/// What commands print: results to stdout, progress and notes to stderr.
enum Output {
  /// Prints a line to stdout, at once.
  ///
  /// - Throws: `Failure` when nobody takes it.
  static func line(_ text: String) throws {
    try bytes(Data((text + "\n").utf8))
  }

  /// Writes bytes to stdout, at once.
  static func bytes(_ data: Data) throws {
    try data.withUnsafeBytes { try bytes($0) }
  }

  /// Writes bytes to stdout, at once.
  static func bytes(_ bytes: UnsafeRawBufferPointer) throws {
    do { try FileHandle.standardOutput.write(contentsOf: bytes) } catch {
      throw Failure(
        "stdout cannot be written: nobody reads it, or the disk that it goes to is full")
    }
  }

  /// Prints a line to stderr.
  static func note(_ text: String) {
    try? FileHandle.standardError.write(contentsOf: Data((text + "\n").utf8))
  }

  /// Rewrites one line on stderr, if that is a terminal; ends it when `isDone`.
  static func progress(_ text: String, isDone: Bool = false) {
    guard isatty(2) == 1 else { return }
    try? FileHandle.standardError.write(
      contentsOf: Data(("\r\u{1B}[K" + text + (isDone ? "\n" : "")).utf8))
  }

  /// A number of bytes for people.
  static func megabytes(_ bytes: Int) -> String {
    "\(bytes / 1_048_576) MiB"
  }
}
