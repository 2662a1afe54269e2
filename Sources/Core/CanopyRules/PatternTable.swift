/// The compiled regular expressions of a rules file.
///
/// Equal ones are compiled once and share their memory: a file of a megabyte may have one of thousands of
/// states in tens of thousands of places. The states of different ones are bounded together.
struct PatternTable: Sendable {
  private struct Source: Hashable {
    var bytes: [UInt8]
    var ignoresCase: Bool
  }

  private var patterns: [Source: Pattern] = [:]
  /// The number of states that further patterns may have.
  private var statesLeft: Int

  /// Creates an empty table.
  ///
  /// - Parameter statesMax: the states of all patterns together.
  init(statesMax: Int = RuleLimits.fileStatesMax) {
    statesLeft = statesMax
  }

  /// The number of different patterns.
  var count: Int { patterns.count }

  /// Returns the pattern of the text between two slashes. O(bytes) for one that was compiled before.
  ///
  /// - Throws: `TextProblem`, with an offset in the text, if it is invalid, or if the file has too many
  ///   states with it.
  mutating func pattern(_ bytes: [UInt8], ignoresCase: Bool) throws(TextProblem) -> Pattern {
    let source = Source(bytes: bytes, ignoresCase: ignoresCase)
    if let pattern = patterns[source] { return pattern }
    let pattern = try Pattern(bytes, ignoresCase: ignoresCase, statesLeft: &statesLeft)
    patterns[source] = pattern
    return pattern
  }
}
