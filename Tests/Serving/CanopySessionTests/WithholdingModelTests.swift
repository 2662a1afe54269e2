import CanopyTesting
import CanopyWire
import Testing

@testable import CanopySession

struct WithholdingModelTests {
  @Test
  func
    `while commits go on without end, each request is answered after a bounded number of catch-ups, and after its events`()
    throws
  {
    var random = SeededGenerator(printingSeedFor: "WithholdingModelTests")
    var answered = 0
    var seen: [WithholdingModel.Seen] = []
    for _ in 0..<200 {
      let seed = random.next()
      var model = WithholdingModel(try WithholdingTests.session(subscriptions: 2), seed: seed)
      while model.session.nextAction() != nil {}
      for _ in 0..<200 where model.problem == nil { model.step() }
      answered += model.answered
      model.end()
      #expect(model.problem == nil, "seed \(seed): \(model.problem ?? "")")
      if model.problem != nil { return }
      seen.append(model.seen)
    }
    #expect(answered > 200 * 50)
    // The runs have everything that the model checks.
    for count: KeyPath<WithholdingModel.Seen, Int> in [
      \.waits, \.resumed, \.readAgain, \.covered, \.left, \.longReads,
    ] {
      #expect(seen.contains { $0[keyPath: count] > 0 }, "\(count)")
    }
  }
}
