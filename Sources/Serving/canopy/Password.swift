import Foundation

/// The input of a password. A password is never an argument: other users of the machine could see it.
enum Password {
  /// Asks on a terminal without echo, or reads the first line of stdin.
  static func read() throws -> String {
    guard isatty(0) == 1 else {
      guard let line = try readFirstLine() else {
        throw Failure("stdin has no password; write it on the first line")
      }
      return line
    }
    try? FileHandle.standardError.write(contentsOf: Data("Password: ".utf8))
    var settings = termios()
    tcgetattr(0, &settings)
    let before = settings
    settings.c_lflag &= ~tcflag_t(ECHO)
    tcsetattr(0, TCSANOW, &settings)
    defer {
      var restored = before
      tcsetattr(0, TCSANOW, &restored)
      try? FileHandle.standardError.write(contentsOf: Data("\n".utf8))
    }
    guard let line = try readFirstLine() else { throw Failure("no password was typed") }
    return line
  }

  /// The most bytes that are read. A password may have fewer.
  private static let lineBytesMax = 64 * 1024

  /// Reads the first line of stdin without its end; nil if the input is empty.
  ///
  /// `readLine` would replace bytes that are not UTF-8, and with them the password.
  ///
  /// - Throws: `Failure` if the line is not UTF-8 or too long.
  private static func readFirstLine() throws -> String? {
    var bytes: [UInt8] = []
    var byte: UInt8 = 0
    var hasInput = false
    while Foundation.read(0, &byte, 1) == 1 {
      hasInput = true
      if byte == UInt8(ascii: "\n") { break }
      bytes.append(byte)
      guard bytes.count <= lineBytesMax else {
        throw Failure("the password is too long; write it on the first line")
      }
    }
    guard hasInput else { return nil }
    if bytes.last == UInt8(ascii: "\r") { bytes.removeLast() }
    let text = String(decoding: bytes, as: UTF8.self)
    guard text.utf8.elementsEqual(bytes) else {
      throw Failure("the password is not UTF-8; check the encoding of the terminal or of the file")
    }
    return text
  }
}
