import CanopyTesting
import CanopyTree
import Foundation
import Testing

/// Runs the simulator. It takes over its process, so it runs in one of its own.
@Suite(.serialized, .timeLimit(.minutes(5))) struct SimulatorTests {
  @Test func `twenty seeds find nothing`() async throws {
    let run = try await Simulator("20")
    #expect(run.status == 0, "\(run.output)")
  }

  @Test func `the same seed gives the same log, byte by byte, and another seed another one`()
    async throws
  {
    let first = try await Simulator("1", "--first", "7", "--log")
    let second = try await Simulator("1", "--first", "7", "--log")
    let other = try await Simulator("1", "--first", "8", "--log")
    #expect(first.output.utf8.count > 10_000)
    // The macro would look for the differences of both texts.
    let (isEqual, differs) = (first.output == second.output, first.output != other.output)
    #expect(isEqual)
    #expect(differs)
  }

  @Test func `a seed gives the same log whatever ran before it`() async throws {
    let all = try await Simulator("6", "--first", "3", "--hashes").output.split(separator: "\n")
    let last = try await Simulator("1", "--first", "8", "--hashes").output.split(separator: "\n")
    #expect(all.dropLast().last == last.first)
  }

  @Test func `a failing seed is printed with fewer actions, and its replay fails in the same way`()
    async throws
  {
    let run = try await Simulator("100", "--plant", "checkpointOffByOne")
    let row = try #require(
      run.output.firstMatch(of: /\| `checkpointOffByOne` \| \d+ \| ([^|\n]+) \|/), "\(run.output)")
    let replay = try #require(
      run.output.firstMatch(of: /replay: Scripts\/simulate (.+)/), "\(run.output)")
    let arguments = replay.1.split(separator: " ").map { String($0) }
    #expect(arguments.contains("--without"))
    let actions = run.output.matches(of: /ms, action \d+:/).count
    // Each plan has at least 20 actions.
    #expect((1..<20).contains(actions))
    let again = try await Simulator(arguments)
    let finding = try #require(again.output.firstMatch(of: /FOUND (.+)/), "\(replay.0)")
    func kind(_ text: Substring) -> String { String(text.filter(\.isLetter).prefix(40)) }
    #expect(kind(finding.1) == kind(row.1))
  }

  /// A change of the code changes the seeds that find a defect. So the seeds of the article are not compared, but tried
  /// first.
  @Test func `each planted defect is found within a thousand seeds, and the article has it`()
    async throws
  {
    let root = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "../../..")
    let article = try String(
      contentsOf: root.appending(path: "Sources/Documentation.docc/Testing.md"), encoding: .utf8)
    let rows = article.matches(of: /\| `(\w+)` \| (\d+) \| [^|\n]+ \|/)
    // Other tables of the article have such rows as well.
    let defects = Set(PlantedDefect.allCases.map(\.rawValue))
    #expect(defects.isSubset(of: rows.map { String($0.1) }))
    let seeds = Set(rows.filter { defects.contains(String($0.1)) }.map { String($0.2) })
    let run = try await Simulator(
      "1000", "--plant", "all", "--try-first", seeds.sorted().joined(separator: ","))
    #expect(run.status == 0, "\(run.output)")
  }
}

/// A run of the command.
private struct Simulator {
  let status: Int32
  let output: String

  init(_ arguments: String...) async throws { try await self.init(arguments) }

  init(_ arguments: [String]) async throws {
    let folder = try TemporaryFolder()
    let file = folder.url.appending(path: "output")
    try Data().write(to: file)
    let process = Process()
    process.executableURL = URL(filePath: CommandLine.arguments[0]).resolvingSymlinksInPath()
      .deletingLastPathComponent().appending(path: "CanopySimulator")
    process.arguments = arguments
    process.standardOutput = try FileHandle(forWritingTo: file)
    // Waiting for the process must hold no thread of the other tests.
    try await withCheckedThrowingContinuation { (done: CheckedContinuation<Void, any Error>) in
      process.terminationHandler = { _ in done.resume() }
      do { try process.run() } catch { done.resume(throwing: error) }
    }
    status = process.terminationStatus
    output = String(decoding: try Data(contentsOf: file), as: UTF8.self)
  }
}
