import CanopyTesting
import Foundation
import Testing

@testable import CanopySQLite

/// A server on a disk that fails: nothing that was acknowledged is lost, and the server goes on.
///
/// `Scripts/disk-test` tries every operation. Here a few of each kind are tried.
@Suite(.serialized, .timeLimit(.minutes(20))) struct FaultyDiskTests {
  /// The numbers of a run of the script.
  private struct Range {
    private static func number(_ name: String) -> Int? {
      ProcessInfo.processInfo.environment[name].flatMap { Int($0) }
    }

    /// The number of operations of each kind to try; nil for every one.
    let samples: Int? = number("CANOPY_DISK_EVERY") == nil ? 2 : nil
    let from = number("CANOPY_DISK_FROM") ?? 0
    let to = number("CANOPY_DISK_TO") ?? .max
    let rounds = number("CANOPY_DISK_ROUNDS") ?? 1
    let width = number("CANOPY_DISK_WIDTH") ?? 4
    /// Whether the store repairs its log after an error of the disk.
    let repairsLog = number("CANOPY_DISK_UNREPAIRED") == nil

    /// The names of the faults to try; nil for all.
    let names = ProcessInfo.processInfo.environment["CANOPY_DISK_FAULTS"].map {
      $0.split(separator: ",", omittingEmptySubsequences: false).map { String($0) }
    }

    func includes(_ fault: DiskFault) -> Bool { names?.contains(fault.rawValue) ?? true }
  }

  @Test func `the article explains each fault, and the figures of all faults have their sums`()
    throws
  {
    let article = try String(
      contentsOf: Checkout.root.appending(path: "Sources/Documentation.docc/Testing.md"),
      encoding: .utf8)
    let lines = article.split(separator: "\n", omittingEmptySubsequences: false)
    let titles = Tally.header.split(separator: "\n")[0]
    let first = try #require(lines.firstIndex { $0.utf8.elementsEqual(titles.utf8) })
    var sums = Array(repeating: 0, count: 9)
    var names: [String] = []
    for line in lines[first...].dropFirst(2).prefix(while: { $0.utf8.first == UInt8(ascii: "|") }) {
      let cells = line.split(separator: "|").map { $0.filter { !" `,".contains($0) } }
      let numbers = cells.dropFirst().map { Int($0) ?? -1 }
      try #require(numbers.count == 9, "\(line)")
      guard cells[0] != "all" else {
        #expect(numbers == sums)
        continue
      }
      names.append(cells[0])
      sums = zip(sums, numbers).map { $0 + $1 }
      let (operations, tried, runs, failing) = (numbers[0], numbers[1], numbers[2], numbers[3])
      #expect(operations == tried && tried <= runs && failing <= runs, "\(line)")
      #expect(numbers[5...] == [0, 0, 0, 0], "\(line)")
    }
    #expect(names == DiskFault.allCases.map(\.rawValue))
    // A row explains the fault, and another one has its figures.
    for name in names {
      #expect(article.matches(of: try Regex("\\| `\(name)` \\|")).count == 2, "\(name)")
    }
  }

  @Test func `each name of a fault that the script gets is that of a fault`() {
    for name in Range().names ?? [] {
      #expect(DiskFault(rawValue: name) != nil, "there is no fault \(name)")
    }
  }

  @Test func `on a sound disk every request is carried out, and a loss of power loses nothing`()
    async throws
  {
    var random = SeededGenerator(printingSeedFor: "FaultyDiskTests.sound")
    let outcome = try await DiskRun(seed: random.next()).run()
    #expect(outcome.findings.all == [])
    #expect(outcome.faults == 0)
    #expect(outcome.acknowledged > 25)
    #expect(outcome.counts[.syncDropped] ?? 0 > 25, "each durable write is synchronized")
  }

  @Test(arguments: DiskFault.allCases)
  func `whatever operation fails, nothing is lost, torn or doubled, and the server goes on`(
    _ fault: DiskFault
  ) async throws {
    let range = Range()
    guard range.includes(fault) else { return }
    var random = SeededGenerator(printingSeedFor: "FaultyDiskTests.\(fault)")
    var soundRun = DiskRun(seed: random.next())
    soundRun.countsFiles = !fault.calls.isEmpty
    let sound = try await soundRun.run()
    let points = sound.counts[fault] ?? 0
    var tally = Tally()
    tally.points = points
    var numbers = (0..<range.rounds).flatMap { _ in
      Array(max(0, range.from)..<max(range.from, min(points, range.to)))
    }
    if let samples = range.samples {
      numbers = (0..<samples).map { _ in Int.random(in: 0..<max(1, points), using: &random) }
    }
    var runs = numbers.map { number in
      var run = DiskRun(fault: fault, number: number, seed: random.next())
      run.configure = { $0.repairsLog = range.repairsLog }
      return run
    }[...]
    let width = range.width
    try await withThrowingTaskGroup(of: (DiskRun, DiskRun.Outcome).self) { group in
      for _ in 0..<width {
        if let run = runs.popFirst() { group.addTask { (run, try await run.run()) } }
      }
      while let (run, outcome) = try await group.next() {
        tally.add(outcome, at: run.number)
        #expect(
          outcome.findings.all == [],
          "\(fault) at \(run.number) (\(outcome.firstFault)), seed \(run.seed)")
        if let run = runs.popFirst() { group.addTask { (run, try await run.run()) } }
      }
    }
    print("\(Tally.header)\n\(tally.row(fault))")
    #expect(tally.failing > 0)
  }
}
