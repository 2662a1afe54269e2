/// The problems in a rules file, up to a bound.
///
/// The description has one line for each problem, like a compiler's: `rules.json:12:34:
/// /posts/$id/.write: expected …`.
public struct RulesError: Error, Equatable, Sendable, CustomStringConvertible {
  /// One problem.
  public struct Problem: Equatable, Sendable, CustomStringConvertible {
    /// The name of the file.
    public var file: String
    /// The line, from 1.
    public var line: Int
    /// The column, from 1, in Unicode scalars.
    public var column: Int
    /// The path of the rule, such as `/posts/$id/.write`; nil if the text is not valid JSON.
    public var rule: String?
    /// The expected and the found text.
    public var message: String

    /// `file:line:column: rule: message`.
    public var description: String {
      "\(file):\(line):\(column): \(rule.map { $0 + ": " } ?? "")\(message)"
    }
  }

  /// The problems, at least one, in the order of the file.
  public var problems: [Problem]
  /// The number of further problems beyond the bound.
  public var omitted = 0

  /// One line for each problem, and one for the omitted ones.
  public var description: String {
    (problems.map(\.description) + (omitted > 0 ? ["and \(omitted) more"] : []))
      .joined(separator: "\n")
  }
}

/// A problem at an offset of a text; `SourceText` turns it into a `Problem` of a file.
struct TextProblem: Error, Equatable {
  /// The offset in bytes.
  var offset: Int
  var message: String
}
