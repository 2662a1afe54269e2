import Testing

@testable import CanopyBench

struct ReportTests {
  @Test func `a median is the middle number, or the mean of two`() {
    #expect(median([]) == 0)
    #expect(median([3]) == 3)
    #expect(median([9, 1, 5]) == 5)
    #expect(median([4, 1, 9, 2]) == 3)
  }

  @Test func `a goal is met at its bound, and never by a value of zero`() {
    func isMet(_ canopy: Double, _ other: Double, _ goal: Report.Goal) -> Bool {
      Report.Finding(
        work: "", measure: "", canopy: canopy, against: "", other: other, goal: goal
      ).isMet
    }
    #expect(isMet(3, 2, .atLeast(1.5)))
    #expect(!isMet(2.9, 2, .atLeast(1.5)))
    #expect(isMet(3, 2, .atMost(1.5)))
    #expect(!isMet(3.1, 2, .atMost(1.5)))
    #expect(!isMet(3, 0, .atLeast(1)))
    #expect(!isMet(0, 3, .atMost(1)))
  }

  @Test(arguments: [
    (Report.Goal.atLeast(1), "≥ 1.0"), (.atLeast(0.95), "≥ 0.95"), (.atMost(1.25), "≤ 1.25"),
    (.atMost(1.3), "≤ 1.3"),
  ])
  func `a goal is shown with the hundredths that it has`(goal: Report.Goal, text: String) {
    let finding = Report.Finding(
      work: "", measure: "", canopy: 1, against: "", other: 1, goal: goal)
    #expect(finding.markdown.contains(" | \(text) | "))
  }

  @Test(arguments: [
    (0.0, "0.00"), (1.234, "1.23"), (12.34, "12.3"), (99.96, "100.0"), (123.4, "123"),
    (1_234.5, "1,235"), (1_000_000, "1,000,000"), (-1_234, "-1,234"), (-123, "-123"),
    (.infinity, "–"),
  ])
  func `a number is shown with three significant digits`(number: Double, text: String) {
    #expect(shortText(number) == text)
  }

  @Test func `each work has a unique name and a goal`() {
    #expect(Set(Work.names).count == Work.names.count)
    #expect(Work.all.allSatisfy { !$0.goals.isEmpty })
  }
}
