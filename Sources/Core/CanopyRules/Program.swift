internal import CanopyTree

/// The compiled expressions of a rules file: flat arrays that refer to each other by index.
///
/// An operation is four plain words, so evaluation follows indexes and counts no references. Texts,
/// keys and patterns stand in arrays of their own.
struct Program: Sendable {
  /// One operation. The meaning of its operands depends on its code.
  struct Operation: Sendable {
    var code: Code
    var a: Int32 = 0
    var b: Int32 = 0
    var c: Int32 = 0
  }

  enum Code: UInt8, Sendable {
    /// a: index in `constants`.
    case constant
    /// a: the depth of the wildcard, which is the index of its key on the rule's path.
    case wildcard
    case now
    /// A member of the token: b keys from index a on in `keys`; the token itself if b is 0.
    case auth
    /// The caller's `auth.uid`, which is precomputed.
    case uid
    /// a: the object; b: index in `keys`.
    case member
    /// a: the object; b: the name.
    case computedMember
    /// a: a `QueryField`.
    case query

    // Operations on snapshots; a: index in `snapshots`.
    case val, exists, isNumber, isString, isBoolean, getPriority, hasAnyChild, childCount
    /// Whether all of b snapshots exist, from index a on in `lists`.
    case allExist

    /// a: the operand.
    case not, negate
    /// b operands, from index a on in `lists`.
    case and, or
    /// a, b: the operands.
    case equal, notEqual, less, lessOrEqual, greater, greaterOrEqual
    case add, subtract, multiply, divide, remainder
    /// a: the condition; b and c: the choices.
    case conditional

    // Operations on strings; a: the string; b, c: the arguments.
    case length, contains, beginsWith, endsWith, replace, toLowerCase, toUpperCase, pushTime
    /// b: index in `patterns`.
    case matches
    /// `length` of a member of a token: the string's length, or a member of that name.
    case lengthOrMember
  }

  /// The path of a snapshot.
  struct Snapshot: Sendable {
    enum Base: UInt8, Sendable {
      /// The root before the write.
      case root
      /// The rule's location before the write.
      case data
      /// The rule's location after the write.
      case newData
    }

    var base: Base
    /// Whether a step to the parent follows a computed step.
    var mustCollect = false
    /// The number of levels to go up from the base before the steps.
    var up: Int32 = 0
    /// The range of the steps in `steps`.
    var firstStep: Int32 = 0
    var stepCount: Int32 = 0
  }

  struct Step: Sendable {
    enum Kind: UInt8, Sendable {
      /// Moves to a child; the key is in `keys`.
      case key
      /// Moves along the path that an operation returns.
      case path
      /// Moves to the parent.
      case up
      /// Moves to an absent node: the literal path has an invalid key.
      case nowhere
    }

    var kind: Kind
    var index: Int32 = 0
  }

  enum QueryField: Int32, Sendable, CaseIterable {
    case orderByKey, orderByPriority, orderByValue, orderByChild
    case startAt, endAt, equalTo, limitToFirst, limitToLast
  }

  /// A rule with its source and its operation.
  struct Rule: Sendable {
    var operation: Int32
    /// The text of the expression.
    var text: [UInt8]
    var line: Int
    var kind: RuleKind
    /// The index of its node in `RuleTree.nodes`.
    var node: Int32
  }

  var operations: [Operation] = []
  /// The byte range of each operation in its expression.
  var ranges: [Range<Int32>] = []
  var constants: [Value] = []
  var keys: [Key] = []
  var snapshots: [Snapshot] = []
  var steps: [Step] = []
  var lists: [Int32] = []
  var patterns: [Pattern] = []
  var rules: [Rule] = []
}

/// The kind of a rule.
public enum RuleKind: String, Sendable, CaseIterable {
  /// Decides who may read.
  case read = ".read"
  /// Decides who may write.
  case write = ".write"
  /// Decides which data is valid.
  case validate = ".validate"
}
