import CanopyTesting
import CanopyTree
import CanopyWire
import Testing

@testable import CanopySession

extension RequestQueue {
  /// Appends a request that carries a number and is charged with so many bytes.
  fileprivate mutating func append(_ number: Int, _ order: RequestOrder) {
    append(.request(.read(.help(verb: "\(number)"))), order, bytes: 100 + number)
  }

  /// Begins the next request. Returns its number, and its slot if it is under way.
  fileprivate mutating func beginNumber() -> (number: Int, slot: Int?)? {
    switch begin() {
    case .atOnce(.request(let request))?: (number(of: request), nil)
    case .underWay(let request, let slot)?: (number(of: request), slot)
    case .atOnce(.refusal)?, nil: nil
    }
  }

  private func number(of request: Request) -> Int {
    guard case .read(.help(let verb?)) = request else { return -1 }
    return Int(verb) ?? -1
  }

  fileprivate mutating func finish(_ slot: Int, number: Int) {
    finish(slot, .json(.number(Int64(number))))
  }

  fileprivate mutating func nextNumber() -> Int? {
    guard case .json(.number(let number))? = nextReply() else { return nil }
    return Int(number)
  }
}

/// Drives a queue as a connection does, and checks after every step that the order is kept.
private struct QueueModel {
  var queue = RequestQueue()
  let kinds: [RequestOrder]
  var received = 0
  /// Requests that are under way, by their slots.
  var underWay: [(request: Int, slot: Int)] = []
  var begun: [Int] = []
  var replies: [Int] = []
  var problem: String?

  init(_ kinds: [RequestOrder]) {
    self.kinds = kinds
  }

  var isDone: Bool { received == kinds.count && underWay.isEmpty }

  mutating func receive() {
    queue.append(received, kinds[received])
    received += 1
    proceed()
  }

  mutating func finish(_ index: Int) {
    let (request, slot) = underWay.remove(at: index)
    queue.finish(slot, number: request)
    proceed()
  }

  private mutating func proceed() {
    start()
    while let reply = queue.nextNumber() {
      replies.append(reply)
      start()
    }
    check()
  }

  private mutating func start() {
    while let (request, slot) = queue.beginNumber() {
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
    let unanswered = Set(begun.count..<received).union(underWay.map(\.request))
    if queue.requestBytes != unanswered.reduce(0, { $0 + 100 + $1 }) {
      problem = "\(queue.requestBytes) bytes are charged for \(unanswered)"
    }
    if queue.isIdle, queue.requestBytes + queue.waitingBytes + queue.replyBytes != 0 {
      problem = "bytes are charged for nothing"
    }
    if begun != Array(0..<begun.count) { problem = "requests began out of order: \(begun)" }
    if replies != Array(0..<replies.count) { problem = "replies are out of order: \(replies)" }
    if queue.count != received - replies.count { problem = "the count is \(queue.count)" }
    if queue.isIdle != (replies.count == received) { problem = "idle is wrong" }
    // What may begin has begun: nothing waits without a reason.
    let hasReason = !underWay.isEmpty
    if begun.count < received, !hasReason { problem = "\(begun.count) waits for nothing" }
    let nextIsWrite = begun.count < received && kinds[begun.count] == .write
    if nextIsWrite, !underWay.contains(where: { kinds[$0.request] == .exclusive }) {
      problem = "the write \(begun.count) waits for nothing"
    }
  }
}

@Suite(.timeLimit(.minutes(20))) struct RequestQueueTests {
  private static let kinds: [RequestOrder] = [.read, .write, .exclusive]

  private static func sequences(_ count: Int) -> [[RequestOrder]] {
    guard count > 0 else { return [[]] }
    return sequences(count - 1).flatMap { rest in kinds.map { rest + [$0] } }
  }

  /// Every interleaving of arrivals and completions from here on; returns how many there were.
  private func explore(_ model: QueueModel) -> Int {
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
      for kinds in Self.sequences(length) { count += explore(QueueModel(kinds)) }
    }
    #expect(count > 30_000)
  }

  @Test func `long random sequences keep their order`() {
    var random = SeededGenerator(printingSeedFor: "RequestQueueTests")
    for _ in 0..<300 {
      let kinds = (0..<60).map { _ in Self.kinds.randomElement(using: &random) ?? .read }
      var model = QueueModel(kinds)
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

  @Test func `requests that have not begun are dropped, those under way are still answered`() {
    var queue = RequestQueue()
    queue.append(0, .write)
    let slot = queue.beginNumber()?.slot
    queue.append(1, .read)
    queue.append(2, .exclusive)
    queue.dropWaiting()
    #expect(queue.count == 1)
    #expect(queue.requestBytes == 100)
    queue.finish(slot ?? -1, number: 7)
    #expect(queue.nextNumber() == 7)
    #expect(queue.isIdle)
    #expect(queue.beginNumber() == nil)
  }

  @Test func `a slot is finished once`() {
    var queue = RequestQueue()
    queue.append(0, .write)
    queue.append(1, .write)
    let first = queue.beginNumber()?.slot ?? -1
    let second = queue.beginNumber()?.slot ?? -1
    queue.finish(second, number: 1)
    queue.finish(second, number: 9)
    queue.finish(first, number: 0)
    queue.finish(12, number: 9)
    #expect(queue.nextNumber() == 0)
    queue.finish(first, number: 9)
    #expect(queue.nextNumber() == 1)
    #expect(queue.isIdle)
    #expect(queue.requestBytes == 0 && queue.replyBytes == 0)
  }

  @Test func `a refusal waits for the replies before it`() {
    var queue = RequestQueue()
    queue.append(0, .write)
    let slot = queue.beginNumber()?.slot ?? -1
    queue.append(.refusal(WireError(.badRequest, "no")), .read, bytes: 10)
    #expect(queue.begin() == nil)
    queue.finish(slot, number: 0)
    #expect(queue.nextNumber() == 0)
    guard case .atOnce(.refusal(let error))? = queue.begin() else {
      Issue.record("the refusal does not begin")
      return
    }
    #expect(error.sentence == "no")
    #expect(queue.isIdle && queue.requestBytes == 0)
  }
}

/// Writes of which the queue learns when they are next whether they run alone.
struct LateOrderTests {
  private static func write(_ text: String) throws -> Request {
    .write(.tree(.set(try Location(text), WriteValue(.absent))))
  }

  @Test func `the queue asks about a write when it is the next request, and not before`() throws {
    var queue = RequestQueue()
    for name in ["a", "b", "c"] {
      queue.append(.request(try Self.write(name)), .write, bytes: 1)
    }
    var asked: [String] = []
    func begin() throws -> RequestQueue.Slot? {
      let beginning = queue.begin { request in
        guard case .write(.tree(.set(let location, _))) = request else { return false }
        asked.append(location.text)
        return location.text.hasSuffix("b")
      }
      guard case .underWay(_, let slot)? = beginning else { return nil }
      return slot
    }
    let first = try #require(try begin())
    #expect(asked.count == 1)
    // The second one runs alone, so it waits; the answer stays.
    #expect(try begin() == nil)
    #expect(try begin() == nil)
    #expect(asked.count == 2)
    queue.finish(first, .null)
    _ = queue.nextReply()
    let second = try #require(try begin())
    #expect(try begin() == nil, "no request begins beside it")
    queue.finish(second, .null)
    _ = queue.nextReply()
    #expect(try begin() != nil)
    #expect(asked.count == 3)
  }
}
