/// Why a rules file cannot be used: everything that is wrong with it, up to a bound.
///
/// Its description has one line for each problem, as compilers write them:
/// `rules.json:12:34: /posts/$id/.write: expected …`.
public struct RulesError: Error, Equatable, Sendable, CustomStringConvertible {
  /// One thing that is wrong.
  public struct Problem: Equatable, Sendable, CustomStringConvertible {
    /// The file, as its name was given.
    public var file: String
    /// Counted from 1.
    public var line: Int
    /// Counted from 1, in Unicode scalars.
    public var column: Int
    /// The path of the rule, such as `/posts/$id/.write`; nil where the text is not even JSON.
    public var rule: String?
    /// What was expected, and what is there.
    public var message: String

    /// `file:line:column: rule: message`.
    public var description: String {
      "\(file):\(line):\(column): \(rule.map { $0 + ": " } ?? "")\(message)"
    }
  }

  /// At least one, in the order of the file.
  public var problems: [Problem]
  /// How many more there are, beyond the bound.
  public var omitted = 0

  /// One line for each problem, and one for all that are omitted.
  public var description: String {
    (problems.map(\.description) + (omitted > 0 ? ["and \(omitted) more"] : []))
      .joined(separator: "\n")
  }
}

/// A problem at an offset of the text that is being read; who knows the file makes it a `Problem`.
struct TextProblem: Error, Equatable {
  /// In bytes.
  var offset: Int
  var message: String
}
