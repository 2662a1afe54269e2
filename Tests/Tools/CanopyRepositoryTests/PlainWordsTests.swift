import Foundation
import Testing

/// The wording of comments, test names and messages: plain words, subject first, so that a reader from any
/// country understands each sentence the first time.
extension TidyTests {
  /// The folders whose words are not plain yet. The list only shrinks: mend the words of a folder, then
  /// remove its entry.
  static let unmendedFolders: Set<String> = []

  /// The files that are not checked: only this one, because it contains examples of wrong words.
  static let uncheckedFiles: Set<String> = [
    "Tests/Tools/CanopyRepositoryTests/PlainWordsTests.swift"
  ]

  /// A clipped or inverted phrase, with the plain one.
  struct Phrase: Sendable {
    /// A regular expression.
    let pattern: String
    let instead: String
  }

  static let phrases = [
    Phrase(
      pattern: #"(^|\b(?!there\b)\w+ )is none\b(?! of)"#,
      instead: "write \"is invalid\", \"is not one\" or \"does not exist\""),
    Phrase(
      pattern: #"\b[Ww]hom?ever\b"#,
      instead: "name the person: \"a caller that…\", \"any client\", \"the owner\""),
    Phrase(
      pattern:
        #"\b[Ww]hat (is|was|are|were|has|had|comes|came|stands|stood)\b(?! wrong)"#,
      instead: "name the thing: \"the input\", \"the value at the path\", \"the remaining bytes\""),
    Phrase(
      pattern: #"\b(comes?|came) (to|of|into) (be|being|it|that|them)\b"#,
      instead: "write \"is created\", \"becomes\" or \"results in\""),
    Phrase(pattern: #"\b[Aa]new\b"#, instead: "write \"again\" or \"from the start\""),
    Phrase(
      pattern: #"\b(is|are|was|were|be|been) told\b|\b[Tt]ells? (of|who|what|whom)\b"#,
      instead: "write \"notifies\", \"receives\", \"reports\" or \"sends\""),
    Phrase(
      pattern: #"\b(is|has) nobody\b|\b[Nn]obody has\b|\b[Oo]f (which|whom) nobody\b"#,
      instead: "write \"is anonymous\", \"does not exist\" or \"no … exists\""),
    Phrase(
      pattern: #"\b([Tt]hat|[Ww]hich|[Ww]ho) (is|are) no\b(?! (longer|more|such|other))"#,
      instead: "write \"is not a…\""),
    Phrase(
      pattern: #"\b[Ww]hat (arrives|remains|belongs|stays|goes|lies)\b"#,
      instead: "name the thing: \"the input\", \"the remaining bytes\""),
    Phrase(
      pattern: #"\b[Tt]hose who\b"#,
      instead: "name them: \"clients that\", \"callers that\""),
    Phrase(
      pattern: #"\b(has|have|had) (it|them|one|that) (made|done|sent|told)\b"#,
      instead: "use the active verb: \"makes\", \"sends\""),
  ]

  /// Words that a comment in Sources may not contain, in any form, with the plain ones.
  static let commentWords = [
    Phrase(
      pattern: "[Nn]obody", instead: "write \"no client\", \"no other process\" or \"anonymous\""),
    Phrase(pattern: "[Ww]hom?ever", instead: "name the person: \"a caller that…\", \"any client\""),
    Phrase(
      pattern: "[Tt]old|[Tt]ells",
      instead: "write \"notifies\", \"receives\", \"reports\", \"shows\" or \"distinguishes\""),
    Phrase(pattern: "[Aa]new", instead: "write \"again\" or \"from the start\""),
    Phrase(
      pattern: "[Jj]udg(e|es|ed|ing|ement)",
      instead: "write \"authorizes\" (rules), \"checks\" or \"decides\""),
    Phrase(
      pattern: "[Ww]ish(es|ed)?", instead: "write \"request\", \"needs\" or the name of the type"),
  ]

  /// Parts of words that no name, comment, script or article may contain, with the terms of the glossary.
  static let bannedParts = [
    Phrase(
      pattern: "(?i)judg(e|ing)",
      instead: "write \"check\" (a reply), \"evaluate\" (rules) or \"authorize\" (a request)"),
    Phrase(
      pattern: "(?i)synchronis(e|i)",
      instead: "write \"synchronize\", as the calls of the system do"),
    Phrase(
      pattern: "(?i)beside the (event )?loop", instead: "write \"on another thread\""),
  ]

  /// The words that are right in a file, with the reason.
  static let allowedWords: [String: (words: Set<String>, reason: String)] = [
    "Sources/Client/CanopyClient/Connection/ConnectionTypes.swift": (
      ["nobody"], "a secret that no person and no program can guess"
    ),
    "Sources/Core/CanopyTree/WriteOrigin.swift": (
      ["nobody", "tells"], "a secret that the client tells no other party"
    ),
    "Sources/Core/CanopyRules/RuleCases.swift": (["nobody"], "the name of a case in an example"),
  ]

  /// The openings that a doc comment may not have.
  static let openings: Set<Substring> = [
    "What", "Who", "Whose", "Whom", "Whoever", "Whatever", "Those", "Of", "How", "Nothing",
    "Nobody",
    "When", "Where", "Which", "Why", "As", "If", "So", "By", "To",
  ]

  @Test func `a doc comment opens with a verb, Whether, or a noun phrase`() throws {
    for path in try Self.mendedFiles() {
      for (line, text) in Self.openingViolations(try Repository.text(path)) {
        Issue.record(
          """
          \(path):\(line): \(text)
          instead: open with a verb ("Returns…", "Appends…", "Creates…"), with "Whether …" for a Bool, \
          or with a noun phrase that names the thing ("The number of…")
          """)
      }
    }
  }

  @Test func `comments, test names and messages have no clipped phrases`() throws {
    let patterns = try Self.patterns(Self.phrases)
    for path in try Self.mendedFiles() {
      for (line, text, phrase) in Self.phraseViolations(try Repository.text(path), patterns) {
        Issue.record("\(path):\(line): \(text)\ninstead: \(phrase.instead)")
      }
    }
  }

  @Test func `comments in Sources have no words of everyday speech for terms`() throws {
    var needed: [String: Set<String>] = [:]
    for path in try Self.mendedFiles() where path.hasPrefix("Sources/") {
      let allowed = Self.allowedWords[path]?.words ?? []
      for (line, text, word, phrase) in try Self.wordViolations(try Repository.text(path)) {
        if allowed.contains(word) {
          needed[path, default: []].insert(word)
        } else {
          Issue.record("\(path):\(line): \(word): \(text)\ninstead: \(phrase.instead)")
        }
      }
    }
    for (path, entry) in Self.allowedWords {
      #expect(entry.words == needed[path], "\(path): an allowed word does not occur any more")
    }
  }

  @Test func `names, scripts and articles use the terms of the glossary`() throws {
    let checked = try Repository.writtenFiles().filter { !Self.uncheckedFiles.contains($0) }
    #expect(checked.contains("Scripts/check") && checked.contains("README.md"))
    for path in checked {
      for (line, text, phrase) in try Self.partViolations("\(path)\n" + Repository.text(path)) {
        Issue.record("\(path):\(line - 1): \(text)\ninstead: \(phrase.instead)")
      }
    }
    let violations = "Scripts/judging-cost\nfunc judge()\nlet unjudged = 1\nlet a = 1"
    #expect(try Self.partViolations(violations).map(\.line) == [1, 2, 3])
  }

  @Test func `the check of words in comments finds them in comments alone`() throws {
    let violations = """
      /// A client is told.
      let a = 1  // Nobody judges it.
      // Told anew.
      let told = "nobody tells https://whoever"
      """
    #expect(try Self.wordViolations(violations).map(\.line) == [1, 2, 2, 3, 3])
    #expect(try Self.wordViolations("// A misjudgement of a storyteller").isEmpty)
  }

  @Test func `each folder on the list of unmended ones exists and needs its entry`() throws {
    let folders = try Set(Self.wordFolders())
    let patterns = try Self.patterns(Self.phrases)
    for folder in Self.unmendedFolders.sorted() {
      #expect(folders.contains(folder), "\(folder) does not exist; remove its entry")
      let isClean = try Repository.files(in: folder, suffix: ".swift").allSatisfy { path in
        let text = try Repository.text(path)
        return Self.openingViolations(text).isEmpty
          && Self.phraseViolations(text, patterns).isEmpty
      }
      #expect(!isClean, "\(folder) has plain words; remove its entry")
    }
  }

  @Test func `the checks of words find violations, and accept plain words`() throws {
    let patterns = try Self.patterns(Self.phrases)
    let violations = """
      /// What the server said.
      let a = 1
      /// - Returns: nothing of interest.
      ///
      /// Where it begins.
      let b = "the path is none"
      // Told anew to whoever asks.
      @Test func `what is sent is told of`() {}
      """
    #expect(Self.openingViolations(violations).map(\.line) == [1])
    #expect(Set(Self.phraseViolations(violations, patterns).map(\.line)) == [6, 7, 8])
    let plain = """
      /// Returns the path; nil if there is none.
      ///
      /// What follows a first line is not an opening.
      let a = "the path is invalid"
      /// Whether the sentence says what is wrong.
      let told = anew.isNone
      """
    let clipped = Self.phraseViolations(plain, patterns)
    #expect(Self.openingViolations(plain).isEmpty && clipped.isEmpty)
  }
}

extension TidyTests {
  private static func wordFolders() throws -> [String] {
    try ["Sources", "Tests"].flatMap { top in
      try Repository.folders(in: top).map { "\(top)/\($0.floor)/\($0.name)" }
    }
  }

  private static func mendedFiles() throws -> [String] {
    try wordFolders().filter { !unmendedFolders.contains($0) }
      .flatMap { Repository.files(in: $0, suffix: ".swift") }
      .filter { !uncheckedFiles.contains($0) }
  }

  private static func lines(_ source: String) -> [(line: Int, text: Substring)] {
    source.split(separator: "\n", omittingEmptySubsequences: false).enumerated().map {
      index, line in
      (index + 1, line.drop { $0 == " " })
    }
  }

  /// Returns the first lines of doc comments that open with a banned word.
  private static func openingViolations(_ source: String) -> [(line: Int, text: Substring)] {
    var isInComment = false
    return lines(source).filter { _, text in
      defer { isInComment = text.hasPrefix("///") }
      guard text.hasPrefix("///"), !isInComment else { return false }
      let words = text.dropFirst(3).drop { $0 == " " }
      return openings.contains(words.prefix { $0.isLetter })
    }
  }

  /// Returns the comments with a word of `commentWords`, once for each word.
  private static func wordViolations(
    _ source: String
  ) throws -> [(line: Int, text: Substring, word: String, phrase: Phrase)] {
    let patterns = try commentWords.map { (try TextPattern("\\b(\($0.pattern))\\b"), $0) }
      .filter { $0.0.isFound(in: source) }
    guard !patterns.isEmpty else { return [] }
    return lines(source).flatMap { line, text in
      // A comment begins the line or follows a space; `//` in a URL follows a colon.
      let start = text.hasPrefix("//") ? text.startIndex : text.firstRange(of: " // ")?.lowerBound
      let comment = start.map { String(text[$0...]) } ?? ""
      return patterns.flatMap { pattern, phrase in
        pattern.matches(in: comment).map { (line, text, String($0), phrase) }
      }
    }
  }

  /// Returns the lines with a part of `bannedParts`.
  private static func partViolations(
    _ source: String
  ) throws -> [(line: Int, text: Substring, phrase: Phrase)] {
    let patterns = try patterns(bannedParts).filter { $0.0.isFound(in: source) }
    guard !patterns.isEmpty else { return [] }
    return lines(source).flatMap { line, text in
      patterns.filter { $0.0.isFound(in: String(text)) }.map { (line, text, $0.1) }
    }
  }

  private typealias Patterns = [(TextPattern, Phrase)]

  /// Returns the patterns of phrases, which take longer to make than to look for in a file.
  private static func patterns(_ phrases: [Phrase]) throws -> Patterns {
    try phrases.map { (try TextPattern($0.pattern), $0) }
  }

  /// Returns the comments, test names and string literals with a clipped phrase.
  private static func phraseViolations(
    _ source: String, _ patterns: Patterns
  ) -> [(line: Int, text: Substring, phrase: Phrase)] {
    // Most files have no match. One search of all lines takes less time than a search of each.
    let patterns = patterns.filter { $0.0.isFound(in: source) }
    guard !patterns.isEmpty else { return [] }
    return lines(source).flatMap { line, text -> [(line: Int, text: Substring, phrase: Phrase)] in
      guard text.hasPrefix("//") || text.contains("\"") || text.contains("func `") else {
        return []
      }
      return patterns.filter { $0.0.isFound(in: String(text)) }.map { (line, text, $0.1) }
    }
  }
}
