import Testing

@testable import CanopyBench

struct SteadyTests {
  private func report(written: Double, journaled: Double?) -> SteadyReport {
    let part = SteadyReport.PartOutcome(
      requestsPerSecond: 100, millisecondsP50: 1, millisecondsP99: 2, millisecondsP999: 3,
      millisecondsMax: 4,
      millisecondsOfLongestStall: 10, slowestSecond: 0.8, cpuMicrosecondsPerRequest: 5, seconds: [])
    var canopy = SteadyReport.SystemOutcome(name: .canopy)
    canopy.parts = [.withoutCheckpoints: part, .fullSpeed: part, .fixedRate: part]
    canopy.writtenBytesPerPost = written
    canopy.journaledBytesPerPost = journaled
    return SteadyReport(setting: ["a machine"], systems: [canopy])
  }

  @Test func `the bytes written are compared with those of the journal, if the system tells them`()
  {
    let name = "bytes written, of those of the commits in the journal"
    #expect(
      report(written: 400, journaled: 200).markdown.contains("| \(name) | 2.00 | ≤ 2.00 | met |"))
    #expect(
      report(written: 410, journaled: 200).markdown.contains(
        "| \(name) | 2.05 | ≤ 2.00 | **missed** |"))
    #expect(!report(written: 400, journaled: nil).markdown.contains(name))
  }

  @Test func `bytes are in the row of the fixed rate only, with a dash for an unknown number`() {
    let row = "| Canopy | fixed rate | 100 | 0.80 | 1.00 | 2.00 | 3.00 | 4.0 | 10.0 | 5.00 | 400 |"
    #expect(report(written: 400, journaled: 200).markdown.contains("\(row) 200 |\n"))
    #expect(report(written: 400, journaled: nil).markdown.contains("\(row) – |\n"))
    #expect(
      report(written: 400, journaled: 200).markdown.contains(
        "| Canopy | full speed | 100 | 0.80 | 1.00 | 2.00 | 3.00 | 4.0 | 10.0 | 5.00 |  |  |\n"))
  }
}
