public import CanopyTree

/// The security rules of a database: who may read and write each location, and which data is valid.
///
/// The language is that of the Realtime Database: a JSON object in the shape of the data, with
/// comments, whose `.read`, `.write` and `.validate` are expressions.
///
///     { "rules": { "notes": { "$uid": {
///       ".read": "auth.uid === $uid",     // grants this location and all below
///       ".write": "auth.uid === $uid",
///       ".validate": "newData.isString() && newData.val().length < 100" } } } }
///
/// Created once, from text that is checked completely; then immutable, and safe to use from many
/// threads. Evaluation costs the rules on the path of a request, never the size of the tree; see
/// `authorize` for writes.
///
/// Differences from Firebase, and details that Firebase leaves open:
/// - `childCount()` of a snapshot is the number of children. O(1).
/// - A path without keys (`''`, `/`, `//`) leads to an absent node. As a literal it is refused.
/// - `val()` of a snapshot with children equals nothing, not even itself.
/// - `.` in a regular expression is every character; `\s` is Unicode's white space.
/// - A text created by `+` or `replace` has at most 10 MiB; beyond that the rule fails.
/// - The rules of one request use at most 512 Ki steps together, five to ten milliseconds; beyond
///   that the request is refused. See `RuleLimits.stepsMax`.
/// - `<` and the like compare two numbers or two strings; with null they fail.
public struct RuleSet: Sendable {
  /// Behind a reference, so that an evaluation counts one reference instead of one for each array.
  let frozenProgram: Frozen<Program>
  private let frozenTree: Frozen<RuleTree>

  var program: Program { frozenProgram.value }
  var tree: RuleTree { frozenTree.value }

  /// The indexes that `.indexOn` declares.
  public let indexPlan: IndexPlan

  /// The number of tokens read. Tests check that loading is linear in the file.
  let tokens: Int

  /// Loads and checks a rules file.
  ///
  /// - Parameters:
  ///   - text: the text of the file.
  ///   - file: the name of the file in errors.
  /// - Throws: `RulesError` with all problems, up to a bound.
  public init(text: String, file: String = "rules") throws(RulesError) {
    try self.init(utf8: Array(text.utf8), file: file)
  }

  /// Loads and checks a rules file.
  ///
  /// - Parameters:
  ///   - bytes: the bytes of the file.
  ///   - file: the name of the file in errors.
  /// - Throws: `RulesError` with all problems, up to a bound.
  public init(utf8 bytes: [UInt8], file: String = "rules") throws(RulesError) {
    var loader = RuleLoader(SourceText(file: file, bytes: bytes))
    try loader.load()
    frozenProgram = Frozen(loader.program)
    frozenTree = Frozen(loader.tree)
    indexPlan = loader.indexPlan
    tokens = loader.tokens
  }
}

/// An immutable value behind a reference.
final class Frozen<Value: Sendable>: Sendable {
  let value: Value

  init(_ value: Value) {
    self.value = value
  }
}
