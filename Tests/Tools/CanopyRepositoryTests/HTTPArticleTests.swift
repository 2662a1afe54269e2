import CanopyTesting
import Foundation
import Testing

/// The commands of the article about HTTP, run by a shell.
struct HTTPArticleTests {
  /// A command of the article, and the lines that it prints.
  private struct Command {
    var line: Int
    var text: String
    var output: [String] = []
  }

  private static func commands() throws -> [Command] {
    var commands: [Command] = []
    for block in try Document.article("HTTP").blocks where block.language == "sh" {
      for (index, line) in block.lines.enumerated() {
        if line.hasPrefix("# ") {
          commands[commands.count - 1].output.append(String(line.dropFirst(2)))
        } else {
          commands.append(Command(line: block.firstLine + index, text: String(line)))
        }
      }
    }
    return commands
  }

  @Test(.timeLimit(.minutes(20)))
  func `the commands of the article about HTTP print what it shows`() async throws {
    let folder = try TemporaryFolder()
    let data = folder.file("data")
    let seed = try await Program.run(
      Program.canopy,
      ["seed", "--data", data, Repository.root.appending(path: SeedTests.path).path])
    try #require(seed.status == 0, "\(seed.errors)")
    let server = try await RunningServer(data: data, hasHTTP: true)
    let port = try #require(server.httpPort)
    let commands = try Self.commands()
    #expect(commands.filter { $0.text.hasPrefix("curl ") }.count >= 12)
    // One shell runs all of them, so that they share its variables. Between two outputs there is a line of its own.
    let mark = "--- the next command ---"
    var script = "curl() { command curl --silent --show-error \"$@\"; }\n"
    for command in commands {
      script += command.text.replacing("127.0.0.1:9000", with: "127.0.0.1:\(port)")
      script += "\nprintf '\\n%s\\n' '\(mark)'\n"
    }
    let run = try await Program.run("/bin/bash", ["-c", script], in: folder.url)
    let outputs = run.output.components(separatedBy: mark).map {
      $0.trimmingCharacters(in: .whitespacesAndNewlines)
    }
    #expect(outputs.count == commands.count + 1, "\(run.errors)")
    for (command, output) in zip(commands, outputs) {
      let isAsShown = Self.matches(command.output.joined(separator: "\n"), output)
      #expect(isAsShown, "HTTP.md:\(command.line): \(command.text)\n\(output.prefix(500))")
    }
    #expect(try await server.stop() == 0)
  }

  /// Whether a text is one that the article shows: an ellipsis stands for any text.
  private static func matches(_ shown: String, _ text: String) -> Bool {
    var rest = text[...]
    let parts = shown.components(separatedBy: "…")
    guard rest.hasPrefix(parts[0]) else { return false }
    rest = rest.dropFirst(parts[0].count)
    for part in parts.dropFirst() where !part.isEmpty {
      guard let range = rest.range(of: part) else { return false }
      rest = rest[range.upperBound...]
    }
    return rest.isEmpty || parts.count > 1 && text.hasSuffix(parts[parts.count - 1])
  }
}
