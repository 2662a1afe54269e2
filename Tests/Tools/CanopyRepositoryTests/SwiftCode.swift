/// Swift source without its comments and the contents of its string literals, line by line, so that a search finds
/// only code.
struct SwiftCode {
  let lines: [String]

  init(_ source: String) {
    var scanner = Scanner(source)
    scanner.scan()
    lines = scanner.code.split(separator: "\n", omittingEmptySubsequences: false).map(String.init)
  }

  /// The part of Swift's lexical grammar that is needed: comments, and strings of all four kinds. An interpolation
  /// counts as content of its string.
  private struct Scanner {
    private let source: [Character]
    private var index = 0
    var code = ""

    init(_ source: String) {
      self.source = Array(source)
    }

    private func starts(_ text: String, at place: Int) -> Bool {
      source[place...].starts(with: text)
    }

    mutating func scan() {
      while index < source.count {
        if starts("//", at: index) {
          skip { $0.source[$0.index] == "\n" }
        } else if starts("/*", at: index) {
          skip { $0.starts("*/", at: $0.index) }
          index += 2
        } else if let quote = openingQuote() {
          skipString(quote)
        } else {
          code.append(source[index])
          index += 1
        }
      }
    }

    /// Advances until `isEnd` is true, and keeps only line breaks.
    private mutating func skip(until isEnd: (Self) -> Bool) {
      while index < source.count, !isEnd(self) {
        if source[index] == "\n" { code.append("\n") }
        index += 1
      }
    }

    private func openingQuote() -> (pounds: Int, quotes: Int)? {
      var place = index
      while place < source.count, source[place] == "#" { place += 1 }
      guard place < source.count, source[place] == "\"" else { return nil }
      return (place - index, starts("\"\"\"", at: place) ? 3 : 1)
    }

    private mutating func skipString(_ opening: (pounds: Int, quotes: Int)) {
      let pounds = String(repeating: "#", count: opening.pounds)
      let end = String(repeating: "\"", count: opening.quotes) + pounds
      let escape = "\\" + pounds
      code.append("\"")
      index += opening.pounds + opening.quotes
      while index < source.count, !starts(end, at: index) {
        if starts(escape, at: index) { index += escape.count }
        if index < source.count, source[index] == "\n" { code.append("\n") }
        index += 1
      }
      code.append("\"")
      index += end.count
    }
  }
}
