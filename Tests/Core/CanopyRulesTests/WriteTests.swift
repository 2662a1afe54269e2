import CanopyTree
import Testing

@testable import CanopyRules

struct WriteTests {
  @Test func `each location of a write must be granted`() throws {
    let rules = try rules(#"{"rules":{"a":{".write":true},"b":{"$k":{".write":true}}}}"#)
    #expect(try rules.maySet("a", "1", in: .absent))
    #expect(try rules.maySet("a/b/c", "1", in: .absent))
    #expect(try rules.mayUpdate("/", ["a/x": "1", "b/y": "2"], in: .absent))
    #expect(try !rules.mayUpdate("/", ["a/x": "1", "b": "2"], in: .absent))
    #expect(try !rules.mayUpdate("/", ["a/x": "1", "c": "2"], in: .absent))
    #expect(try !rules.maySet("/", #"{"a":1}"#, in: .absent))
  }

  @Test func `a rule below cannot revoke a write that one above grants`() throws {
    let rules = try rules(#"{"rules":{"a":{".write":true,"b":{".write":false}}}}"#)
    #expect(try rules.maySet("a/b", "1", in: .absent))
    #expect(try rules.maySet("a/b/c", "1", in: .absent))
  }

  @Test func `a write rule sees its location before and after`() throws {
    let rules = try rules(
      #"""
      {"rules":{"n":{".write":"data.child('owner').val() == auth.uid
        || !data.exists() && newData.child('owner').val() == auth.uid"}}}
      """#)
    let root = try tree(#"{"n":{"owner":"ann","text":"x"}}"#)
    #expect(try rules.maySet("n/text", #""y""#, in: root, as: user("ann")))
    #expect(try rules.maySet("n", "null", in: root, as: user("ann")))
    #expect(try !rules.maySet("n/text", #""y""#, in: root, as: user("bob")))
    #expect(try rules.maySet("n", #"{"owner":"bob"}"#, in: .absent, as: user("bob")))
    #expect(try !rules.maySet("n/owner", #""bob""#, in: root, as: user("bob")))
  }

  @Test func `newData is the tree after the complete write`() throws {
    let rules = try rules(
      #"""
      {"rules":{
        "total":{".write":true,".validate":
          "newData.val() == newData.parent().child('a').val() + newData.parent().child('b').val()"},
        "$k":{".write":"newData.parent().child('total').val() > 0"}}}
      """#)
    let root = try tree(#"{"a":1,"b":2,"total":3}"#)
    #expect(try rules.mayUpdate("/", ["a": "5", "total": "7"], in: root))
    #expect(try !rules.mayUpdate("/", ["a": "5", "total": "6"], in: root))
    #expect(try rules.mayUpdate("/", ["a": "5", "b": "1", "total": "6"], in: root))
    #expect(try !rules.mayUpdate("/", ["a": "5", "total": "null"], in: root))
  }

  @Test func `every validate rule at and below the written locations must hold`() throws {
    let rules = try rules(
      #"""
      {"rules":{".write":true,"a":{".validate":"newData.hasChildren(['x'])",
        "x":{".validate":"newData.isNumber()"},
        "list":{"$i":{"n":{".validate":"newData.val() < 10"}}}}}}
      """#)
    #expect(try rules.maySet("a", #"{"x":1,"other":true}"#, in: .absent))
    #expect(try !rules.maySet("a", #"{"y":1}"#, in: .absent))
    #expect(try !rules.maySet("a", #"{"x":"1"}"#, in: .absent))
    #expect(try !rules.maySet("/", #"{"a":{"x":"1"}}"#, in: .absent))
    #expect(try rules.maySet("a", #"{"x":1,"list":{"p":{"n":1},"q":{"n":9},"r":{}}}"#, in: .absent))
    #expect(try !rules.maySet("a", #"{"x":1,"list":{"p":{"n":1},"q":{"n":10}}}"#, in: .absent))
    #expect(try rules.maySet("b", #"{"x":"1"}"#, in: .absent))
  }

  @Test func `the validate rules above the written locations must hold too`() throws {
    let rules = try rules(
      #"""
      {"rules":{".write":true,"widget":{".validate":"newData.hasChildren(['color','size'])",
        "size":{".validate":"newData.isNumber()"}}}}
      """#)
    #expect(try !rules.maySet("widget/size", "99", in: .absent))
    let root = try tree(#"{"widget":{"color":"red","size":5}}"#)
    #expect(try rules.maySet("widget/size", "99", in: root))
    #expect(try rules.mayUpdate("widget", ["color": #""b""#, "size": "1"], in: .absent))
    #expect(try !rules.maySet("widget/color", "null", in: root), "the remaining node is validated")
    #expect(try rules.maySet("widget", "null", in: root))
  }

  @Test func `validate is not evaluated where the node is absent afterwards`() throws {
    let rules = try rules(
      #"{"rules":{".write":true,".validate":false,"a":{".validate":false,"b":{".validate":false}}}}"#
    )
    let root = try tree(#"{"a":{"b":1}}"#)
    #expect(try rules.maySet("a/b", "null", in: root))
    #expect(try rules.maySet("/", "null", in: root))
    #expect(try !rules.maySet("a/c", "1", in: root))
  }

  @Test func `a validate rule that fails refuses`() throws {
    let rules = try rules(#"{"rules":{".write":true,"a":{".validate":"newData.val() < 5"}}}"#)
    #expect(try rules.maySet("a", "4", in: .absent))
    #expect(try !rules.maySet("a", "5", in: .absent))
    #expect(try !rules.maySet("a", #""4""#, in: .absent))
    #expect(try !rules.maySet("a", "true", in: .absent))
  }

  @Test func `unknown names can be refused`() throws {
    let rules = try rules(
      #"{"rules":{".write":true,"p":{"x":{},"y":{".validate":true},"$other":{".validate":false}}}}"#
    )
    #expect(try rules.maySet("p", #"{"x":{"deep":1},"y":2}"#, in: .absent))
    #expect(try !rules.maySet("p", #"{"x":1,"z":2}"#, in: .absent))
    #expect(try !rules.maySet("p/z/a/b", "1", in: .absent))
    #expect(try rules.maySet("p/z", "null", in: .absent))
  }

  @Test func `the priority of a location is written with the rules of that location`() throws {
    let rules = try rules(
      #"""
      {"rules":{"a":{".write":true,".validate":"newData.getPriority() != 5",
        "b":{".validate":"newData.val() != 1"}}}}
      """#)
    let root = try tree(#"{"a":{"b":1}}"#)
    #expect(try rules.maySet("a/.priority", "4", in: root), "the nodes below were not written")
    #expect(try !rules.maySet("a/.priority", "5", in: root))
    #expect(try !rules.maySet("/.priority", "4", in: root))
    #expect(try !rules.maySet("a", #"{".priority":5,"c":1}"#, in: .absent))
    #expect(try !rules.mayUpdate("/", ["a/.priority": "4", "a/b": "1"], in: root))
  }

  @Test func `server values are resolved`() throws {
    let rules = try rules(
      #"""
      {"rules":{"at":{".write":true,".validate":"newData.val() == now"},
        "n":{".write":true,".validate":"newData.val() == data.val() + 1"}}}
      """#)
    let root = try tree(#"{"n":5}"#)
    #expect(try rules.maySet("at", #"{".sv":"timestamp"}"#, in: root))
    #expect(try !rules.maySet("at", "5", in: root))
    #expect(try rules.maySet("n", #"{".sv":{"increment":1}}"#, in: root))
    #expect(try !rules.maySet("n", #"{".sv":{"increment":2}}"#, in: root))
  }

  @Test func `locations in any sequence give the same verdict`() throws {
    let rules = try rules(
      #"{"rules":{"a":{"$k":{".write":true,".validate":"newData.val() < 5"}},"b":{".write":true}}}"#
    )
    let after = try tree(#"{"a":{"x":1,"y":2},"b":{"c":{"d":1}}}"#)
    let locations = try ["a/x", "b/c/d", "a/y", "b", "b/c", "a/x"].map { try Location($0) }
    for rotation in locations.indices {
      let rotated = Array(locations[rotation...] + locations[..<rotation])
      #expect(rules.authorize(rotated, before: .absent, after: after, as: nobody) == .allowed)
    }
    let more = locations + [try Location("a")]
    let denial = Denial.notGranted(.write, at: try Path("a"))
    #expect(rules.authorize(more, before: .absent, after: after, as: nobody) == .denied(denial))
  }

  @Test func `an empty write is allowed`() throws {
    let rules = try rules(#"{"rules":{".validate":false}}"#)
    let none: [Location] = []
    #expect(rules.authorize(none, before: 1, after: 1, as: nobody) == .allowed)
  }

  @Test func `a refusal names the rule and the location`() throws {
    let rules = try rules(
      #"{"rules":{"a":{".write":true,"$k":{".validate":"newData.isNumber()"}}}}"#)
    func denial(_ location: String, _ json: String) throws -> Denial? {
      let write = try Write.set(try Location(location), try WriteValue(json: json))
      guard case .denied(let denial) = rules.explain(write, in: .absent, as: nobody).verdict else {
        return nil
      }
      return denial
    }
    #expect(try denial("a", #"{"x":1}"#) == nil)
    #expect(try denial("b/c", "1") == .notGranted(.write, at: try Path("b/c")))
    let invalid = try #require(try denial("a", #"{"x":1,"y":"2"}"#))
    #expect(try invalid == .invalid(rule: "/a/$k/.validate", at: Path("a/y")))
    #expect(invalid.sentence == "the rule /a/$k/.validate does not hold at /a/y")
  }
}
