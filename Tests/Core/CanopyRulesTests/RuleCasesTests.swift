import Testing

@testable import CanopyRules

struct RuleCasesTests {
  private func run(_ json: String) throws -> [RuleCases.Outcome] {
    let rules = try rules(
      #"""
      {"rules":{"notes":{"$uid":{".read":"auth.uid == $uid || query.limitToFirst == 1",
        ".write":"auth.uid == $uid",".validate":"newData.val() != data.val() && newData.val() <= now"}}}}
      """#)
    return try RuleCases(json: json).run(rules)
  }

  @Test func `cases read, set, update and remove, each from the same data`() throws {
    let outcomes = try run(
      #"""
      { "users": { "ann": { "uid": "ann" } }, "now": 1000, "data": { "notes": { "ann": 1 } },
        "cases": [
          { "name": "reads", "as": "ann", "operation": "read", "path": "/notes/ann",
            "expect": "allow" },
          { "name": "reads another's", "as": "ann", "operation": "read", "path": "/notes/bob",
            "expect": "deny" },
          { "name": "reads one", "operation": "read", "path": "/notes/bob",
            "query": { "limitToFirst": 1 }, "expect": "allow" },
          { "name": "sets", "as": "ann", "operation": "set", "path": "/notes/ann", "value": 2,
            "expect": "allow" },
          { "name": "sets the same", "as": "ann", "operation": "set", "path": "/notes/ann",
            "value": 1, "expect": "deny" },
          { "name": "sets the time", "as": "ann", "operation": "set", "path": "/notes/ann",
            "value": { ".sv": "timestamp" }, "expect": "allow" },
          { "name": "updates", "as": { "uid": "bob" }, "operation": "update", "path": "/",
            "value": { "notes/bob": 5 }, "expect": "allow" },
          { "name": "updates too much", "as": "ann", "operation": "update", "path": "/",
            "value": { "notes/bob": 5, "notes/ann": 7 }, "expect": "deny" },
          { "name": "removes", "as": "ann", "operation": "remove", "path": "/notes/ann",
            "expect": "allow" },
          { "name": "at another time", "as": "ann", "operation": "set", "path": "/notes/ann",
            "value": 2000, "now": 2000, "expect": "allow" },
          { "name": "with other data", "as": "ann", "operation": "set", "path": "/notes/ann",
            "value": 1, "data": { "notes": { "ann": 2 } }, "expect": "allow" },
          { "name": "expects the wrong verdict", "operation": "read", "path": "/",
            "expect": "allow" }
        ] }
      """#)
    for outcome in outcomes.dropLast() { #expect(outcome.isAsExpected, "\(outcome.name)") }
    #expect(outcomes.last?.isAsExpected == false)
    #expect(outcomes.last?.name == "expects the wrong verdict")
  }

  @Test(arguments: [
    ("", "line 1, column 1: expected a JSON value"),
    ("{\n \"cases\": [,", "line 2, column 12: expected a JSON value"),
    (
      #"{"cases":[{"name":"x","expect":"deny","path":"/","operation":"set","value":{".sv":1}}]}"#,
      #"case 1, x: expected "timestamp" or {"increment": number} after ".sv""#
    ),
    ("[]", "the file must be an object"),
    ("{}", "the file needs \"cases\", a list"),
    (#"{"cases":[],"case":1}"#, "the file has an unknown member, case"),
    (#"{"cases":[{}]}"#, "case 1 needs a \"name\""),
    (#"{"cases":[{"name":"x"}]}"#, "case 1, x: \"expect\" must be"),
    (#"{"cases":[{"name":"x","expect":"maybe"}]}"#, "case 1, x: \"expect\" must be"),
    (#"{"cases":[{"name":"x","expect":"deny"}]}"#, "case 1, x: \"path\" must be a string"),
    (#"{"cases":[{"name":"x","expect":"deny","path":"/"}]}"#, "case 1, x: \"operation\" must be"),
    (
      #"{"cases":[{"name":"x","expect":"deny","path":"a.b","operation":"read"}]}"#,
      "case 1, x: the path is not valid"
    ),
    (
      #"{"cases":[{"name":"x","as":"ann","expect":"deny","path":"/","operation":"read"}]}"#,
      "case 1, x: \"users\" has no ann"
    ),
    (
      #"{"cases":[{"name":"x","expcet":"deny"}]}"#, "case 1, x has an unknown member, expcet"
    ),
    (
      #"{"data":{"a":{".sv":"timestamp"}},"cases":[]}"#,
      "\"data\" of the file: data that is there already may hold no .sv"
    ),
    (
      #"{"cases":[{"name":"x","now":"1","expect":"deny","path":"/","operation":"read"}]}"#,
      "case 1, x: \"now\" must be milliseconds"
    ),
    (
      #"{"cases":[{"name":"x","as":5,"expect":"deny","path":"/","operation":"read"}]}"#,
      "case 1, x: \"as\", unless it names a user, must be an object"
    ),
    (
      #"""
      {"users":{"ann":true},
        "cases":[{"name":"x","as":"ann","expect":"deny","path":"/","operation":"read"}]}
      """#, "user ann must be an object"
    ),
    (
      #"""
      {"cases":[{"name":"x","expect":"deny","path":"/","operation":"read",
        "query":{"limit":1}}]}
      """#, "case 1, x: \"query\" has an unknown member, limit"
    ),
    (
      #"{"cases":[{"name":"x","expect":"deny","path":"/","operation":"read","query":1}]}"#,
      "case 1, x: \"query\" must be an object"
    ),
    (
      #"{"cases":[{"name":"x","expect":"deny","path":"/","operation":"remove","query":{}}]}"#,
      "case 1, x: only a read may have a \"query\""
    ),
    (
      #"{"cases":[{"name":"x","expect":"deny","path":"/","operation":"read","value":1}]}"#,
      "case 1, x: only set and update have a \"value\""
    ),
    (
      #"{"cases":[{"name":"x","expect":"deny","path":"/","operation":"remove","value":null}]}"#,
      "case 1, x: only set and update have a \"value\""
    ),
    (
      #"{"cases":[{"name":"x","expect":"deny","path":"/","operation":"set"}]}"#,
      "case 1, x: it needs a \"value\""
    ),
    (
      #"{"cases":[{"name":"x","expect":"deny","path":"/","operation":"update"}]}"#,
      "case 1, x: it needs a \"value\""
    ),
  ])
  func `an ambiguous file of cases is refused`(_ json: String, _ sentence: String) {
    do {
      _ = try RuleCases(json: json)
      Issue.record("it is accepted")
    } catch {
      #expect(error.sentence.hasPrefix(sentence), "\(error.sentence)")
      #expect(!error.sentence.contains("at byte"))
    }
  }
}
