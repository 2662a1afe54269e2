import Foundation

/// A regular expression of Foundation, in which `^` and `$` match at each line. It searches all files in a fiftieth of the
/// time that `Regex` takes.
struct TextPattern: Sendable {
  private let expression: NSRegularExpression

  init(_ pattern: String) throws {
    expression = try NSRegularExpression(pattern: pattern, options: .anchorsMatchLines)
  }

  /// Whether a part of the text matches.
  func isFound(in text: String) -> Bool {
    expression.firstMatch(in: text, range: NSRange(text.startIndex..., in: text)) != nil
  }

  /// Returns the parts of the text that match, in their order.
  func matches(in text: String) -> [Substring] {
    expression.matches(in: text, range: NSRange(text.startIndex..., in: text)).compactMap {
      Range($0.range, in: text).map { text[$0] }
    }
  }
}
