import Foundation
import Testing

/// The lines of the server's log, compared with the table of the article about operation.
struct LogTableTests {
  /// A line of the log, in the code or in the table. A part that differs from line to line is `…`.
  private struct Line: Hashable, CustomStringConvertible {
    var level: String
    var text: String

    var description: String { "\(level): \(text)" }

    /// Whether a row of the table describes this line of the code. A line may continue after the text of the row.
    func isDescribed(by row: Line) -> Bool {
      guard level == row.level || level == Line.anyLevel else { return false }
      return text.hasPrefix(row.text.trimming("…"))
    }

    static let anyLevel = "log"
  }

  /// The levels that an operator should look at.
  private static let levels = "critical|error|warning|notice"

  /// The functions whose first argument is a line of the log, without the level.
  private static let helpers = #"log|[lL]ines\.add"#

  /// The files in which such a function passes its argument to the logger.
  private static let helperFiles: Set<String> = [
    "Sources/Core/CanopyEngine/JournalLog.swift",
    "Sources/Serving/CanopySession/DroppedWrite.swift",
    "Sources/Serving/CanopySession/LogLineLimit.swift",
  ]

  /// Returns the calls of a file that write such a line: the level, and the argument as it begins.
  private static func calls(in source: String) throws -> [(level: String, argument: Substring)] {
    let anyCall = try TextPattern(#"[lL]ogger\.|\b(\#(helpers))\("#)
    guard anyCall.isFound(in: source) else { return [] }
    // Otherwise a dot between two letters is part of a word.
    let logger = try Regex(#"\b[lL]ogger\.(\#(levels))\(\s*"#).wordBoundaryKind(.simple)
    let helper = try Regex(#"\b(\#(helpers))\(\s*(?=")"#).wordBoundaryKind(.simple)
    return source.matches(of: logger).map {
      (String($0.output[1].substring ?? ""), source[$0.range.upperBound...])
    }
      + source.matches(of: helper).map { (Line.anyLevel, source[$0.range.upperBound...]) }
  }

  /// Returns the text of a string literal with `…` for its interpolations; nil for another argument.
  private static func text(ofLiteral source: Substring) -> String? {
    guard source.first == "\"" else { return nil }
    var (text, depth, rest) = ("", 0, source.dropFirst())
    while let character = rest.popFirst() {
      switch character {
      case "\\" where depth == 0 && rest.first == "(":
        (text, depth) = (text + "…", 0)
        repeat {
          let next = rest.popFirst()
          if next == "(" { depth += 1 }
          if next == ")" { depth -= 1 }
          if next == nil { return nil }
        } while depth > 0
      case "\"": return text
      default: text.append(character)
      }
    }
    return nil
  }

  private static func rows() throws -> [Line] {
    let article = try Document.article("Operating").text
    let pattern = try Regex(#"(?m)^\| (\#(levels)|info) \| `([^`]+)` \| .+\. \|$"#)
    return article.matches(of: pattern).map {
      Line(
        level: String($0.output[1].substring ?? ""), text: String($0.output[2].substring ?? ""))
    }
  }

  /// The Swift files of the server.
  private static var files: [String] {
    ["Core", "Blog", "Storage", "Serving"]
      .flatMap { Repository.files(in: "Sources/\($0)", suffix: ".swift") }
  }

  @Test func `each line of the log for an operator is in the table, with a sentence`() throws {
    let rows = try Self.rows()
    var count = 0
    for path in Self.files {
      for (level, argument) in try Self.calls(in: try Repository.text(path)) {
        guard let text = Self.text(ofLiteral: argument) else {
          #expect(
            Self.helperFiles.contains(path),
            "\(path): pass a literal to the logger, so that this test can find it: \(argument.prefix(60))"
          )
          continue
        }
        count += 1
        let line = Line(level: level, text: text)
        #expect(
          rows.contains { line.isDescribed(by: $0) },
          "\(path): add a row to the table under “Logs” in Operating.md: \(line)")
      }
    }
    #expect(count > 90)
  }

  @Test func `each row of the table is a line of the log`() throws {
    let source = try Self.files.map { try Repository.text($0) }.joined()
    for row in try Self.rows() {
      let part = row.text.split(separator: "…").max { $0.utf8.count < $1.utf8.count } ?? ""
      #expect(source.contains(part.trimmingCharacters(in: .whitespaces)), "\(row)")
    }
  }

  @Test func `the collector of lines finds literals, their levels and their interpolations`() throws
  {
    let source = """
      logger.error("a")
      configuration.logger.notice(
        "b \\(f(x)) c", metadata: [:])
      lines.add("d", [:])
      logger.info("e")
      logger.warning(message)
      """
    let calls = try Self.calls(in: source)
    #expect(calls.map(\.level) == ["error", "notice", "warning", "log"])
    #expect(calls.map { Self.text(ofLiteral: $0.argument) } == ["a", "b … c", nil, "d"])
  }
}

extension String {
  /// The text without another one at its end.
  fileprivate func trimming(_ end: String) -> String {
    hasSuffix(end) ? String(dropLast(end.count)) : self
  }
}
