public import CanopyTree

/// The security rules of a database: who may read and write where, and what may be written.
///
/// The language is that of the Realtime Database: a JSON object in the shape of the data, with
/// comments, whose `.read`, `.write` and `.validate` are expressions.
///
///     { "rules": { "notes": { "$uid": {
///       ".read": "auth.uid === $uid",     // grants this place and all below
///       ".write": "auth.uid === $uid",
///       ".validate": "newData.isString() && newData.val().length < 100" } } } }
///
/// Made once, from text that is checked completely; then a value that is only read, and can be used
/// by many threads. Asking costs the rules on the way to what is asked for, never the size of the
/// tree; see `judge` for writes.
///
/// Where Canopy goes beyond Firebase, or says what that leaves open:
/// - `childCount()` of a snapshot is the number of children. O(1).
/// - `val()` of what has children equals nothing, not even itself.
/// - `.` in a regular expression is every character; `\s` is Unicode's white space.
/// - A text made by `+` or `replace` has at most 10 MiB; beyond that the rule fails.
/// - The rules of one request take at most 512 Ki steps together, five to ten milliseconds; beyond that
///   the request is refused. See `RuleLimits.stepsMax`.
/// - `<` and the like compare two numbers or two strings; with null they fail.
public struct RuleSet: Sendable {
  /// Behind references, so that asking counts one for each and not one for every array in them.
  let frozenProgram: Frozen<Program>
  private let frozenTree: Frozen<RuleTree>

  var program: Program { frozenProgram.value }
  var tree: RuleTree { frozenTree.value }

  /// The indexes that `.indexOn` declares.
  public let indexPlan: IndexPlan

  /// What was read, counted: tests check that loading grows with the file and no faster.
  let tokens: Int

  /// Reads and checks a rules file.
  ///
  /// - Parameters:
  ///   - text: the file.
  ///   - file: what errors call it.
  /// - Throws: `RulesError` with all that is wrong, up to a bound.
  public init(text: String, file: String = "rules") throws(RulesError) {
    try self.init(utf8: Array(text.utf8), file: file)
  }

  /// Reads and checks a rules file.
  ///
  /// - Parameters:
  ///   - bytes: the file.
  ///   - file: what errors call it.
  /// - Throws: `RulesError` with all that is wrong, up to a bound.
  public init(utf8 bytes: [UInt8], file: String = "rules") throws(RulesError) {
    var loader = RuleLoader(SourceText(file: file, bytes: bytes))
    try loader.load()
    frozenProgram = Frozen(loader.program)
    frozenTree = Frozen(loader.tree)
    indexPlan = loader.indexPlan
    tokens = loader.tokens
  }
}

/// A value that never changes, behind a reference.
final class Frozen<Value: Sendable>: Sendable {
  let value: Value

  init(_ value: Value) {
    self.value = value
  }
}
