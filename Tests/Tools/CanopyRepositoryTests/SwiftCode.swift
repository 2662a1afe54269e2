import Synchronization

/// Swift source without its comments and the contents of its string literals, line by line, so that a search finds
/// only code.
struct SwiftCode {
  /// All lines.
  let text: String

  var lines: [Substring] { text.split(separator: "\n", omittingEmptySubsequences: false) }

  init(_ source: String) {
    var scanner = Scanner(source)
    scanner.scan()
    text = String(decoding: scanner.code, as: UTF8.self)
  }

  private static let files = Mutex<[String: SwiftCode]>([:])

  /// Returns the code of a file of the repository. Several tests read each file, so it is scanned once.
  static func ofFile(_ path: String) throws -> SwiftCode {
    if let code = files.withLock({ $0[path] }) { return code }
    let code = SwiftCode(try Repository.text(path))
    files.withLock { $0[path] = code }
    return code
  }

  /// The part of Swift's lexical grammar that is needed: comments, and strings of all four kinds. An interpolation
  /// counts as content of its string.
  private struct Scanner {
    private let source: [UInt8]
    private var index = 0
    var code: [UInt8] = []

    init(_ source: String) {
      self.source = Array(source.utf8)
      code.reserveCapacity(self.source.count)
    }

    private func starts(_ text: [UInt8], at place: Int) -> Bool {
      // Almost all places differ in the first byte.
      guard place < source.count, source[place] == text.first else { return false }
      return source[place...].starts(with: text)
    }

    mutating func scan() {
      while index < source.count {
        if starts(Self.lineComment, at: index) {
          skip { $0.source[$0.index] == Self.lineBreak }
        } else if starts(Self.commentStart, at: index) {
          skip { $0.starts(Self.commentEnd, at: $0.index) }
          index += 2
        } else if let quote = openingQuote() {
          skipString(quote)
        } else {
          code.append(source[index])
          index += 1
        }
      }
    }

    private static let lineComment = Array("//".utf8)
    private static let commentStart = Array("/*".utf8)
    private static let commentEnd = Array("*/".utf8)
    private static let threeQuotes = [quote, quote, quote]
    private static let lineBreak = UInt8(ascii: "\n")
    private static let quote = UInt8(ascii: "\"")
    private static let pound = UInt8(ascii: "#")

    /// Advances until `isEnd` is true, and keeps only line breaks.
    private mutating func skip(until isEnd: (Self) -> Bool) {
      while index < source.count, !isEnd(self) {
        if source[index] == Self.lineBreak { code.append(Self.lineBreak) }
        index += 1
      }
    }

    private func openingQuote() -> (pounds: Int, quotes: Int)? {
      var place = index
      while place < source.count, source[place] == Self.pound { place += 1 }
      guard place < source.count, source[place] == Self.quote else { return nil }
      return (place - index, starts(Self.threeQuotes, at: place) ? 3 : 1)
    }

    private mutating func skipString(_ opening: (pounds: Int, quotes: Int)) {
      let pounds = [UInt8](repeating: Self.pound, count: opening.pounds)
      let end = [UInt8](repeating: Self.quote, count: opening.quotes) + pounds
      let escape = [UInt8(ascii: "\\")] + pounds
      code.append(Self.quote)
      index += opening.pounds + opening.quotes
      while index < source.count, !starts(end, at: index) {
        if starts(escape, at: index) { index += escape.count }
        if index < source.count, source[index] == Self.lineBreak { code.append(Self.lineBreak) }
        index += 1
      }
      code.append(Self.quote)
      index += end.count
    }
  }
}
