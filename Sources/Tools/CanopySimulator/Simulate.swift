import ArgumentParser
import CSimulation
import CanopyTree
import Foundation

/// The command.
struct Simulate: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "simulate",
    abstract: "Run the engine, the server and the clients in a simulated world, and check them.")

  @Argument(help: "the number of seeds to run")
  var seeds: UInt64 = 100

  @Option(help: "the first seed")
  var first: UInt64 = 1

  @Option(help: "a defect to plant, or all, one after the other")
  var plant: String?

  @Option(help: "the seeds to try first with each defect: 60,170")
  var tryFirst: String = ""

  @Option(help: "the actions to leave out, by number: 3,5-9")
  var without: String = ""

  @Flag(help: "print the log of the run of the first seed")
  var log = false

  @Flag(help: "print a hash of the log of each run")
  var hashes = false

  @Flag(help: "do not minimise a failing seed")
  var whole = false

  @Flag(help: "go on after a failing seed, and do not minimise it")
  var goOn = false

  func run() throws {
    var arguments = CommandLine.arguments.map { strdup($0) } + [nil]
    arguments.withUnsafeMutableBufferPointer { simulation_prepare($0.baseAddress) }
    _ = try Server.token.get()
    guard let omitted = Simulate.numbers(without) else {
      throw ValidationError("--without has numbers and ranges of numbers: 3,5-9")
    }
    if let plant { return try self.plant(plant) }
    if log { return runHere(first, omitted) }
    let run = Runner(defect: nil)
    for seed in first..<first + seeds {
      let outcome = try run.outcome(of: seed, without: omitted)
      if hashes { print("\(seed) \(outcome.hash)") }
      guard let finding = outcome.finding else { continue }
      if goOn {
        print("seed \(seed): \(finding)")
        continue
      }
      report(seed, finding, whole ? omitted : try run.minimised(seed, omitted, finding))
      throw ExitCode(1)
    }
    print("\(seeds) seeds from \(first) on found nothing")
  }

  /// Runs a seed in this process, and prints the log.
  private func runHere(_ seed: UInt64, _ omitted: Set<Int>) {
    let (finding, log) = Runner.run(seed, omitted, nil, keepsLog: true)
    print(log.text, terminator: "")
    print("log \(String(log.hash, radix: 16))")
    if let finding { print("FOUND \(finding)") }
    fflush(nil)
    _exit(finding == nil ? 0 : 1)
  }

  private func report(_ seed: UInt64, _ finding: String, _ omitted: Set<Int>) {
    print("seed \(seed): \(finding)")
    var plan = Plan(seed: seed)
    plan.remove(omitted)
    for item in plan.items {
      print("  \(item.milliseconds) ms, action \(item.number): \(item.action)")
    }
    let option = omitted.isEmpty ? "" : " --without \(Simulate.text(omitted))"
    let planted = plant.map { " --plant \($0)" } ?? ""
    print("replay: Scripts/simulate 1 --first \(seed)\(option)\(planted) --log")
  }

  /// Plants defects, and prints a table of the first seeds that find them.
  private func plant(_ name: String) throws {
    #if DEBUG
      let defects = PlantedDefect.allCases.filter { name == "all" || $0.rawValue == name }
      guard !defects.isEmpty else {
        throw ValidationError(
          "--plant has one of: all, \(PlantedDefect.allCases.map(\.rawValue).joined(separator: ", "))"
        )
      }
      guard let omitted = Simulate.numbers(without) else { return }
      guard let tried = Simulate.numbers(tryFirst) else {
        throw ValidationError("--try-first has numbers and ranges of numbers: 60,170")
      }
      if log, let defect = defects.first {
        let (finding, log) = Runner.run(first, omitted, defect, keepsLog: true)
        print(log.text, terminator: "")
        if let finding { print("FOUND \(finding)") }
        fflush(nil)
        _exit(0)
      }
      print("| Defect | Seed | Finding |\n|---|---|---|")
      var isComplete = true
      var found: (seed: UInt64, finding: String)?
      for defect in defects {
        let run = Runner(defect: defect)
        found = nil
        for seed in tried.sorted().map({ UInt64($0) }) + Array(first..<first + seeds)
        where found == nil {
          found = try run.outcome(of: seed, without: omitted).finding.map { (seed, $0) }
        }
        isComplete = isComplete && found != nil
        print(
          "| `\(defect.rawValue)` | \(found.map { "\($0.seed)" } ?? "none") | \(found?.finding.prefix(160) ?? "") |"
        )
      }
      if !isComplete { throw ExitCode(1) }
      guard !whole, defects.count == 1, let found else { return }
      let run = Runner(defect: defects[0])
      report(found.seed, found.finding, try run.minimised(found.seed, omitted, found.finding))
    #else
      throw ValidationError("only a debug build has defects to plant")
    #endif
  }

  /// Returns numbers from a text of numbers and ranges; nil if the text is invalid.
  static func numbers(_ text: String) -> Set<Int>? {
    var numbers: Set<Int> = []
    for part in text.split(separator: ",") {
      let ends = part.split(separator: "-").map { Int($0) }
      guard let low = ends.first ?? nil, let high = ends.last ?? nil, low <= high else {
        return nil
      }
      numbers.formUnion(low...high)
    }
    return numbers
  }

  /// Returns numbers as a text of numbers and ranges.
  static func text(_ numbers: Set<Int>) -> String {
    var ranges: [ClosedRange<Int>] = []
    for number in numbers.sorted() {
      if let last = ranges.last, last.upperBound == number - 1 {
        ranges[ranges.count - 1] = last.lowerBound...number
      } else {
        ranges.append(number...number)
      }
    }
    return ranges.map { $0.count == 1 ? "\($0.lowerBound)" : "\($0.lowerBound)-\($0.upperBound)" }
      .joined(separator: ",")
  }
}
