import CanopyTree
import Testing

@testable import CanopyRules

/// Expressions that are refused when rules are loaded, with their errors.
struct TypeCheckTests {
  /// Expressions, and a part of the message.
  static let invalid: [(String, String)] = [
    ("", "expected a value; found the end"),
    ("7", "expected a bool; this is a number"),
    ("'a'", "expected a bool; this is a string"),
    ("null", "expected a bool; this is null"),
    ("true ? 1 : false", "expected a bool; this is a number"),
    ("true true", "expected an operator or the end"),
    ("true;", "expected an expression; found ;"),
    ("a = 1", "expected ==; found ="),
    ("true & true", "expected &&; found &"),
    ("true | true", "expected ||; found |"),
    ("user == 1", "a name that rules know"),
    ("$uid == 'a'", "a wildcard of this rule's path (it has none); found $uid"),
    ("newData.exists()", "there is none in .read"),
    ("root", "call a method of root"),
    ("root == data", "call a method of root"),
    ("root.child('a')", "call a method of this"),
    ("root.exists", "expected exists()"),
    ("root.foo() == 1", "a method of a snapshot"),
    ("root.exists(1)", "no argument of exists; found 1"),
    ("root.child().exists()", "1 argument of child; found 0"),
    ("root.child('a', 'b').exists()", "1 argument of child; found 2"),
    ("root.child(5).exists()", "expected a string; this is a number"),
    ("root.hasChildren('a')", "one list of names"),
    ("root.hasChildren([])", "one list of names"),
    ("root.hasChildren(['a', 5])", "expected a string; this is a number"),
    ("root.val().foo == 1", "expected a member that any value has; found foo"),
    ("auth", "expected a bool; this is an object or null"),
    ("['a'] == null", "a list stands only in hasChildren"),
    ("'a'.foo() == 1", "strings have beginsWith"),
    ("'a'.exists()", "exists is a method of root, data and newData"),
    ("'a'.contains == true", "call it: contains(…)"),
    ("now.contains('a')", "expected a string; this is a number"),
    ("now.length == 1", "a member that a number has"),
    ("'a'.contains(1)", "expected a string; this is a number"),
    ("'a'.contains()", "1 argument of contains; found 0"),
    ("'a'.replace('b') == 'a'", "2 arguments of replace; found 1"),
    ("'a'.length() == 1", "expected a method; found length"),
    ("'a'.matches('a')", "expected a regular expression"),
    ("'a'.matches(root.val())", "expected a regular expression"),
    ("'a'.contains(/a/)", "a regular expression stands only in matches"),
    ("/a/ == 1", "a regular expression stands only in matches"),
    ("true > false", "expected a number or a string; this is a bool"),
    ("1 < 'a'", "expected a number; this is a string"),
    ("1 && true", "expected a bool; this is a number"),
    ("!'a'", "expected a bool; this is a string"),
    ("-'a' == 1", "expected a number; this is a string"),
    ("true + 1 == 1", "expected a number or a string; this is a bool"),
    ("'a' - 1 == 1", "expected a number; this is a string"),
    ("1 ? true : false", "expected a bool; this is a number"),
    ("auth()", "only a method can be called"),
    ("root[$x]()", "only a method can be called"),
    ("query", "name a field of query"),
    ("query.foo == 1", "a field of query: orderByKey"),
    ("(true", "expected ); found the end"),
    ("root.", "expected a name after ."),
    ("true ? true", "expected :; found the end"),
    ("'a", "expected ' to end this string"),
    ("'a\nb' == 'a'", "before the line does"),
    ("'\\x41' == 'A'", "after the backslash"),
    ("1e == 1", "expected a digit in the exponent"),
    ("1a == 1", "expected the number to end here"),
    ("1e999 == 1", "not so large"),
    ("@ == 1", "expected an expression; found @"),
    ("$ == 1", "expected a name after $"),
  ]

  @Test(arguments: invalid)
  func `an expression that can never succeed is refused when rules are loaded`(
    _ expression: String, _ message: String
  ) {
    guard case .isInvalid(let found) = evaluate(expression) else {
      Issue.record("\(expression) loads")
      return
    }
    #expect(found.contains(message), "\(expression): \(found)")
  }

  @Test func `query exists only in read rules`() {
    let found = problems(#"{"rules":{".write":"query.limitToFirst < 5"}}"#)
    #expect(found == ["1:21: /.write: expected no query: there is one only in .read"])
  }

  @Test func `nesting is bounded and chains are not`() {
    func nested(_ count: Int, _ open: String, _ close: String) -> Evaluated {
      let opening = String(repeating: open, count: count)
      return evaluate(opening + "true" + String(repeating: close, count: count))
    }
    #expect(nested(60, "(", ")") == .isTrue)
    for (open, close) in [("(", ")"), ("!", ""), ("true ? (", ") : true"), ("[", "]")] {
      #expect(nested(10_000, open, close).isInvalid)
    }
    func paths(_ count: Int) -> Evaluated {
      let opening = String(repeating: "root.child(", count: count)
      return evaluate(opening + "'a'" + String(repeating: ").val()", count: count) + " == null")
    }
    #expect(paths(30).hasFailed)
    #expect(paths(40).isInvalid)
    let and = Array(repeating: "true", count: 5_000).joined(separator: " && ")
    #expect(evaluate(and) == .isTrue)
    let or = Array(repeating: "false", count: 5_000).joined(separator: " || ")
    #expect(evaluate(or) == .isFalse)
    let sum = Array(repeating: "1", count: 5_000).joined(separator: " + ")
    #expect(evaluate(sum + " == 5000").isInvalid)
    #expect(evaluate("auth" + String(repeating: ".a", count: 5_000) + " == null").isInvalid)
  }

  @Test func `the steps of names in a list are bounded`() {
    let far = "'" + Array(repeating: "a", count: Limits.depthMax).joined(separator: "/") + "'"
    let way = "data" + String(repeating: ".child(\(far))", count: 50)
    func problem(names: Int) -> [String] {
      let list = Array(repeating: "'a'", count: names).joined(separator: ",")
      return problems(#"{"rules":{".read":"\#(way).hasChildren([\#(list)])"}}"#)
    }
    let namesMax = RuleLimits.snapshotStepsMax / (50 * Limits.depthMax + 1)
    #expect(problem(names: namesMax).isEmpty)
    #expect(problem(names: namesMax + 1).first?.contains("steps in the whole file") == true)
  }
}
