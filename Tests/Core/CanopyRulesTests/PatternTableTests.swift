import Testing

@testable import CanopyRules

/// The regular expressions of a whole file.
struct PatternTableTests {
  /// A rules file with one expression at each of some places.
  private func file(_ expressions: [String]) -> String {
    let places = expressions.enumerated().map { index, expression in
      "\"p\(index)\":{\".read\":\"\(expression)\"}"
    }
    return #"{"rules":{\#(places.joined(separator: ","))}}"#
  }

  @Test func `equal patterns are compiled once, however often a file has them`() throws {
    let expression = Array(repeating: "auth.uid.matches(/(.{1000}){4}/)", count: 1_000)
      .joined(separator: " && ")
    var loader = RuleLoader(
      SourceText(
        file: "test.json", bytes: Array(file(Array(repeating: expression, count: 20)).utf8)))
    try loader.load()
    #expect(loader.program.patterns.count == 20_000)
    #expect(loader.patterns.count == 1)
    let addresses = Set(
      loader.program.patterns.map { $0.states.withUnsafeBufferPointer { $0.baseAddress } })
    #expect(addresses.count == 1)
  }

  @Test func `the flag makes it another pattern`() throws {
    var table = PatternTable()
    #expect(try table.pattern(Array("a".utf8), ignoresCase: false).matches("A") == false)
    #expect(try table.pattern(Array("a".utf8), ignoresCase: true).matches("A"))
    #expect(table.count == 2)
  }

  @Test func `different patterns have at most so many states in a file`() {
    // One state a character, and one for the end.
    func expressions(_ count: Int, _ last: Int) -> [String] {
      (1...count).map { index in
        let length = index == count ? last : 1_000
        let repeated = length - 4
        return "auth.uid.matches(/\(String(index + 100))" + "a{\(repeated)}/)"
      }
    }
    let count = RuleLimits.fileStatesMax / 1_000
    #expect(problems(file(expressions(count, 1_000))).isEmpty)
    let refused = problems(file(expressions(count, 1_001)))
    #expect(refused.count == 1)
    #expect(
      refused.first?.contains("at most \(RuleLimits.fileStatesMax) states in the whole file")
        == true)
  }

  @Test func `a pattern that is refused counts as well`() throws {
    var table = PatternTable(statesMax: 2 * RuleLimits.patternStatesMax)
    for index in 0..<3 {
      let text = "\(index)(.{1000}){5}"
      #expect(throws: TextProblem.self) { try table.pattern(Array(text.utf8), ignoresCase: false) }
    }
    #expect(throws: TextProblem.self) { try table.pattern([0x61], ignoresCase: false) }
    #expect(table.count == 0)
  }
}
