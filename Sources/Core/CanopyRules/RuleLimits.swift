/// Bounds on rules. Their author is trusted, but a mistake must not hang or crash the server.
enum RuleLimits {
  /// The largest rules file, in bytes.
  static let fileBytesMax = 4 * 1024 * 1024

  /// The longest expression, in bytes.
  static let expressionBytesMax = 64 * 1024

  /// The deepest nesting of parentheses, calls and operators, which bounds the stack for parsing
  /// and evaluation. A chain of `&&` or of `||` counts as one level, whatever its length.
  static let nestingMax = 64

  /// The most steps of snapshot paths in all expressions of a file together. Only the names in
  /// `hasChildren` can have more steps than bytes: each repeats the steps of its snapshot.
  static let snapshotStepsMax = 4 * 1024 * 1024

  /// The most names in one `.indexOn`: every write below must update each index.
  static let indexesMax = 100

  /// The most levels of the index plan: keys and wildcards on the paths to `.indexOn` rules.
  static let indexLevelsMax = 10_000

  /// The most problems that are reported at once.
  static let problemsMax = 20

  /// The most states of one regular expression, which is also the most steps for each character.
  static let patternStatesMax = 5_000

  /// The most states of all regular expressions of a file together, equal ones counted once. A state has some
  /// tens of bytes, and is made when the file is read.
  static let fileStatesMax = 100_000

  /// The most steps that the rules of one request may use together. A step is an operation, a
  /// lookup in the tree, a state of a regular expression tried on a character, or a comparison of
  /// some bytes. It takes five to fifteen nanoseconds, during which the writer waits.
  static let stepsMax = 512 * 1024

  /// The largest n in `{n}`.
  static let patternRepeatMax = 1_000

  /// The longest string that an expression may create, in bytes.
  static let stringBytesMax = 10 * 1024 * 1024
}
