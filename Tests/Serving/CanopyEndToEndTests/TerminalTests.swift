import CanopyTesting
import Foundation
import Testing

/// The output of commands to a terminal.
@Suite(.timeLimit(.minutes(20))) struct TerminalTests {
  /// The program that runs a command with a terminal. It is part of every Debian.
  private static let script = "/usr/bin/script"

  @Test
  func `a terminal gets escapes in place of the characters that it obeys, and a file the bytes`()
    async throws
  {
    let folder = try TemporaryFolder()
    let data = folder.file("data")
    let server = try await ServerProcess(data: data)
    let client = try await server.connect()
    try await client.value(try ServerProcess.authentication(data: data))
    let text = "a\u{9B}31mb\u{7F}c\u{202E}d\u{9D}é🌳"
    try await client.value("SET /n \"\(text)\"")
    let input = "\(try ServerProcess.authentication(data: data))\nGET /n\nQUIT\n"
    let words = ["shell", "--port", "\(server.port)"]
    let plain = try await Command.run(words, input: input)
    #expect(plain.text.contains(text))
    let shown = try await Command.run(
      ["-qec", ([Command.path] + words).joined(separator: " "), "/dev/null"], input: input,
      program: Self.script)
    #expect(shown.status == 0, "\(shown)")
    #expect(
      shown.text.contains(#"a\u{9B}31mb\u{7F}c\u{202E}d\u{9D}é🌳"#),
      "\(shown.text.debugDescription)")
    // The input has none of these characters, which the terminal repeats.
    #expect(!shown.text.unicodeScalars.contains { $0 == "\u{9B}" || $0 == "\u{202E}" })
    #expect(try await server.terminate() == 0)
  }
}
