import CanopyTree
import Testing

@testable import CanopyRules

/// Rules count their steps, so that no request delays the writer for long.
struct RuleStepTests {
  /// Returns the steps of a `.read` rule of the root, and whether it held.
  private func steps(
    _ expression: String, data: Node = .absent, stepsMax: Int = .max
  ) throws -> (count: Int, holds: Bool) {
    var output = JSONOutput()
    output.append("{\"rules\":{\".read\":")
    output.append(string: expression)
    output.append("}}")
    let rules = try rules(output.text)
    var evaluator = Evaluator(
      rules.frozenProgram, caller: nobody, query: nil, before: data, after: data,
      trace: NoTrace(), stepsMax: stepsMax)
    let holds = evaluator.mayRead(.root, in: rules.tree)
    return (stepsMax - evaluator.stepsLeft, holds)
  }

  private func text(_ bytes: Int) -> Node {
    let text = String(repeating: "x", count: bytes)
    return Node(children: [("a", Node(text.dropLast() + "y")), ("b", Node(text))])
  }

  /// Comparisons of two texts: the first ends with `y`, the second does not.
  static let comparisons = [
    "data.child('a').val() != data.child('b').val()",
    "data.child('a').val() > data.child('b').val()",
    "!data.child('a').val().contains(data.child('b').val())",
    "data.child('a').val().contains('y')",
    "!data.child('a').val().beginsWith(data.child('b').val())",
    "!data.child('a').val().endsWith(data.child('b').val())",
    "data.child('a').val().replace('x', 'z').contains('zy')",
    "data.child('a').val().matches(/xy$/)",
    "data.child('a').val().length > 1",
    "data.child('a').val().toUpperCase() != ''",
    "data.child('a').val().toLowerCase() != ''",
    "data.child('a').val() + data.child('b').val() != ''",
    "!data.child(data.child('a').val()).exists()",
  ]

  @Test(arguments: comparisons)
  func `every operation on texts counts their bytes`(_ expression: String) throws {
    let few = try steps(expression, data: text(4_000))
    let many = try steps(expression, data: text(40_000))
    #expect(few.holds && many.holds)
    #expect(few.count >= 4_000 / 64)
    #expect((5 * few.count..<11 * few.count).contains(many.count), "\(few.count) \(many.count)")
  }

  @Test(arguments: comparisons)
  func `an operation that needs more steps than are left fails`(_ expression: String) throws {
    let data = text(4_000)
    let needed = try steps(expression, data: data).count
    #expect(try steps(expression, data: data, stepsMax: needed).holds)
    let cut = try steps(expression, data: data, stepsMax: needed - 1)
    #expect(!cut.holds)
  }

  @Test func `once the steps are used up every rule fails`() throws {
    let rules = try rules(
      #"{"rules":{".read":"data.val().toLowerCase() == 'a'","a":{".read":"true"}}}"#)
    let data = Node(String(repeating: "x", count: 2 * RuleLimits.stepsMax))
    let path = try Path("a")
    #expect(!rules.mayRead(path, in: data, as: nobody))
    #expect(rules.mayRead(path, in: "x", as: nobody))
    let explanation = rules.explainRead(path, in: data, as: nobody)
    #expect(
      explanation.steps.map(\.outcome)
        == [
          .failed("the rules of this request would take too long"),
          .failed("the rules of this request would take too long"),
        ])
  }

  @Test func `a write with very many locations is refused if its rules take too long`() throws {
    let rules = try rules(
      #"{"rules":{".write":true,"$k":{".validate":"newData.val() + 1 > 0"},"other":{}}}"#)
    func verdict(_ count: Int) throws -> Verdict {
      let node = Node(children: (0..<count).map { (Key(index: Int32($0)), Node(1)) })
      return rules.authorize([Location(.root)], before: .absent, after: node, as: nobody)
    }
    #expect(try verdict(1_000) == .allowed)
    #expect(try verdict(RuleLimits.stepsMax / 4) == .denied(.tooManySteps))
  }

  @Test func `nodes on the path are counted`() throws {
    let rules = try rules(
      #"{"rules":{".write":true,"$k":{},"named":{".validate":"true"}}}"#)
    let node = Node(
      children: (0..<RuleLimits.stepsMax + 1_000).map { (Key(index: Int32($0)), Node(1)) })
    #expect(
      rules.authorize([Location(.root)], before: .absent, after: node, as: nobody)
        == .denied(.tooManySteps))
  }

  @Test
  func `a star by a raw write takes as many steps on a post with many stars as on one with few`()
    throws
  {
    func steps(stars: Int) throws -> Int {
      let rules = try BuiltInRules.load()
      var post = try tree(#"{"uid":"ann","author":"Ann","title":"t","body":"b"}"#)
      let entries = try (0..<stars).map { (try Key("user\(100_000 + $0)"), Node(true)) }
      post.set(Node(children: entries), at: try Path("stars"))
      post.set(Node(Int64(stars)), at: try Path("starCount"))
      var before = Node.absent
      before.set(post, at: try Path("posts/p"))
      before.set(post, at: try Path("user-posts/ann/p"))
      let star = try ["posts/p", "user-posts/ann/p"].flatMap { place in
        [
          Assignment(try Path("\(place)/starCount"), Node(Int64(stars) + 1)),
          Assignment(try Path("\(place)/stars/dan"), true),
        ]
      }
      var after = Tree(root: before)
      after.apply(star)
      let evaluator = Evaluator(
        rules.frozenProgram, caller: user("dan"), query: nil, before: before, after: after.root,
        trace: NoTrace())
      var authorizer = WriteAuthorizer(tree: rules.tree, evaluator: evaluator)
      #expect(authorizer.authorize(star.map(\.location)) == .allowed)
      return RuleLimits.stepsMax - authorizer.evaluator.stepsLeft
    }
    let few = try steps(stars: 200)
    #expect(few < 1_500)
    #expect(try steps(stars: 50_000) == few)
  }

  @Test func `a write that the blog's rules allow uses few of its steps`() throws {
    let rules = try BuiltInRules.load()
    let body = String(repeating: "é", count: 32_768)
    let json = #"{"uid":"ann","author":"Ann","title":"t","body":"\#(body)"}"#
    let id = "-NjEtLV------------q"
    let before = try tree(#"{"users":{"ann":{"username":"Ann"}}}"#)
    var after = before
    let places = [try Path("posts/\(id)"), try Path("user-posts/ann/\(id)")]
    for place in places { after.set(try tree(json), at: place) }
    let locations = places.map { Location($0) }
    let evaluator = Evaluator(
      rules.frozenProgram, caller: user("ann"), query: nil, before: before, after: after,
      trace: NoTrace())
    var authorizer = WriteAuthorizer(tree: rules.tree, evaluator: evaluator)
    #expect(authorizer.authorize(locations) == .allowed)
    #expect(RuleLimits.stepsMax - authorizer.evaluator.stepsLeft < RuleLimits.stepsMax / 20)
  }
}
