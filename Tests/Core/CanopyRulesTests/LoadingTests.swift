import CanopyTree
import Testing

@testable import CanopyRules

struct LoadingTests {
  @Test func `a file may have comments, and strings that span lines`() throws {
    let rules = try rules(
      """
      // A rules file may contain all of this.
      { /* the only
           member */ "rules": {
        ".read": "
          now > 0 &&
          'http://example.org' != '/*' ", // In a string, nothing begins a comment.
        ".write": false
      } }
      """)
    #expect(rules.mayRead(.root, in: .absent, as: nobody))
  }

  @Test func `a rule may be true or false instead of text`() throws {
    let rules = try rules(#"{"rules":{".read":true,".write":false}}"#)
    #expect(rules.mayRead(.root, in: .absent, as: nobody))
    #expect(try !rules.maySet("a", "1", in: .absent))
  }

  @Test(arguments: [
    ("", "1:1: expected a JSON value"),
    ("\u{FEFF}{\"rules\":{}}", "1:1: expected no byte order mark"),
    ("[]", "1:1: /: expected one object with one member, \"rules\""),
    ("{}", "1:1: /: expected one object with one member, \"rules\""),
    (#"{"rules":{},"more":{}}"#, "1:1: /: expected one object with one member, \"rules\""),
    (#"{"rules":true}"#, "1:10: /: expected an object; found a bool"),
    (#"{"rules":{}"#, "1:12: expected , or }"),
    (#"{"rules":{}} x"#, "1:14: expected nothing after the closing brace"),
    (#"{"rules":{"a":{},}}"#, "1:18: expected another member after the comma"),
    (#"{rules:{}}"#, "1:2: expected a name in double quotes"),
    (#"{"rules" {}}"#, "1:10: expected : after \"rules\""),
    ("{\"rules\":{\n/* ", "2:1: expected */ to end this comment"),
    (#"{"rules":{"a"#, "1:11: expected \" to end this string"),
    (#"{"rules":{"\x":{}}}"#, "1:12: expected one of \" \\ / b f n r t u after the backslash"),
    (#"{"rules":{"a":5}}"#, "1:15: /: expected an object; found a number"),
    (#"{"rules":{"a/b":{}}}"#, "1:11: /: expected a key, a $wildcard or a rule: "),
    (#"{"rules":{".reed":true}}"#, "1:11: /: expected .read, .write, .validate or .indexOn"),
    (#"{"rules":{".read":1}}"#, "1:19: /.read: expected a string with an expression"),
    (#"{"rules":{".read":null}}"#, "1:19: /.read: expected a string with an expression"),
    (#"{"rules":{"a":{},"a":{}}}"#, "1:18: /: expected a only once here"),
    (#"{"rules":{"$a":{},"$b":{}}}"#, "1:19: /: expected one wildcard here; $b is another"),
    (#"{"rules":{"$a":{"b":{"$a":{}}}}}"#, "1:22: /$a/b: expected another name: $a stands for"),
    (#"{"rules":{"$":{}}}"#, "1:11: /: expected letters, digits and _ after the $"),
    (#"{"rules":{"$a-b":{}}}"#, "1:11: /: expected letters, digits and _ after the $"),
    (#"{"rules":{"a":{".indexOn":5}}}"#, "1:27: /a/.indexOn: expected a name or a list of names"),
    (#"{"rules":{"a":{".indexOn":["b",5]}}}"#, "1:32: /a/.indexOn: expected a name in quotes"),
    (#"{"rules":{"a":{".indexOn":"$key"}}}"#, "1:27: /a/.indexOn: expected the path of a child"),
    (#"{"rules":{"a":{".indexOn":""}}}"#, "1:27: /a/.indexOn: expected the name of a child"),
  ])
  func `a problem in a file is reported with its position`(_ text: String, _ problem: String) {
    let found = problems(text)
    #expect(found.count == 1)
    #expect(found.first?.hasPrefix(problem) == true, "\(found)")
  }

  @Test func `a mistake in an expression is reported with its position in the file`() {
    let text = """
      {
        "rules": {
          "posts": {
            "$id": {
              ".write": "auth != null &&
                         auth.uid === $uid",
              ".validate": "newData.isString() && \\"é\\" + nwo > 5"
            }
          }
        }
      }
      """
    #expect(
      problems(text) == [
        "6:33: /posts/$id/.write: expected a wildcard of this rule's path ($id); found $uid",
        "7:53: /posts/$id/.validate: expected a name that rules know: auth, now, root, data, "
          + "newData, query or a $wildcard; found nwo",
      ])
  }

  @Test func `the number of reported problems is bounded`() {
    let places = (0..<100).map { #""a\#($0)":{".read":"nobody"}"# }.joined(separator: ",")
    let error = #expect(throws: RulesError.self) { try rules(#"{"rules":{\#(places)}}"#) }
    #expect(error?.problems.count == RuleLimits.problemsMax)
    #expect(error?.description.hasSuffix("\nand \(100 - RuleLimits.problemsMax) more") == true)
  }

  @Test func `a file must be UTF-8, not too large, and not deeper than data`() throws {
    let error = #expect(throws: RulesError.self) {
      try RuleSet(utf8: Array("{\n\"é".utf8) + [0xC3, 0x22])
    }
    #expect(error?.description == "rules:2:3: expected UTF-8")
    #expect(throws: RulesError.self) {
      try RuleSet(utf8: Array(repeating: 0x20, count: RuleLimits.fileBytesMax + 1))
    }
    func nested(_ depth: Int) -> String {
      #"{"rules":"# + String(repeating: #"{"a":"#, count: depth) + "{}"
        + String(repeating: "}", count: depth) + "}"
    }
    #expect(problems(nested(Limits.depthMax)).isEmpty)
    #expect(problems(nested(Limits.depthMax + 1)).count == 1)
    #expect(problems(nested(100_000)).count == 1)
    let long = String(repeating: " ", count: RuleLimits.expressionBytesMax)
    #expect(problems(#"{"rules":{".read":"true\#(long)"}}"#).count == 1)
  }

  @Test func `declared indexes are planned`() throws {
    let rules = try rules(
      #"""
      {"rules":{"posts":{".indexOn":["starCount","author/name"]},
        "scores":{"$game":{".indexOn":".value"}}}}
      """#)
    let root = try tree(#"{"posts":{"a":{"b":1}},"scores":{"go":{"x":5}},"other":{"y":3}}"#)
    let indexed = Tree(root: root, indexPlan: rules.indexPlan).root
    let byStars = Order.child(try Path("starCount"))
    let posts = indexed.child("posts")
    #expect(Query.isIndexed(by: byStars, posts))
    #expect(Query.isIndexed(by: .child(try Path("author/name")), posts))
    #expect(!Query.isIndexed(by: .value, posts))
    #expect(Query.isIndexed(by: .value, indexed.at(try Path("scores/go"))))
    #expect(!Query.isIndexed(by: byStars, indexed.child("other")))
  }

  @Test func `nested wildcards beside indexes need no more memory than their text`() throws {
    // Each level has a node with an index, and a wildcard that contains the next level.
    let depth = 20
    var text = "{}"
    for level in (0..<depth).reversed() {
      text = #"{"a":{"i":{".indexOn":"n"}},"$x\#(level)":\#(text)}"#
    }
    let rules = try rules(#"{"rules":\#(text)}"#)
    #expect(rules.indexPlan.levelCount <= 3 * depth + 1)
    let place = try Path(Array(repeating: "a", count: depth) + ["i"])
    #expect(rules.indexPlan.declares(.child(try Path("n")), at: place))
  }

  @Test func `the number of declared indexes is bounded`() throws {
    func names(_ count: Int) -> [String] {
      let list = (0..<count).map { #""n\#($0)""# }.joined(separator: ",")
      return problems(#"{"rules":{"a":{".indexOn":[\#(list)]}}}"#)
    }
    #expect(names(RuleLimits.indexesMax).isEmpty)
    #expect(
      names(RuleLimits.indexesMax + 1) == [
        "1:27: /a/.indexOn: expected at most 100 names; found 101"
      ])
    func places(_ count: Int) -> [String] {
      let list = (0..<count).map { #""p\#($0)":{".indexOn":"n"}"# }.joined(separator: ",")
      return problems(#"{"rules":{\#(list)}}"#)
    }
    // The root is a level as well.
    #expect(places(RuleLimits.indexLevelsMax - 1).isEmpty)
    #expect(
      places(RuleLimits.indexLevelsMax) == [
        "1:1: /: expected .indexOn at places with at most 10000 keys and wildcards on the ways there; "
          + "found 10001"
      ])
  }

  /// Before, the column of each rule was counted from the start of the line: minutes for this file.
  @Test(.timeLimit(.minutes(20))) func `a file of one line with many rules is loaded quickly`()
    throws
  {
    func file(_ separator: String) -> String {
      let places = (0..<20_000).map { #""k\#($0)":{".read":true}"# }
      return #"{"rules":{"# + places.joined(separator: "," + separator) + "}}"
    }
    let rules = try rules(file(""))
    #expect(rules.program.rules.count == 20_000)
    #expect(rules.program.rules.allSatisfy { $0.line == 1 })
    let lines = try RuleSet(text: file("\n")).program.rules.map(\.line)
    #expect(lines == Array(1...20_000))
  }

  @Test func `a file of five thousand lines costs five times one of a thousand`() throws {
    func file(lines: Int) -> String {
      var text = "{\n\"rules\": {\n"
      for i in 0..<lines / 5 {
        if i > 0 { text += ",\n" }
        text += """
          "place\(i)": { "$id": { // number \(i)
            ".read": "auth != null && data.child('owner').val() === auth.uid",
            ".write": "auth.uid === $id || root.child('admins/' + auth.uid).val() === true",
            ".validate": "newData.hasChildren(['a', 'b']) && newData.child('a').val().length < 100"
          } }
          """
      }
      return text + "\n} }"
    }
    let small = try RuleSet(text: file(lines: 1_000)).tokens
    let large = try RuleSet(text: file(lines: 5_000)).tokens
    #expect(large > 4 * small && large < 6 * small)
  }
}
