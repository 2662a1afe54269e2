import Foundation
import Testing

/// README.md or an article of the documentation, and the parts of it that tests check.
struct Document: CustomTestStringConvertible, Sendable {
  /// The path from the root of the repository.
  let path: String
  let text: String

  var testDescription: String { path }

  /// The folder of the articles.
  static let catalog = "Sources/Documentation.docc"
  /// The folder of the articles about the client library, which are also documentation of their own.
  static let clientCatalog = "Sources/Client/CanopyClient/CanopyClient.docc"

  /// Returns README.md and all articles.
  static func all() throws -> [Document] {
    let articles = [catalog, clientCatalog].flatMap { Repository.files(in: $0, suffix: ".md") }
    return try (["README.md"] + articles).map { try Document($0) }
  }

  /// Returns the article with a name.
  static func article(_ name: String) throws -> Document {
    let path = "\(catalog)/\(name).md"
    return try Document(Repository.contains(path) ? path : "\(clientCatalog)/\(name).md")
  }

  /// A fenced block of code.
  struct Block {
    var language: String
    /// The number of the line after the opening fence.
    var firstLine: Int
    var lines: [String]
  }

  /// The lines that a person types on one connection, and the replies.
  struct Transcript: Sendable {
    struct Exchange: Sendable {
      var line: Int
      var typed: String
      var replies: [String]
    }

    /// The number of its first line.
    var line: Int
    var exchanges: [Exchange]
  }

  init(_ path: String) throws {
    self.path = path
    text = try Repository.text(path)
  }

  var blocks: [Block] {
    var blocks: [Block] = []
    var open: Block?
    let lines = text.split(separator: "\n", omittingEmptySubsequences: false)
    for (index, line) in lines.enumerated() {
      if var block = open {
        if line == "```" {
          blocks.append(block)
          open = nil
        } else {
          block.lines.append(String(line))
          open = block
        }
      } else if line.hasPrefix("```") {
        open = Block(language: String(line.dropFirst(3)), firstLine: index + 2, lines: [])
      }
    }
    return blocks
  }

  /// The blocks that begin with a typed line.
  var transcripts: [Transcript] {
    blocks.compactMap { block in
      guard block.lines.first?.hasPrefix("> ") == true else { return nil }
      var exchanges: [Transcript.Exchange] = []
      for (index, line) in block.lines.enumerated() {
        if line.hasPrefix("> ") {
          exchanges.append(
            .init(line: block.firstLine + index, typed: String(line.dropFirst(2)), replies: []))
        } else {
          exchanges[exchanges.count - 1].replies.append(line)
        }
      }
      return Transcript(line: block.firstLine, exchanges: exchanges)
    }
  }

  /// Whether a word is the id of a post or comment, or of an account: 20 characters.
  static func isID(_ word: Substring) -> Bool {
    word.count == 20 && (word.hasPrefix("-") || word.allSatisfy { $0 != "-" && $0 != "_" })
  }

  /// Words of the characters that ids are made of.
  static var word: Regex<Substring> { /[-0-9A-Z_a-z]+/ }
}

/// Compares replies with those of a document. In the document, `…` matches any text, and each id matches one id of the
/// server, which is the same everywhere.
struct ReplyMatcher {
  private var actual: [String: String] = [:]

  /// Returns a typed line with the server's own ids.
  func sent(_ typed: String) -> String {
    typed.replacing(Document.word) { match in
      actual[String(match.output)] ?? String(match.output)
    }
  }

  /// Returns whether a reply matches that of the document. Records ids that it contains for the first time.
  mutating func matches(_ expected: String, _ reply: String) throws -> Bool {
    var pattern = ""
    var new: [String] = []
    var rest = expected[...]
    while let match = rest.firstMatch(of: /…|[-0-9A-Z_a-z]+/) {
      pattern += Self.quoted(rest[..<match.range.lowerBound])
      let word = String(match.output)
      if word == "…" {
        pattern += ".*?"
      } else if !Document.isID(match.output) {
        pattern += Self.quoted(match.output)
      } else if let known = actual[word] {
        pattern += Self.quoted(known[...])
      } else if let index = new.firstIndex(of: word) {
        pattern += "\\\(index + 1)"
      } else {
        new.append(word)
        pattern += "([-0-9A-Z_a-z]{20})"
      }
      rest = rest[match.range.upperBound...]
    }
    pattern += Self.quoted(rest)
    guard let match = reply.wholeMatch(of: try Regex(pattern)) else { return false }
    for (index, id) in new.enumerated() {
      actual[id] = match.output[index + 1].substring.map(String.init)
    }
    return true
  }

  private static func quoted(_ text: Substring) -> String {
    NSRegularExpression.escapedPattern(for: String(text))
  }
}
