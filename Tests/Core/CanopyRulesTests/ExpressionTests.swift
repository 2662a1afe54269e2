import CanopyTree
import Testing

@testable import CanopyRules

struct ExpressionTests {
  private func expectTrue(
    _ expressions: String..., data: Node = .absent, as caller: RuleCaller = nobody,
    location: SourceLocation = #_sourceLocation
  ) {
    for expression in expressions {
      let outcome = evaluate(expression, data: data, as: caller)
      #expect(outcome == .isTrue, "\(expression)", sourceLocation: location)
    }
  }

  private func expectFailure(
    _ expressions: String..., data: Node = .absent, as caller: RuleCaller = nobody,
    location: SourceLocation = #_sourceLocation
  ) {
    for expression in expressions {
      let outcome = evaluate(expression, data: data, as: caller)
      #expect(outcome.hasFailed, "\(expression): \(outcome)", sourceLocation: location)
    }
  }

  @Test func `operators have JavaScript's precedence`() {
    expectTrue(
      "1 + 2 * 3 == 7", "(1 + 2) * 3 == 9", "10 - 3 - 2 == 5", "2 * 3 % 4 == 2", "-2 * -3 == 6",
      "!false && true || false", "false && false || true", "true || false && false",
      "1 < 2 == true", "1 + 1 == 2 && 2 - 1 == 1", "true ? true : false ? false : false",
      "false ? false : false ? false : true", "-(1 + 1) == -2", "--1 == 1", "!!true",
      "7 / 2 == 3.5",
      "1 == 1 !== false")
  }

  @Test func `numbers are exact as integers of 64 bits and doubles otherwise`() {
    expectTrue(
      "9223372036854775807 - 1 == 9223372036854775806",
      "9223372036854775807 + 1 == 9223372036854775808",
      "-9223372036854775807 - 1 < -9223372036854775807",
      "-(-9223372036854775807 - 1) == 9223372036854775808",
      "(-9223372036854775807 - 1) % -1 == 0", "(-9223372036854775807 - 1) / -1 > 0",
      "9223372036854775807 * 2 > 9223372036854775807", "0.1 + 0.2 != 0.3", "1.0 === 1",
      "1e3 == 1000", "2.5e-1 == 0.25", "-7 % 3 == -1", "7.5 % 2 == 1.5", "6 / 3 === 2",
      "9223372036854775807 != 9223372036854775806.0")
  }

  @Test func `a division by zero compares with nothing`() {
    expectTrue(
      "!(1 / 0 > 0)", "!(1 / 0 < 0)", "!(1 / 0 == 1 / 0)", "1 / 0 != 1 / 0", "!(1 % 0 >= 0)",
      "!(1.5 / 0 <= 0)")
  }

  @Test func `the type of auth is only known during evaluation`() {
    let ann = user("ann")
    let text = RuleCaller(auth: "x75", now: 0)
    for caller in [nobody, ann] as [RuleCaller] {
      expectFailure(
        "auth.contains('75')", "auth.beginsWith('7')", "auth.matches(/7/)", "'75'.contains(auth)",
        "auth.toLowerCase() == 'a'", "auth < 5", "auth + 1 == 1", "-auth == 1",
        "root.child(auth).exists()", "root.hasChild(auth)", "auth.token.contains('75')", as: caller)
    }
    expectTrue("auth.contains('75')", "'x75' == auth.toLowerCase()", "auth + 1 == 'x751'", as: text)
  }

  @Test func `plus concatenates strings, and strings with numbers`() {
    expectTrue(
      "'a' + 'b' == 'ab'", "'a' + 1 == 'a1'", "1 + 'a' == '1a'", "1 + 2 + 'a' == '3a'",
      "'a' + 1.5 == 'a1.5'", "'' + -0.0 == '0'", "'a' + (1 / 0) == 'aNaN'")
    expectFailure("'a' + auth.x == 'a'", "auth.x + 'a' == 'a'", "'a' + root.val() == 'a'")
  }

  @Test func `values of different types are not equal, and both equalities are strict`() {
    expectTrue(
      "'1' != 1", "'1' !== 1", "!('true' == true)", "null == null", "null !== false", "0 != null",
      "'' != null", "root.val() == null", "auth == null", "1 === 1.0")
  }

  @Test func `strings are compared by their bytes for equality and by UTF-16 for order`() {
    expectTrue(
      "'é' != 'e\u{301}'", "'é' == '\\u00e9'", "'a' < 'b'", "'B' < 'a'", "'' < 'a'",
      "'10' < '9'", "'🌳' < '\u{FB01}'")
  }

  @Test func `order needs two numbers or two strings`() {
    expectFailure(
      "auth.x < 1", "1 < auth.x", "root.val() >= 'a'", "auth.x <= auth.y",
      "root.child('n').val() > 'a'", data: Node(children: [("n", 5)]))
  }

  @Test func `and, or and conditionals are lazy`() {
    expectTrue(
      "true || auth.x > 1", "!(false && auth.x > 1)", "true ? true : auth.x > 1",
      "false ? auth.x > 1 : true")
    expectFailure(
      "auth.x > 1 || true", "auth.x > 1 && false", "auth.x > 1 ? true : true",
      "false || auth.x > 1", "true && auth.x > 1")
  }

  @Test func `logical operators take only bools`() {
    let caller = RuleCaller(auth: Node(children: [("n", 1), ("t", true)]), now: 0)
    expectTrue("auth.t", "auth.t && true", "auth.n == 1", as: caller)
    expectFailure("auth.n", "!auth.n", "auth.n && true", "auth.x || true", as: caller)
  }

  @Test func `strings have the methods of the Realtime Database`() {
    expectTrue(
      "'canopy'.contains('nop')", "!'canopy'.contains('x')", "'canopy'.contains('')",
      "'canopy'.beginsWith('can')", "!'can'.beginsWith('canopy')", "'canopy'.endsWith('py')",
      "'canopy'.length == 6", "'é🌳'.length == 3", "''.length == 0",
      "'a-b-c'.replace('-', '+') == 'a+b+c'", "'aaa'.replace('aa', 'b') == 'ba'",
      "'abc'.replace('', 'x') == 'abc'", "'abc'.replace('b', '') == 'ac'",
      "'CanOpy'.toLowerCase() == 'canopy'", "'canopy'.toUpperCase() == 'CANOPY'",
      "'canopy'.matches(/^c.*y$/)", "'a'['length'] == 1", "'ab'['contains']('b')",
      "'aabaabaaab'.contains('aabaaab')", "\"it's\" == 'it\\'s'")
  }

  @Test func `a push id says when it was made, and other texts are null`() {
    expectTrue(
      "'-NjEtLV-------------'.pushTime() == 1700000000000",
      "'zzzzzzzzzzzzzzzzzzzz'.pushTime() == 281474976710655",
      "'--------------------'.pushTime() == 0", "'-NjEtLV------------'.pushTime() == null",
      "'-NjEtLV--------------'.pushTime() == null", "'-NjEtLV------------é'.pushTime() == null",
      "'-NjEtLV-----------.-'.pushTime() == null", "''.pushTime() == null", "'7'.pushTime() == null"
    )
    expectFailure("'x'.pushTime() < now")
    let id: Key = "-NjEtLV-------------"
    #expect(
      evaluate("$id.pushTime() === 1700000000000", wildcards: [("$id", id)]) == .isTrue)
  }

  @Test func `members of the token may be missing at any depth`() throws {
    let auth = try tree(#"{"uid":"ann","token":{"email":"a@b.c","length":7}}"#)
    let caller = RuleCaller(auth: auth, now: 42)
    expectTrue(
      "auth.uid == 'ann'", "auth['uid'] == 'ann'", "auth.token.email == 'a@b.c'",
      "auth.a.b.c == null", "auth.uid.x == null", "auth != null", "auth.token != null",
      "auth.token.email.length == 5", "auth.token.length == 7", "auth.uid.length == 3",
      "auth.a.length == null", "auth['no/key'] == null", "auth.token[auth.uid] == null",
      "auth.token['em' + 'ail'] == 'a@b.c'", "now == 42", "auth != auth", as: caller)
    expectTrue("auth.uid == null", "auth.token.email == null", "auth == null")
    expectFailure("auth.token[auth.x] == null", "auth.x.contains('a')", as: caller)
  }

  @Test func `snapshots describe the node`() throws {
    let data = try tree(
      #"{"a":{"b":1,"c":"x"},"t":true,"p":{".value":5,".priority":"high"},"s":"text"}"#)
    expectTrue(
      "root.child('a').exists()", "root.child('a/b').val() == 1", "root.child('/a//b/').val() == 1",
      "!root.child('x/y').exists()", "root.child('x/y').val() == null", "root.hasChild('a/c')",
      "root.hasChildren()", "!root.child('t').hasChildren()", "root.hasChildren(['a', 't'])",
      "!root.hasChildren(['a', 'x'])", "root.hasChildren(['a/b'])", "root.child('t').isBoolean()",
      "root.child('a/b').isNumber()", "root.child('s').isString()", "!root.child('a').isString()",
      "!root.child('x').isNumber()", "root.child('p').getPriority() == 'high'",
      "root.child('p').isNumber()", "root.child('a').getPriority() == null",
      "root.child('a').val() != null", "root.child('a').val() != root.child('a').val()",
      "root.child('a').childCount() == 2", "root.child('t').childCount() == 0",
      "root.child('x').childCount() == 0", "root['child']('a')['exists']()",
      "root.child('a').parent().child('t').val()", "root.child('a/b').parent().exists()",
      "root.child('a').child('b').parent().parent().hasChild('s')",
      "data.child('a').exists()", data: data)
  }

  @Test func `a computed path is followed during evaluation`() throws {
    let data = try tree(#"{"at":"a/b","bad":"a.b","a":{"b":{"c":1}},"n":5}"#)
    expectTrue(
      "root.child(root.child('at').val()).child('c').val() == 1",
      "root.child(root.child('at').val()).parent().hasChild('b')",
      "root.child(root.child('at').val() + '/c').val() == 1",
      "root.child('a').child('x').child('at').parent().parent().hasChild('b')",
      "!root.child(root.child('bad').val()).exists()",
      "!root.child(root.child('bad').val()).parent().child('x').exists()",
      "!root.child('no.key').exists()", "!root.hasChild('no.key')",
      "root.child('no.key').val() == null",
      data: data)
    expectFailure(
      "root.child(root.child('n').val()).exists()", "root.child(root.child('x').val()).exists()",
      "root.hasChild(root.child('n').val())", "root.child(auth.uid).parent().exists()",
      data: data)
  }

  @Test(arguments: ["", "/", "//"])
  func `a path without keys leads nowhere if it is computed, and is refused as a literal`(
    _ path: String
  ) throws {
    let data = Node(children: [("path", Node(path)), ("a", Node(children: [("x", 1)]))])
    let computed = "root.child('path').val()"
    expectTrue(
      "\(computed) == '\(path)'",
      "!root.child(\(computed)).exists()", "!root.child('a').child(\(computed)).exists()",
      "!root.child('a').hasChild(\(computed))", "!root.child('a').hasChildren([\(computed)])",
      "!root.child('a').hasChildren(['x', \(computed)])",
      "!root.child('a').child(\(computed)).child('x').exists()",
      "!root.child('a').child(\(computed)).child('x').parent().exists()",
      // The parent of the absent child is the place itself, as for every other child.
      "root.child('a').child(\(computed)).parent().hasChild('x')",
      // With a key before it, the path is that of the key.
      "root.child('a/' + \(computed)).hasChild('x')",
      data: data)
    for expression in [
      "root.child('\(path)').exists()", "root.child('a').parent().child('\(path)').exists()",
      "root.hasChild('\(path)')", "root.hasChildren(['a', '\(path)'])",
    ] {
      #expect(evaluate(expression, data: data).isInvalid, "\(expression)")
    }
    #expect(
      problems(#"{"rules":{".read":"root.hasChild('\#(path)')"}}"#) == [
        "1:34: /.read: expected a path with a key, such as 'title' or 'author/name'"
      ])
  }

  @Test func `the root has no parent`() {
    expectFailure(
      "root.parent().exists()", "data.parent().exists()",
      "root.child('a').parent().parent().exists()",
      "root.child('a' + 'b').parent().parent().exists()")
  }

  @Test func `wildcards are the keys on the path`() throws {
    let outcome = evaluate(
      "$a == 'one' && $b + '!' == 'two!' && $b.length == 3 && data.parent().child($b).exists()",
      data: try tree(#"{"one":{"two":1}}"#),
      wildcards: [("$a", "one"), ("$b", "two")])
    #expect(outcome == .isTrue)
  }

  @Test func `rules see the order, bounds and limit of a query`() throws {
    func check(_ options: String?, _ expression: String) throws {
      let query = try options.map { try Query(options: try JSONValue(json: $0)) }
      #expect(evaluate(expression, query: query) == .isTrue, "\(expression)")
    }
    try check(nil, "query.orderByKey && !query.orderByPriority && query.limitToFirst == null")
    try check(#"{}"#, "query.orderByKey && query.startAt == null && query.endAt == null")
    try check(
      #"{"orderBy":"$key","startAt":"a","endAt":"m","limitToLast":5}"#,
      "query.orderByKey && query.startAt == 'a' && query.endAt == 'm' && query.limitToLast == 5")
    try check(
      #"{"orderBy":"a/b","equalTo":5}"#,
      "query.orderByChild == 'a/b' && !query.orderByKey && query.equalTo == 5")
    try check(
      #"{"orderBy":"a","startAt":1,"endAt":2}"#, "query.equalTo == null && query.endAt == 2")
    try check(#"{"orderBy":"$value","equalTo":"x"}"#, "query.orderByValue && query.equalTo == 'x'")
    try check(
      #"{"orderBy":"$priority","limitToFirst":1}"#,
      "query.orderByPriority && !query.orderByKey && query.limitToFirst <= 10")
  }
}
