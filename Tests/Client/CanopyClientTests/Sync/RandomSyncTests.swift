import CanopyTesting
import Testing

@Suite(.timeLimit(.minutes(20))) struct RandomSyncTests {
  @Test func `listeners see the model's results in every sequence of steps`() {
    var random = SeededGenerator(printingSeedFor: "RandomSyncTests")
    for run in 0..<2_000 {
      let seed = random.next()
      var simulation = SyncSimulation(SeededGenerator(seed: seed))
      simulation.run(steps: 60)
      guard let problem = simulation.problem else { continue }
      let trace = SyncSimulation.Trace()
      var again = SyncSimulation(SeededGenerator(seed: seed), trace: trace)
      again.run(steps: 60)
      Issue.record("run \(run): \(problem)\nafter:\n\(trace.steps.joined(separator: "\n"))")
      return
    }
  }
}
