/// A part of a parsed expression.
struct Syntax {
  var kind: Kind
  /// The byte range in the expression.
  var range: Range<Int>
  /// The number of levels of the part. Bounded, as evaluation needs stack for each.
  var height: Int

  indirect enum Kind {
    case null
    case bool(Bool)
    case number(Value)
    case string(String)
    /// `auth`, `now`, `data`…
    case name(String)
    /// `$uid`, with the dollar sign.
    case wildcard(String)
    /// `auth.uid`, `auth['uid']`.
    case member(Syntax, name: String)
    /// `auth[$key]`.
    case computedMember(Syntax, Syntax)
    case call(Syntax, method: String, [Syntax])
    case array([Syntax])
    case pattern(Pattern)
    case not(Syntax)
    case negate(Syntax)
    /// Two or more operands, evaluated lazily from the left.
    case and([Syntax])
    case or([Syntax])
    case binary(BinaryOperator, Syntax, Syntax)
    case conditional(Syntax, Syntax, Syntax)
  }
}

/// The binary operators, without `&&` and `||`.
enum BinaryOperator: String {
  case equal = "=="
  case notEqual = "!="
  case less = "<"
  case lessOrEqual = "<="
  case greater = ">"
  case greaterOrEqual = ">="
  case add = "+"
  case subtract = "-"
  case multiply = "*"
  case divide = "/"
  case remainder = "%"

  var precedence: Int {
    switch self {
    case .equal, .notEqual: 3
    case .less, .lessOrEqual, .greater, .greaterOrEqual: 4
    case .add, .subtract: 5
    case .multiply, .divide, .remainder: 6
    }
  }
}
