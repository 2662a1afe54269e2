/// Bounds on rules: whoever writes them is trusted, but a mistake must not hang or crash a server.
enum RuleLimits {
  /// Bytes in a rules file.
  static let fileBytesMax = 4 * 1024 * 1024

  /// Bytes in one expression.
  static let expressionBytesMax = 64 * 1024

  /// How deep parentheses, calls and operators may nest: it bounds the stack that parsing and
  /// evaluating take. Chains of `&&` and of `||` count as one level, however long they are.
  static let nestingMax = 64

  /// Steps to places in the tree, in all expressions of a file together. More than a file has bytes can
  /// only come from names in `hasChildren`, each of which takes those of what has it.
  static let placeStepsMax = 4 * 1024 * 1024

  /// Problems that are reported at once.
  static let problemsMax = 20

  /// States of one regular expression; matching costs at most this many steps a character.
  static let patternStatesMax = 5_000

  /// Steps that the regular expressions of a request may take together, which is about a second. Those of
  /// most patterns take a few for each character.
  static let patternStepsMax = 64 * 1024 * 1024

  /// The largest n in `{n}`.
  static let patternRepeatMax = 1_000

  /// Bytes in a string that an expression makes.
  static let stringBytesMax = 10 * 1024 * 1024
}
