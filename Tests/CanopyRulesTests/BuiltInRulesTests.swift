import CanopyTree
import Testing

@testable import CanopyRules

struct BuiltInRulesTests {
  @Test func `the built-in rules load`() throws {
    do { _ = try BuiltInRules.load() } catch { Issue.record("\(error)") }
  }
}
