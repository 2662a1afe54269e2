internal import CanopyTree

/// The expressions of a rules file, compiled: flat arrays that refer to each other by index.
///
/// An operation is four plain words, so that evaluating follows indexes and counts no references;
/// what is not plain (texts, keys, patterns) stands in arrays of its own.
struct Program: Sendable {
  /// One operation; what its operands mean depends on its code.
  struct Operation: Sendable {
    var code: Code
    var a: Int32 = 0
    var b: Int32 = 0
    var c: Int32 = 0
  }

  enum Code: UInt8, Sendable {
    /// a: in `constants`.
    case constant
    /// a: the depth of the wildcard, which is the place of its key on the way to the rule.
    case wildcard
    case now
    /// The members of the token: b keys from a on, in `keys`. None of them: the token itself.
    case auth
    /// `auth.uid`, which a caller has at hand.
    case uid
    /// a: the object; b: in `keys`.
    case member
    /// a: the object; b: the name.
    case computedMember
    /// a: a `QueryField`.
    case query

    // Of snapshots; a: in `snapshots`.
    case val, exists, isNumber, isString, isBoolean, getPriority, hasAnyChild, childCount
    /// Whether the snapshots b from a on, in `lists`, all exist.
    case allExist

    /// a: the operand.
    case not, negate
    /// b operands from a on, in `lists`.
    case and, or
    /// a, b: the operands.
    case equal, notEqual, less, lessOrEqual, greater, greaterOrEqual
    case add, subtract, multiply, divide, remainder
    /// a: the condition; b and c: the choices.
    case conditional

    // Of strings; a: the string; b, c: the arguments.
    case length, contains, beginsWith, endsWith, replace, toLowerCase, toUpperCase, pushTime
    /// b: in `patterns`.
    case matches
    /// Of a member of a token, which may be a string or have a member of this name.
    case lengthOrMember
  }

  /// How to get to a place in the tree.
  struct Snapshot: Sendable {
    enum Base: UInt8, Sendable {
      /// The root before the request.
      case root
      /// Where the rule is, before.
      case data
      /// Where the rule is, after.
      case newData
    }

    var base: Base
    /// Whether a step up follows one that is only known when the rule is asked.
    var mustCollect = false
    /// How many levels up from the base, before the steps.
    var up: Int32 = 0
    /// Where in `steps` its steps begin, and how many they are.
    var firstStep: Int32 = 0
    var stepCount: Int32 = 0
  }

  struct Step: Sendable {
    enum Kind: UInt8, Sendable {
      /// To a child; its key is in `keys`.
      case key
      /// To what a path says that an operation comes to.
      case path
      /// To the parent.
      case up
      /// To where nothing can be: the path has a key that is none.
      case nowhere
    }

    var kind: Kind
    var index: Int32 = 0
  }

  enum QueryField: Int32, Sendable, CaseIterable {
    case orderByKey, orderByPriority, orderByValue, orderByChild
    case startAt, endAt, equalTo, limitToFirst, limitToLast
  }

  /// A rule: where it came from, and its operation.
  struct Rule: Sendable {
    var operation: Int32
    /// The expression as it was written.
    var text: [UInt8]
    var line: Int
    var kind: RuleKind
    /// The index of its place in `RuleTree.places`.
    var node: Int32
  }

  var operations: [Operation] = []
  /// The bytes of its expression that each operation was written in.
  var ranges: [Range<Int32>] = []
  var constants: [Value] = []
  var keys: [Key] = []
  var snapshots: [Snapshot] = []
  var steps: [Step] = []
  var lists: [Int32] = []
  var patterns: [Pattern] = []
  var rules: [Rule] = []
}

/// What a rule decides.
public enum RuleKind: String, Sendable, CaseIterable {
  /// Who may read.
  case read = ".read"
  /// Who may write.
  case write = ".write"
  /// What may be written.
  case validate = ".validate"
}
