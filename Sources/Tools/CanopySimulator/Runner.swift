import CSimulation
import CanopyTree
import Foundation

/// Runs seeds, each in a process of its own that begins as a copy of this one.
struct Runner {
  /// The outcome of a run.
  struct Outcome {
    var hash = ""
    var finding: String?
  }

  /// The planted defect; nil for none.
  let defect: PlantedDefect?

  /// Runs a seed in this process, which can run no other.
  static func run(
    _ seed: UInt64, _ omitted: Set<Int>, _ defect: PlantedDefect?, keepsLog: Bool
  ) -> (finding: String?, log: SimulationLog) {
    #if DEBUG
      PlantedDefect.planted = defect
    #endif
    Scheduler.shared.begin(seed: seed, keepsLog: keepsLog)
    var plan = Plan(seed: seed)
    plan.remove(omitted)
    do {
      let world = try World(plan)
      return (world.run()?.description, Scheduler.shared.log)
    } catch {
      return ("\(error)", Scheduler.shared.log)
    }
  }

  /// Runs a seed in another process.
  func outcome(of seed: UInt64, without omitted: Set<Int> = []) throws -> Outcome {
    var ends: [CInt] = [0, 0]
    guard pipe(&ends) == 0 else { throw Finding("the system gives no pipe") }
    fflush(nil)
    let child = simulation_fork()
    if child == 0 {
      // A process that hangs outside of the scheduler ends.
      alarm(120)
      let (finding, log) = Runner.run(seed, omitted, defect, keepsLog: false)
      let text = String(log.hash, radix: 16) + "\n" + (finding ?? "")
      _ = Array(text.utf8).withUnsafeBytes { write(ends[1], $0.baseAddress, $0.count) }
      _exit(0)
    }
    close(ends[1])
    let file = FileHandle(fileDescriptor: ends[0], closeOnDealloc: true)
    let text = String(decoding: file.readDataToEndOfFile(), as: UTF8.self)
    var status: CInt = 0
    waitpid(child, &status, 0)
    guard let end = text.firstIndex(of: "\n") else {
      return Outcome(finding: "the process ended by signal \(status & 0x7F)")
    }
    let finding = String(text[text.index(after: end)...])
    return Outcome(hash: String(text[..<end]), finding: finding.isEmpty ? nil : finding)
  }

  /// Leaves out as many actions as possible, so that the run still fails.
  ///
  /// - Returns: the actions to leave out.
  func minimised(_ seed: UInt64, _ omitted: Set<Int>, _ finding: String) throws -> Set<Int> {
    var omitted = omitted
    var size = Plan(seed: seed).items.count / 2
    var runs = 0
    while size >= 1, runs < 400 {
      var plan = Plan(seed: seed)
      plan.remove(omitted)
      let numbers = plan.items.map(\.number)
      var hasRemoved = false
      for start in stride(from: 0, to: numbers.count, by: size) {
        let tried = omitted.union(numbers[start..<min(start + size, numbers.count)])
        runs += 1
        if Runner.kind(try outcome(of: seed, without: tried).finding) == Runner.kind(finding) {
          omitted = tried
          hasRemoved = true
        }
      }
      if !hasRemoved || size > 1 { size /= 2 }
    }
    return omitted
  }

  /// The kind of a finding: its first letters, without numbers and names.
  private static func kind(_ finding: String?) -> String? {
    finding.map { String($0.filter { $0.isLetter || $0 == " " }.prefix(60)) }
  }
}
