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

  /// Names in one `.indexOn`: each is an index that every write below has to keep.
  static let indexesMax = 100

  /// Levels of the plan of all indexes: the keys and wildcards on the ways to places with `.indexOn`.
  static let indexLevelsMax = 10_000

  /// Problems that are reported at once.
  static let problemsMax = 20

  /// States of one regular expression; matching costs at most this many steps a character.
  static let patternStatesMax = 5_000

  /// States of all regular expressions of a file together, equal ones counted once. They are some tens of
  /// bytes each, and made when the file is read.
  static let fileStatesMax = 100_000

  /// Steps that the rules of one request may take together: an operation, a look at a place in the tree, a
  /// state of a regular expression tried on a character, some bytes compared. A step takes five
  /// to fifteen nanoseconds, and the writer waits meanwhile.
  static let stepsMax = 512 * 1024

  /// The largest n in `{n}`.
  static let patternRepeatMax = 1_000

  /// Bytes in a string that an expression makes.
  static let stringBytesMax = 10 * 1024 * 1024
}
