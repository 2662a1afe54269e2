import CanopyTesting
import CanopyTree
import CanopyWire

@testable import CanopyEngine
@testable import CanopySession

/// A connection whose client reads more slowly than commits come: withholds them, lets its subscriptions catch up, and
/// checks that replies come in time, and after the events of the commits before them.
///
/// The requests have the numbers 0, 1, 2 and so on. The model has a hub, which sends the events that are not withheld some
/// time after their commits. It knows the versions that the client has got, and the commit of each write.
struct WithholdingModel: ~Copyable {
  /// The events that a run has had, so that a test can show that it checks something.
  struct Seen: Equatable {
    var waits = 0
    /// Waiters that a catch-up has resumed.
    var resumed = 0
    /// Reads that were carried out again, because they could not be answered when the events were sent.
    var readAgain = 0
    /// Replies that were sent while commits were withheld.
    var covered = 0
    /// Subscriptions for which an earlier catch-up had no room.
    var left = 0
    var longReads = 0
  }

  /// Counts the roots that long reads have got.
  private final class Count {
    var value = 0
  }

  var session: Session
  private var random: SeededGenerator
  /// The last commit.
  private var version = 0
  /// The version that each subscription has got, if it is behind.
  private var reached: [Int64: Int] = [:]
  /// The last commit that is withheld from each subscription.
  private var withheld: [Int64: Int] = [:]
  /// The subscriptions for which the catch-ups had no room.
  private var left: Set<Int64> = []
  /// The first commit whose events the hub has not sent; nil if it has sent all that are not withheld.
  private var unsentCommit: Int?
  /// The waiters that the hub calls when it has sent them.
  private var hub: [Session.Waiter] = []
  /// The version of each request when it began to wait.
  private var waiting: [Int: Int] = [:]
  private var longReads = 0
  private let longReadsDone = Count()
  private var underWay: [(slot: Session.Slot, number: Int)] = []
  /// The commit of each write that has finished.
  private var commits: [Int: Int] = [:]
  /// The read whose reply has the version up to which the events are sent.
  private var current: Int?
  /// The round in which each request came.
  private var received: [Int] = []
  private(set) var answered = 0
  private var round = 0
  private(set) var seen = Seen()
  private(set) var problem: String?

  init(_ session: consuming Session, seed: UInt64) {
    self.session = session
    random = SeededGenerator(seed: seed)
  }

  /// The most requests that have no reply.
  static let outstandingMax = 4

  private mutating func fail(_ text: String) {
    problem = problem ?? text
  }

  /// Commits, requests, and a catch-up after which the client reads everything.
  mutating func step() {
    round += 1
    commit()
    finishSome()
    // The client has read all events, and further commits may be withheld already.
    session.setUnsent(bytes: 0, isWritable: true)
    for _ in 0..<Int.random(in: 0...2, using: &random) { receive() }
    if random.oneIn(8) { readLong() }
    perform()
    if random.oneIn(2) { commit() }
    sendEvents()
    catchUp()
    sendEvents()
    if let first = received.indices.contains(answered) ? received[answered] : nil,
      round - first > 25 * Self.outstandingMax
    {
      fail("request \(answered) is not answered after \(round - first) rounds")
    }
  }

  /// Lets everything end, without further commits.
  mutating func end() {
    for _ in 0..<100 where problem == nil {
      while !underWay.isEmpty { finishSome() }
      session.setUnsent(bytes: 0, isWritable: true)
      perform()
      catchUp()
      sendEvents()
    }
    if answered != received.count { fail("\(answered) of \(received.count) were answered") }
    if longReadsDone.value != longReads {
      fail("\(longReadsDone.value) of \(longReads) long reads have a root")
    }
    seen.longReads = longReads
  }

  private mutating func commit() {
    version += 1
    guard session.isBehind || random.oneIn(2) else {
      unsentCommit = unsentCommit ?? version
      return
    }
    // The events before a commit that is withheld were sent.
    unsentCommit = nil
    for number in [1, 2] as [Int64] where number == 1 || random.oneIn(2) {
      if reached[number] == nil { reached[number] = version - 1 }
      withheld[number] = version
      _ = session.withhold(from: number, bytes: 1, grown: 1, unsent: version, at: 0)
    }
  }

  // MARK: The hub

  /// Returns whether all events are sent.
  private mutating func drain() -> Bool {
    if session.isBehind { return false }
    if random.oneIn(2) { unsentCommit = nil }
    return unsentCommit == nil
  }

  private mutating func wait(_ waiter: Session.Waiter, _ number: Int) {
    seen.waits += 1
    waiting[number] = version
    session.beginWaiting(waiter)
    waitForHub(waiter)
  }

  private mutating func waitForHub(_ waiter: Session.Waiter) {
    if !session.keepIfBehind(waiter) { hub.append(waiter) }
  }

  /// The hub sends its events, and then calls its waiters.
  private mutating func sendEvents() {
    guard random.oneIn(2) else { return }
    unsentCommit = nil
    let waiters = hub
    hub = []
    for waiter in waiters where !session.keepIfBehind(waiter) { resume(waiter, at: version) }
  }

  private mutating func resume(
    _ waiter: Session.Waiter, at version: Int, byCatchUp isByCatchUp: Bool = false
  ) {
    if session.isBehind { fail("a waiter is resumed while commits are withheld") }
    if !session.endWaiting(waiter) { fail("the connection has ended") }
    let before = answered
    switch waiter {
    case .read(let request, let slot):
      let number = self.number(of: request)
      noteResumption(of: number, at: version)
      guard session.answersNow(request) else {
        if isByCatchUp { fail("read \(number) is not answered in the version of the catch-up") }
        session.finish(slot, Session.Completion(.null))
        break
      }
      session.markReplyAsCurrent()
      current = number
      session.finish(slot, Session.Completion(.json(.number(Int64(number)))))
      perform()
      if answered == before { fail("the reply to read \(number) is sent later") }
    case .reply(.json(.number(let number))):
      noteResumption(of: Int(number), at: version)
      reply(Int(number))
    case .longRead(let body): body(.absent)
    default: fail("\(waiter) has not waited")
    }
    perform()
  }

  private mutating func noteResumption(of number: Int, at version: Int) {
    guard let first = waiting.removeValue(forKey: number) else {
      return fail("\(number) has not waited")
    }
    if first > version { fail("\(number) is of version \(version), and waited for \(first)") }
  }

  private mutating func catchUp() {
    if !session.planCatchUp(unsentEventBytes: 0) { fail("another catch-up has not ended") }
    if session.planCatchUp(unsentEventBytes: 0) { fail("a catch-up begins within another one") }
    if session.isBehind { perform() }
    var taken = version
    if session.beginCatchUp() {
      // More may happen before the version is taken.
      if random.oneIn(2) { commit() }
      finishSome()
      taken = version
      if !random.oneIn(8) { deliver(at: taken) }
    }
    session.setUnsent(bytes: 1, unencoded: 1, isWritable: true)
    finishSome()
    let waiters = session.endCatchUp()
    for waiter in waiters where !session.keepIfBehind(waiter) {
      seen.resumed += 1
      resume(waiter, at: taken, byCatchUp: true)
    }
    session.finishCatchUp()
    for waiter in session.takeWaiters() {
      if unsentCommit == nil, !session.isBehind {
        resume(waiter, at: version)
      } else {
        waitForHub(waiter)
      }
    }
    perform()
  }

  /// The subscriptions get the commits that were withheld from them, as far as there is room.
  private mutating func deliver(at taken: Int) {
    var isFirst = true
    while true {
      let bytes = !isFirst && random.oneIn(4) ? Int.max : 0
      let withheld = withheld
      let next = session.nextToCatchUp(unsentEventBytes: bytes) {
        withheld[$0].map { $0 <= taken } ?? false
      }
      if isFirst, left.isEmpty { left = Set(reached.keys) }
      isFirst = false
      guard let number = next else { break }
      if reached.removeValue(forKey: number) == nil { fail("\(number) was not behind") }
      self.withheld[number] = nil
      let mayGoOn = left.contains { $0 != number && withheld[$0].map { $0 <= taken } ?? false }
      if left.remove(number) == nil, mayGoOn { fail("\(number) precedes \(left)") }
      // A client that reads gets another commit.
      if random.oneIn(4) { commit() }
    }
    left.formIntersection(reached.keys)
    seen.left += left.count
  }

  // MARK: Requests

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

  /// A read on another thread asks for the root of the tree.
  private mutating func readLong() {
    longReads += 1
    let done = longReadsDone
    if drain() { return done.value += 1 }
    let waiter = Session.Waiter.longRead { _ in done.value += 1 }
    session.beginWaiting(waiter)
    waitForHub(waiter)
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
      case .read(let request): read(request)
      case .readAgain(let request):
        seen.readAgain += 1
        read(request)
      case .begin(.write(.blog(.rename(let name))), let slot):
        underWay.append((slot, Int(name) ?? -1))
      case .send(.json(.number(let number))):
        if session.isBehind {
          seen.covered += 1
        } else if current != Int(number) {
          fail("\(number) does not follow the events before it")
        }
        reply(Int(number))
      case .sendAfterEvents(.json(.number(let number))):
        if session.isBehind { fail("\(number) waits without need") }
        if current == Int(number) { fail("\(number) is older than the events before it") }
        if drain() {
          reply(Int(number))
        } else {
          wait(.reply(.json(.number(number))), Int(number))
        }
      case .setReading: break
      default: fail("an unexpected action: \(action)")
      }
    }
  }

  private mutating func read(_ request: ReadRequest) {
    let number = self.number(of: request)
    if drain() {
      reply(number)
    } else {
      wait(.read(request, session.postponeRead(request)), number)
    }
  }

  private func number(of request: ReadRequest) -> Int {
    if case .help(let verb?) = request { Int(verb) ?? -1 } else { -1 }
  }

  private mutating func reply(_ number: Int) {
    if number != answered { fail("\(number) was answered, not \(answered)") }
    answered += 1
    if current == number { current = nil }
    guard let commit = commits[number] else { return }
    if let known = reached.values.min(), known < commit {
      fail("the reply to write \(number) precedes the events of its commit")
    }
    if let unsentCommit, unsentCommit <= commit {
      fail("the reply to write \(number) precedes events that the hub has not sent")
    }
  }
}
