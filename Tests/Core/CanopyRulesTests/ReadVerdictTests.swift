import CanopyTesting
import CanopyTree
import Testing

@testable import CanopyRules

/// The dependencies of a read verdict, apart from the rules and the caller.
struct ReadVerdictTests {
  private func verdict(
    _ rule: String, _ data: String = "null", as caller: RuleCaller = user("ann")
  ) throws -> ReadVerdict {
    var output = JSONOutput()
    output.append("{\"rules\":{\"a\":{\"$x\":{\".read\":")
    output.append(string: rule)
    output.append("}}}}")
    return try rules(output.text).authorizeRead(
      try Path("a/x"), in: try tree(data), as: caller)
  }

  @Test func `a read verdict names exactly the locations that rules read`() throws {
    let cases: [(rule: String, data: String, isAllowed: Bool, places: [String])] = [
      ("true", "null", true, []),
      ("auth.uid === $x || auth.uid === 'ann'", "null", true, []),
      ("auth == null && root.child('open').val() == true", "null", false, []),
      ("root.child('open').val() == true", #"{"open":true}"#, true, ["open"]),
      ("root.child('members').child($x).hasChild(auth.uid)", "null", false, ["members/x/ann"]),
      ("data.child('b/c').exists() || data.parent().exists()", "null", false, ["a/x/b/c", "a"]),
      (
        "root.child(root.child('p').val()).exists()", #"{"p":"q/r","q":{"r":1}}"#, true,
        ["p", "q/r"]
      ),
      ("root.child('p').child($x).parent().child('z').exists()", "null", false, ["p/z"]),
      ("data.hasChildren(['u', 'v'])", "null", false, ["a/x/u"]),
      ("root.child('n').val() > 3", "null", false, ["n"]),
      ("root.child('bad.key').exists()", "null", false, [""]),
      ("root.child('list').childCount() > 0", "null", false, ["list"]),
    ]
    for (rule, data, isAllowed, places) in cases {
      let verdict = try verdict(rule, data)
      let expected = try places.map { try Path($0) }
      #expect(
        verdict
          == ReadVerdict(
            isAllowed: isAllowed, paths: expected, dependsOnTime: false, dependsOnQuery: false),
        "\(rule)")
    }
    #expect(try verdict("now > 0").dependsOnTime)
    #expect(try verdict("true || now > 0").dependsOnTime == false)
  }

  @Test func `a read verdict depends on the query if a rule has read it`() throws {
    for (rule, dependsOnQuery) in [
      ("query.limitToLast <= 5", true), ("query.orderByKey", true),
      ("auth == null || query.equalTo === auth.uid", true), ("auth != null", false),
      ("true || query.limitToLast <= 5", false), ("root.child('open').val() == true", false),
    ] {
      #expect(try verdict(rule).dependsOnQuery == dependsOnQuery, "\(rule)")
    }
  }

  @Test func `a read verdict takes no more steps than are left`() throws {
    let set = try rules(
      #"{"rules":{"a":{".read":"data.val().matches(/^[a-c]+$/)","b":{".read":"true"}}}}"#)
    func verdict(_ bytes: Int, _ stepsLeft: inout Int) throws -> ReadVerdict? {
      let root = Node(children: [("a", Node(String(repeating: "b", count: bytes)))])
      return set.authorizeRead(try Path("a/b"), in: root, as: nobody, stepsLeft: &stepsLeft)
    }
    var left = 1_000_000
    #expect(try verdict(10_000, &left)?.isAllowed == true)
    let taken = 1_000_000 - left
    #expect((10_000..<100_000).contains(taken))
    // The last step is left, and then one fewer.
    left = taken
    #expect(try verdict(10_000, &left)?.isAllowed == true && left == 0)
    left = taken - 1
    #expect(try verdict(10_000, &left) == nil && left == 0)
    left = -1
    #expect(try verdict(1, &left) == nil)
    // Rules beyond the bound of every request deny.
    left = .max
    #expect(try verdict(2 * RuleLimits.stepsMax, &left)?.isAllowed == false)
    #expect(left == .max - RuleLimits.stepsMax)
  }

  @Test func `a read verdict stays valid until a write at its locations`() throws {
    var random = SeededGenerator(printingSeedFor: "read verdicts")
    let names = ["a", "b", "c", "x"]
    func snapshot() -> String {
      var text = random.pick(["root", "data"])
      for _ in 0..<Int.random(in: 0...3, using: &random) {
        text += random.pick([
          ".child('\(random.pick(names))')",
          ".child('\(random.pick(names))/\(random.pick(names))')",
          ".child($x)", ".child(root.child('\(random.pick(names))').val() + '')", ".parent()",
        ])
      }
      return text
    }
    func condition() -> String {
      switch Int.random(in: 0..<4, using: &random) {
      case 0: "\(snapshot()).exists()"
      case 1: "\(snapshot()).val() === '\(random.pick(names))'"
      case 2: "\(snapshot()).hasChildren(['a', 'b'])"
      default: "\(snapshot()).childCount() === 1"
      }
    }
    func expression() -> String {
      let parts = (0..<3).map { _ in (random.oneIn(3) ? "!" : "") + "(\(condition()))" }
      return parts.joined(separator: random.pick([" && ", " || "]))
    }
    var changes = 0
    for _ in 0..<150 {
      let text = expression()
      let set: RuleSet
      do {
        set = try rules(#"{"rules":{"a":{"$x":{".read":"\#(text)"}}}}"#)
      } catch is RulesError {
        continue
      }
      var tree = Tree()
      let path = try Path("a/x")
      for _ in 0..<40 {
        let verdict = set.authorizeRead(path, in: tree.root, as: user("x"))
        #expect(verdict.isAllowed == set.mayRead(path, in: tree.root, as: user("x")))
        let place = try Path(
          (0..<3).map { _ in try Key(random.pick(names)) }.prefix(
            Int.random(in: 1...3, using: &random)))
        let node = random.oneIn(3) ? Node.absent : Node(random.pick(names))
        tree.apply([Assignment(place, node)])
        let isConcerned = verdict.paths.contains { $0.hasPrefix(place) || place.hasPrefix($0) }
        let isAllowed = set.mayRead(path, in: tree.root, as: user("x"))
        if isAllowed != verdict.isAllowed {
          changes += 1
          #expect(isConcerned, "\(text) changed with \(place); it looked at \(verdict.paths)")
        }
      }
    }
    // With 30 different seeds, at least 65 verdicts changed.
    #expect(changes > 20)
  }
}
