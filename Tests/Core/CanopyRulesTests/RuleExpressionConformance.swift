import CanopyTree
import CanopyTesting
import Foundation
import Testing

@testable import CanopyRules

/// Expressions with the results of Firebase's own server: whether it accepts them, and their
/// values. The table is outside the repository; `CANOPY_CONFORMANCE` is its path.
struct RuleExpressionConformance {
  static let folder = Checkout.conformance

  static var isThere: Bool { FileManager.default.fileExists(atPath: folder.path) }

  @Test(.enabled("the conformance tables are not there") { isThere })
  func `every expression gives the result of Firebase's server`() throws {
    let bytes = try Data(contentsOf: Self.folder.appending(path: "rule-expressions.json"))
    let table = try JSONValue(json: try #require(String(data: bytes, encoding: .utf8)))
    let users = try #require(table["users"])
    let tests = try #require(table["tests"]?.elements)
    #expect(tests.count >= 124)
    for test in tests {
      let rule = try #require(test["rule"]?.string)
      let name = try #require(test["user"]?.string)
      let auth = try Self.node(try #require(users[name], "\(rule): no user \(name)"))
      let isValid = try Self.bool(test, "isValid")
      let wildcards = try Self.wildcards(test["wildchildren"])
      let outcome = evaluate(
        rule, data: try Self.node(test["data"] ?? .null),
        as: RuleCaller(auth: auth, now: 1_700_000_000_000), wildcards: wildcards,
        query: try Self.query(test["query"]))
      guard isValid else {
        #expect(outcome.isInvalid, "\(rule) must not load; it came to \(outcome)")
        continue
      }
      if try Self.bool(test, "failAtRuntime") {
        #expect(outcome.hasFailed, "\(rule) must fail; it came to \(outcome)")
      } else {
        let expected = try Self.bool(test, "evaluateTo")
        #expect(outcome == (expected ? .isTrue : .isFalse), "\(rule)")
      }
    }
  }

  private static func bool(_ test: JSONValue, _ name: String) throws -> Bool {
    guard case .leaf(let node) = test[name], let value = node.boolValue else {
      throw TreeError.invalidData("\(test) has no \(name)")
    }
    return value
  }

  private static func node(_ value: JSONValue) throws -> Node {
    switch value {
    case .null: .absent
    case .leaf(let node): node
    case .array(let elements):
      Node(children: try elements.enumerated().map { (Key(index: Int32($0)), try node($1)) })
    case .object(let members):
      Node(children: try members.map { (try Key($0.name), try node($0.value)) })
    }
  }

  private static func wildcards(_ value: JSONValue?) throws -> [(name: String, key: Key)] {
    guard case .object(let members) = value else { return [] }
    return try members.map { ($0.name, try Key(try #require($0.value.string))) }
  }

  /// Returns a query as a client sends it. The table has queries as rules see them.
  private static func query(_ value: JSONValue?) throws -> Query? {
    guard case .object(let members) = value else { return nil }
    var options: [(name: String, value: JSONValue)] = []
    for (name, value) in members {
      switch name {
      case "orderByKey": options.append(("orderBy", .leaf("$key")))
      case "orderByValue": options.append(("orderBy", .leaf("$value")))
      case "orderByPriority": options.append(("orderBy", .leaf("$priority")))
      case "orderByChild": options.append(("orderBy", value))
      case "startAt", "endAt", "equalTo", "limitToFirst", "limitToLast":
        options.append((name, value))
      default: Issue.record("unknown field of a query: \(name)")
      }
    }
    return try Query(options: .object(options))
  }
}
