import CanopyTesting
import Testing

@testable import CanopyServer

/// Drives a pipeline as a connection does, and checks after every step that the order is kept.
private struct PipelineModel {
  var pipeline = RequestPipeline<Int>()
  let kinds: [RequestKind]
  var received = 0
  /// Requests that are under way, by their slots.
  var underWay: [(request: Int, slot: Int)] = []
  var begun: [Int] = []
  var replies: [Int] = []
  var problem: String?

  init(_ kinds: [RequestKind]) {
    self.kinds = kinds
  }

  var isDone: Bool { received == kinds.count && underWay.isEmpty }

  mutating func receive() {
    pipeline.enqueue(received, kinds[received])
    received += 1
    proceed()
  }

  mutating func finish(_ index: Int) {
    let (request, slot) = underWay.remove(at: index)
    pipeline.finish(slot, [UInt8(request)])
    proceed()
  }

  private mutating func proceed() {
    start()
    while let reply = pipeline.nextReply() {
      replies.append(Int(reply[0]))
      start()
    }
    check()
  }

  private mutating func start() {
    while let (request, slot) = pipeline.begin() {
      checkBeginning(of: request)
      begun.append(request)
      if let slot {
        underWay.append((request, slot))
      } else {
        replies.append(request)
      }
    }
  }

  private mutating func checkBeginning(of request: Int) {
    let isExclusiveUnderWay = underWay.contains { kinds[$0.request] == .exclusive }
    switch kinds[request] {
    case .read where !underWay.isEmpty: problem = "a read began while \(underWay) were under way"
    case .exclusive where !underWay.isEmpty: problem = "an exclusive began beside \(underWay)"
    case .write where isExclusiveUnderWay: problem = "a write began beside an exclusive"
    default: break
    }
    if kinds[request] != .write, replies.count != request {
      problem = "\(request) began before all before it were answered"
    }
  }

  private mutating func check() {
    if begun != Array(0..<begun.count) { problem = "requests began out of order: \(begun)" }
    if replies != Array(0..<replies.count) { problem = "replies are out of order: \(replies)" }
    if pipeline.count != received - replies.count { problem = "the count is \(pipeline.count)" }
    if pipeline.isIdle != (replies.count == received) { problem = "idle is wrong" }
    // What may begin has begun: nothing waits without a reason.
    let hasReason = !underWay.isEmpty
    if begun.count < received, !hasReason { problem = "\(begun.count) waits for nothing" }
    let nextIsWrite = begun.count < received && kinds[begun.count] == .write
    if nextIsWrite, !underWay.contains(where: { kinds[$0.request] == .exclusive }) {
      problem = "the write \(begun.count) waits for nothing"
    }
  }
}

@Suite(.timeLimit(.minutes(5))) struct RequestPipelineTests {
  private static let kinds: [RequestKind] = [.read, .write, .exclusive]

  private static func sequences(_ count: Int) -> [[RequestKind]] {
    guard count > 0 else { return [[]] }
    return sequences(count - 1).flatMap { rest in kinds.map { rest + [$0] } }
  }

  /// Every interleaving of arrivals and completions from here on; returns how many there were.
  private func explore(_ model: PipelineModel) -> Int {
    if let problem = model.problem {
      Issue.record("\(model.kinds): \(problem)")
      return 0
    }
    if model.isDone {
      #expect(model.replies.count == model.kinds.count)
      return 1
    }
    var count = 0
    if model.received < model.kinds.count {
      var next = model
      next.receive()
      count += explore(next)
    }
    for index in model.underWay.indices {
      var next = model
      next.finish(index)
      count += explore(next)
    }
    return count
  }

  @Test func `every short sequence keeps its order, whatever ends first`() {
    var count = 0
    for length in 1...6 {
      for kinds in Self.sequences(length) { count += explore(PipelineModel(kinds)) }
    }
    #expect(count > 30_000)
  }

  @Test func `long random sequences keep their order`() {
    var random = SeededGenerator(printingSeedFor: "RequestPipelineTests")
    for _ in 0..<300 {
      let kinds = (0..<60).map { _ in Self.kinds.randomElement(using: &random) ?? .read }
      var model = PipelineModel(kinds)
      while !model.isDone {
        let canReceive = model.received < kinds.count
        if canReceive, model.underWay.isEmpty || Bool.random(using: &random) {
          model.receive()
        } else {
          model.finish(Int.random(in: model.underWay.indices, using: &random))
        }
        guard model.problem == nil else {
          Issue.record("\(kinds): \(model.problem ?? "")")
          return
        }
      }
      #expect(model.replies.count == kinds.count)
    }
  }

  @Test func `what has not begun is dropped, what is under way is still answered`() {
    var pipeline = RequestPipeline<Int>()
    pipeline.enqueue(0, .write)
    let slot = pipeline.begin()?.slot
    pipeline.enqueue(1, .read)
    pipeline.enqueue(2, .exclusive)
    pipeline.dropWaiting()
    #expect(pipeline.count == 1)
    pipeline.finish(slot ?? -1, [7])
    #expect(pipeline.nextReply() == [7])
    #expect(pipeline.isIdle)
    #expect(pipeline.begin() == nil)
  }

  @Test func `a slot is finished once`() {
    var pipeline = RequestPipeline<Int>()
    pipeline.enqueue(0, .write)
    pipeline.enqueue(1, .write)
    let first = pipeline.begin()?.slot ?? -1
    let second = pipeline.begin()?.slot ?? -1
    pipeline.finish(second, [1])
    pipeline.finish(second, [9])
    pipeline.finish(first, [0])
    pipeline.finish(12, [9])
    #expect(pipeline.nextReply() == [0])
    pipeline.finish(first, [9])
    #expect(pipeline.nextReply() == [1])
    #expect(pipeline.isIdle)
  }
}
