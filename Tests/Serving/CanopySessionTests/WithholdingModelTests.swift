import CanopyTesting
import CanopyTree
import CanopyWire
import Testing

@testable import CanopyEngine
@testable import CanopySession

/// A connection whose client reads more slowly than commits come: withholds them, lets its subscriptions catch up, and
/// checks that replies come in time, and after the events of the commits before them.
private struct WithholdingModel: ~Copyable {
  var session: Session
  private var random: SeededGenerator
  /// The last commit.
  private var version = 0
  /// The version that each subscription has got, if it is behind.
  private var reached: [Int64: Int] = [:]
  /// The subscriptions that the catch-ups since `beginCatchUp` have left out.
  private var left: Set<Int64> = []
  private var underWay: [(slot: Session.Slot, number: Int)] = []
  /// The commit of each write that has finished.
  private var commits: [Int: Int] = [:]
  /// The read that waits for the events before it.
  private var read: (slot: Session.Slot, number: Int)?
  /// The round in which each request came.
  private var received: [Int] = []
  private(set) var answered = 0
  private var round = 0
  private(set) var problem: String?

  init(_ session: consuming Session, seed: UInt64) {
    self.session = session
    random = SeededGenerator(seed: seed)
  }

  /// The most requests that have no reply.
  static let outstandingMax = 4

  /// Commits, requests, and a catch-up after which the client reads everything.
  mutating func step() {
    round += 1
    commit()
    finishSome()
    // The client has read all events, and further commits are withheld already.
    session.setUnsent(bytes: 0, isWritable: true)
    for _ in 0..<Int.random(in: 0...2, using: &random) { receive() }
    perform()
    if random.oneIn(2) { commit() }
    catchUp()
    if let first = received.indices.contains(answered) ? received[answered] : nil,
      round - first > 6 * Self.outstandingMax
    {
      problem = problem ?? "request \(answered) is not answered after \(round - first) rounds"
    }
  }

  private mutating func commit() {
    version += 1
    for number in [1, 2] as [Int64] where number == 1 || random.oneIn(2) {
      if reached[number] == nil { reached[number] = version - 1 }
      _ = session.withhold(from: number, bytes: 1, grown: 1, idleMilliseconds: 0)
    }
  }

  private mutating func catchUp() {
    let isFirst = left.isEmpty
    if isFirst {
      session.beginCatchUp()
      // More may happen before the version is taken.
      if random.oneIn(2) { commit() }
      finishSome()
      left = Set(reached.keys)
    }
    for number in reached.keys.sorted() {
      // There is no room for the other.
      if isFirst, left.count < reached.count, random.oneIn(2) { continue }
      session.endWithholding(from: number)
      reached[number] = nil
      left.remove(number)
    }
    session.setUnsent(bytes: 1, unencoded: 1, isWritable: true)
    finishSome()
    if left.isEmpty { session.endCatchUp() }
    if let (slot, number) = read, !session.isBehind {
      read = nil
      session.endWaitingForEvents()
      session.beginResuming()
      if !session.answersNow(.help(verb: "\(number)")) {
        problem = problem ?? "read \(number) is not answered"
      }
      session.markReplyAsCurrent()
      session.finish(slot, Session.Completion(.json(.number(Int64(number)))))
      session.endResuming()
      let before = answered
      perform()
      if answered == before { problem = problem ?? "the reply to read \(number) is sent later" }
    }
    perform()
  }

  private mutating func receive() {
    guard session.wantsInput, received.count - answered < Self.outstandingMax else { return }
    let number = received.count
    received.append(round)
    if random.oneIn(2) {
      session.receive(.read(.help(verb: "\(number)")), bytes: 1)
    } else {
      session.receive(.write(.blog(.rename(username: "\(number)"))), bytes: 1)
    }
    perform()
  }

  private mutating func finishSome() {
    while !underWay.isEmpty, random.oneIn(2) {
      let (slot, number) = underWay.removeFirst()
      commit()
      commits[number] = version
      session.finish(slot, Session.Completion(.json(.number(Int64(number)))))
      perform()
    }
  }

  private mutating func perform() {
    while let action = session.nextAction() {
      switch action {
      case .read(let request):
        guard case .help(let verb?) = request, let number = Int(verb) else { continue }
        if session.isBehind {
          read = (session.postponeRead(request), number)
          session.beginWaitingForEvents()
        } else {
          reply(number)
        }
      case .begin(.write(.blog(.rename(let name))), let slot):
        underWay.append((slot, Int(name) ?? -1))
      case .send(.json(.number(let number))), .sendAfterEvents(.json(.number(let number))):
        reply(Int(number))
      default: break
      }
    }
  }

  private mutating func reply(_ number: Int) {
    if number != answered { problem = problem ?? "\(number) was answered, not \(answered)" }
    answered += 1
    if let commit = commits[number], let known = reached.values.min(), known < commit {
      problem = problem ?? "the reply to write \(number) precedes the events of its commit"
    }
  }
}

struct WithholdingModelTests {
  @Test
  func
    `while commits go on without end, each request is answered after a bounded number of catch-ups, and after its events`()
    throws
  {
    var random = SeededGenerator(printingSeedFor: "WithholdingModelTests")
    var answered = 0
    for _ in 0..<200 {
      let seed = random.next()
      var model = WithholdingModel(try WithholdingTests.session(subscriptions: 2), seed: seed)
      while model.session.nextAction() != nil {}
      for _ in 0..<200 where model.problem == nil { model.step() }
      #expect(model.problem == nil, "seed \(seed): \(model.problem ?? "")")
      if model.problem != nil { return }
      answered += model.answered
    }
    #expect(answered > 200 * 50)
  }
}
