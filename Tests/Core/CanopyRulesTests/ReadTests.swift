import CanopyTree
import Testing

@testable import CanopyRules

struct ReadTests {
  private func mayRead(
    _ text: String, _ path: String, _ root: Node = .absent, as caller: RuleCaller = nobody
  ) throws -> Bool {
    try rules(text).mayRead(try Path(path), in: root, as: caller)
  }

  @Test func `a read that no rule grants is refused`() throws {
    #expect(try !mayRead(#"{"rules":{}}"#, "/"))
    #expect(try !mayRead(#"{"rules":{"a":{".read":true}}}"#, "/"))
    #expect(try !mayRead(#"{"rules":{"a":{".read":true}}}"#, "/b"))
    #expect(try !mayRead(#"{"rules":{".write":true,".validate":true}}"#, "/a"))
  }

  @Test func `a rule below cannot revoke a read that one above grants`() throws {
    let text = #"{"rules":{"a":{".read":true,"b":{".read":false}}}}"#
    #expect(try mayRead(text, "/a/b"))
    #expect(try mayRead(text, "/a/b/c/d"))
    #expect(try mayRead(text, "/a"))
  }

  @Test func `a rule that fails does not grant, and others still may`() throws {
    let text = #"{"rules":{".read":"auth.uid.length > 0","a":{".read":true}}}"#
    #expect(try mayRead(text, "/a"))
    #expect(try !mayRead(text, "/"))
  }

  @Test func `a wildcard stands for the keys that are not named beside it`() throws {
    let text =
      #"{"rules":{"u":{"$id":{".read":"$id == auth.uid"},"all":{".read":true},"none":{}}}}"#
    #expect(try mayRead(text, "/u/ann", as: user("ann")))
    #expect(try !mayRead(text, "/u/ann", as: user("bob")))
    #expect(try mayRead(text, "/u/all"))
    #expect(try !mayRead(text, "/u/none", as: user("none")))
  }

  @Test func `many sibling nodes are distinguished`() throws {
    let places = (0..<100).map { #""k\#($0)":{".read":\#($0.isMultiple(of: 2))}"# }
    let rules = try rules(#"{"rules":{\#(places.joined(separator: ","))}}"#)
    for i in 0..<100 {
      let path = Path.root.child(try Key("k\(i)"))
      #expect(rules.mayRead(path, in: .absent, as: nobody) == i.isMultiple(of: 2))
    }
    #expect(!rules.mayRead(Path.root.child("k100"), in: .absent, as: nobody))
  }

  @Test func `data is the node at the rule's location`() throws {
    let text = #"{"rules":{"notes":{"$id":{".read":"data.child('owner').val() == auth.uid"}}}}"#
    let root = try tree(#"{"notes":{"n":{"owner":"ann","text":"x"}}}"#)
    #expect(try mayRead(text, "/notes/n/text", root, as: user("ann")))
    #expect(try !mayRead(text, "/notes/n/text", root, as: user("bob")))
    #expect(try !mayRead(text, "/notes/m", root, as: user("ann")))
  }

  @Test func `a rule may require a limited query`() throws {
    let rules = try rules(
      #"""
      {"rules":{"posts":{".read":"query.orderByChild == 'uid' && query.equalTo == auth.uid
        || query.limitToFirst <= 10"}}}
      """#)
    func mayRead(_ options: String?) throws -> Bool {
      let query = try options.map { try Query(options: try JSONValue(json: $0)) }
      return rules.mayRead(try Path("posts"), query, in: .absent, as: user("ann"))
    }
    #expect(try mayRead(#"{"orderBy":"uid","equalTo":"ann"}"#))
    #expect(try !mayRead(#"{"orderBy":"uid","equalTo":"bob"}"#))
    #expect(try !mayRead(#"{"orderBy":"uid","startAt":"ann"}"#))
    #expect(try !mayRead(#"{"orderBy":"uid","startAt":"ann","endAt":"bob"}"#))
    #expect(try mayRead(#"{"limitToFirst":10}"#))
    #expect(try !mayRead(#"{"limitToFirst":11}"#))
    #expect(try !mayRead(nil))
  }
}
