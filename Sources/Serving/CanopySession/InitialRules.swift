internal import CanopyRules

/// The rules of a database without a file of rules.
public enum InitialRules: Sendable {
  /// The built-in rules, for the database of the blog.
  case blog
  /// Rules that allow nothing, for a new namespace.
  case locked
  /// Rules that allow everything, for the namespaces of an emulator.
  case open

  /// The text of the rules.
  public var text: String {
    switch self {
    case .blog: BuiltInRules.text
    case .locked: InitialRules.text(allowing: false)
    case .open: InitialRules.text(allowing: true)
    }
  }

  private static func text(allowing isAllowed: Bool) -> String {
    "{\n  \"rules\": {\n    \".read\": \(isAllowed),\n    \".write\": \(isAllowed)\n  }\n}\n"
  }

  /// Returns the checked rules.
  func load() throws -> RuleSet {
    switch self {
    case .blog: try BuiltInRules.load()
    case .locked, .open: try RuleSet(text: text)
    }
  }
}
