import CanopySocial
import CanopyTree
import CanopyTesting
import Foundation
import Testing

@testable import CanopyRules

/// The built-in rules against the table of honest requests and tampering in `BuiltInCases.json`.
struct BuiltInRulesTests {
  let builtIn: RuleSet

  init() throws {
    builtIn = try BuiltInRules.load()
  }

  private static let casesPath = "Tests/Core/CanopyRulesTests/BuiltInCases.json"

  /// Returns the cases of the table, with those about `/posts` alone repeated for the copy by
  /// author.
  private static func cases() throws -> RuleCases {
    let file = Checkout.root.appending(path: casesPath)
    var cases = try RuleCases(json: try String(contentsOf: file, encoding: .utf8))
    cases.cases += try cases.cases.compactMap { try $0.aboutCopy() }
    return cases
  }

  @Test func `honest requests are allowed and tampering is refused`() throws {
    let cases = try Self.cases()
    for outcome in cases.run(builtIn) where !outcome.isAsExpected {
      Issue.record("\(Self.casesPath): \(outcome.name):\n\(outcome.explanation.text)")
    }
    for test in cases.cases { #expect(test.verdict(by: builtIn) == test.isAllowed) }
    #expect(cases.cases.count { !$0.isAllowed } >= 60)
    #expect(cases.cases.count { $0.isAllowed } >= 20)
    #expect(Set(cases.cases.map(\.name)).count == cases.cases.count, "each name is used once")
  }

  @Test func `no rule fails while honest requests are allowed`() throws {
    for outcome in try Self.cases().run(builtIn) where outcome.isAllowed {
      for step in outcome.explanation.steps {
        guard case .failed(let reason) = step.outcome else { continue }
        Issue.record("\(Self.casesPath): \(outcome.name): \(step.rule): \(reason)")
      }
    }
  }

  @Test func `texts may be as long as the blog allows`() throws {
    func maySet(_ location: String, _ text: String, _ rest: String) throws -> Bool {
      let root = try tree(
        #"""
        {"posts":{"p":{"uid":"ann","author":"Ann","title":"t","body":"b"}},
          "users":{"ann":{"username":"Ann"}}}
        """#)
      let json = #"{"uid":"ann","author":"Ann",\#(rest)\#(text)"}"#
      return try builtIn.maySet(location, json, in: root, as: user("ann"))
    }
    for (location, rest, count) in [
      ("posts/-NjEtLV------------q", #""body":"b","title":""#, Texts.titleMax),
      ("posts/-NjEtLV------------q", #""title":"t","body":""#, Texts.bodyMax),
      ("post-comments/p/-NjEtLV------------c", #""text":""#, Texts.commentMax),
    ] {
      #expect(try maySet(location, String(repeating: "x", count: count), rest))
      #expect(try !maySet(location, String(repeating: "x", count: count + 1), rest))
      // Two UTF-16 code units each.
      #expect(try maySet(location, String(repeating: "🌳", count: count / 2), rest))
      #expect(try !maySet(location, String(repeating: "🌳", count: count / 2 + 1), rest))
    }
  }

  @Test func `the indexes that the blog needs are declared`() throws {
    let root = try tree(#"{"posts":{"p":{"a":1}},"user-posts":{"ann":{"p":{"a":1}}}}"#)
    for plan in [builtIn.indexPlan, Layout.indexPlan] {
      let indexed = Tree(root: root, indexPlan: plan).root
      let byStars = Order.child(try Path("starCount"))
      #expect(Query.isIndexed(by: byStars, indexed.child("posts")))
      #expect(Query.isIndexed(by: byStars, indexed.at(try Path("user-posts/ann"))))
    }
  }

  @Test func `a star on a post with a longer text than rules allow is accepted`() throws {
    let body = String(repeating: "🌳", count: 60_000)
    let post = #""uid":"ann","author":"Ann","title":"t","body":"\#(body)""#
    let root = try tree(#"{"posts":{"p":{\#(post)}}}"#)
    let starred = #"{\#(post),"starCount":1,"stars":{"dan":true}}"#
    #expect(try builtIn.maySet("posts/p", starred, in: root, as: user("dan")))
  }

  /// Removes one rule or one condition from the text at a time.
  @Test func `a case fails if any rule or condition is left out`() throws {
    let cases = try Self.cases()
    let text = BuiltInRules.text
    var count = 0
    for rule in text.matches(of: /"\.(?:write|validate|read)": "([^"]*)"/) {
      let conditions = rule.1.ranges(of: "&& ").map { text[$0.upperBound..<rule.1.endIndex] }
      for condition in [rule.1] + conditions {
        let end = Self.end(of: condition)
        // A separate test covers lengths.
        if condition[..<end].hasPrefix("newData.val().length") { continue }
        var changed = text
        changed.replaceSubrange(condition.startIndex..<end, with: "true")
        guard let rules = try? RuleSet(text: changed) else {
          Issue.record("without \(condition[..<end]) the rules do not load")
          continue
        }
        count += 1
        #expect(
          cases.cases.contains { $0.verdict(by: rules) != $0.isAllowed },
          """
          no case fails without the condition \(condition[..<end]); add a case that it denies to \
          \(Self.casesPath)
          """)
      }
    }
    #expect(count > 100)
  }

  /// Returns the end of a condition: the next `&&`, `||`, `?` or `:` outside its parentheses, or
  /// the parenthesis that closes around it.
  private static func end(of condition: Substring) -> String.Index {
    var depth = 0
    var quote: Character?
    for i in condition.indices {
      let character = condition[i]
      if let open = quote {
        if character == open { quote = nil }
        continue
      }
      switch character {
      case "'": quote = character
      case "/" where condition[..<i].hasSuffix("matches("): quote = character
      case "(": depth += 1
      case ")":
        if depth == 0 { return i }
        depth -= 1
      case "&", "|", "?", ":":
        if depth == 0 { return i }
      default: break
      }
    }
    return condition.endIndex
  }
}

extension RuleCases.Case {
  /// Returns the case for `/user-posts/<author>/<id>` instead of `/posts/<id>`; nil if it involves
  /// other locations.
  func aboutCopy() throws -> Self? {
    guard case .write(let write) = request else { return nil }
    let items = try write.items.map { item -> Write.Item? in
      let keys = item.location.path.keys
      guard keys.count >= 2, keys[0] == "posts" else { return nil }
      let authors: [Key: Key] = ["p1": "ann", "p2": "bob", "p8": "ann"]
      let uid = caller.auth?.child("uid").stringValue.flatMap { try? Key($0) } ?? "ann"
      let path = try Path([Key("user-posts"), authors[keys[1]] ?? uid] + keys.dropFirst())
      return .init(Location(path, isPriority: item.location.isPriority), item.value)
    }
    guard items.allSatisfy({ $0 != nil }) else { return nil }
    var copy = self
    copy.name += " (the copy by author)"
    copy.request = .write(try Write(items.compactMap { $0 }))
    return copy
  }
}
