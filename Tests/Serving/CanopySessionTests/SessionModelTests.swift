import CanopyEngine
import CanopyTesting
import CanopyTree
import CanopyWire
import Testing

@testable import CanopySession

/// A connection without a transport: performs the actions of a session in memory, in a random order, and
/// checks after every step that the session keeps its promises.
private struct SessionModel: ~Copyable {
  var session: Session
  private var random: SeededGenerator
  private let limits: Limits
  /// The numbers of the requests that were received, answered, and are under way.
  private(set) var received = 0
  private(set) var answered = 0
  private var underWay: [(slot: Session.Slot, number: Int, isWrite: Bool)] = []
  private var unsent = 0
  private(set) var isReading = true
  private(set) var hasClosed = false
  private var carriedOut = 0
  private(set) var problem: String?

  init(_ limits: Limits, seed: UInt64) {
    self.limits = limits
    session = Session(limits: limits)
    random = SeededGenerator(seed: seed)
  }

  mutating func step() {
    switch Int.random(in: 0..<10, using: &random) {
    case 0...4: receive()
    case 5...6: finishOne()
    case 7: setWritable(Bool.random(using: &random))
    case 8: drain()
    default: perform()
    }
    check()
  }

  /// Lets everything end: nothing waits when input has ended and all is answered and sent.
  mutating func end() {
    session.endInput()
    for _ in 0..<10_000 where !hasClosed && problem == nil {
      setWritable(true)
      drain()
      finishOne()
      perform()
      check()
    }
    drain()
    if !hasClosed { problem = problem ?? "the session did not close" }
    if answered != received { problem = problem ?? "\(answered) of \(received) were answered" }
    if session.ledger.total != 0 { problem = problem ?? "bytes are left: \(session.ledger)" }
  }

  private mutating func receive() {
    guard session.wantsInput else { return }
    let number = received
    received += 1
    let bytes = Int.random(in: 1...limits.requestBytesMax / 3, using: &random)
    switch Int.random(in: 0..<4, using: &random) {
    case 0: session.receive(.read(.help(verb: "\(number)")), bytes: bytes)
    case 1: session.receive(.write(.blog(.rename(username: "\(number)"))), bytes: bytes)
    case 2: session.receive(.account(.authenticate(token: "\(number)")), bytes: bytes)
    default: session.refuse(WireError(.badRequest, "\(number)"))
    }
    perform()
  }

  private mutating func perform() {
    while let action = session.nextAction() {
      if hasClosed { problem = "an action came after the close" }
      switch action {
      case .read(.help(let verb?)):
        if !underWay.isEmpty { problem = "a read began beside others" }
        reply(verb, bytes: 100)
      case .send(.failure(let error)): reply(error.sentence, bytes: 50)
      case .send(.json(.number(let number))): reply("\(number)", bytes: 200)
      case .begin(.write(.blog(.rename(let number))), let slot): begin(slot, number, isWrite: true)
      case .begin(.account(.authenticate(let number)), let slot):
        if !underWay.isEmpty { problem = "an account request began beside others" }
        begin(slot, number, isWrite: false)
      case .setReading(let value):
        if value == isReading { problem = "reading was set to what it is" }
        isReading = value
      case .close: hasClosed = true
      default: problem = "an unexpected action: \(action)"
      }
    }
  }

  private mutating func begin(_ slot: Session.Slot, _ number: String, isWrite: Bool) {
    if underWay.contains(where: { !$0.isWrite }) { problem = "\(number) began beside an exclusive" }
    underWay.append((slot, Int(number) ?? -1, isWrite))
  }

  private mutating func reply(_ number: String, bytes: Int) {
    if Int(number) != answered { problem = "\(number) was answered, not \(answered)" }
    answered += 1
    if unsent >= limits.unreadReplyBytesMax { problem = "a reply came although too much is unsent" }
    unsent += bytes
    session.setUnsent(bytes: unsent, isWritable: true)
  }

  private mutating func finishOne() {
    guard !underWay.isEmpty else { return }
    let index = Int.random(in: underWay.indices, using: &random)
    let (slot, number, _) = underWay.remove(at: index)
    session.finish(slot, Session.Completion(.json(.number(Int64(number)))))
    perform()
  }

  private mutating func setWritable(_ isWritable: Bool) {
    session.setUnsent(bytes: unsent, isWritable: isWritable)
    perform()
  }

  private mutating func drain() {
    unsent = 0
    session.setUnsent(bytes: 0, isWritable: true)
    perform()
  }

  private mutating func check() {
    let ledger = session.ledger
    // One request may exceed the bound, and a refusal is charged with 256 bytes.
    if ledger.requests > limits.requestBytesMax + max(limits.requestBytesMax / 3, 256) {
      problem = problem ?? "\(ledger.requests) bytes of requests are held"
    }
    if ledger.unsent > limits.unreadReplyBytesMax + 200 {
      problem = problem ?? "\(ledger.unsent) bytes are unsent"
    }
    if received - answered > limits.outstandingRequestsMax {
      problem = problem ?? "\(received - answered) requests are outstanding"
    }
    if !hasClosed, session.takesInput, isReading != session.wantsInput {
      problem = problem ?? "reading is \(isReading), and input wanted \(session.wantsInput)"
    }
  }
}

struct SessionModelTests {
  @Test func `a session keeps order and bounds whatever comes in whatever order`() {
    var random = SeededGenerator(printingSeedFor: "SessionModelTests")
    for _ in 0..<200 {
      var limits = Limits()
      limits.outstandingRequestsMax = Int.random(in: 1...8, using: &random)
      limits.requestBytesMax = Int.random(in: 3...10_000, using: &random)
      limits.unreadReplyBytesMax = Int.random(in: 1...1_000, using: &random)
      let seed = random.next()
      var model = SessionModel(limits, seed: seed)
      for _ in 0..<300 where model.problem == nil { model.step() }
      model.end()
      #expect(model.problem == nil, "seed \(seed): \(model.problem ?? "")")
      if model.problem != nil { return }
    }
  }

  @Test func `a connection that is lost gives up its login and its writes once`() {
    var session = Session(limits: Limits())
    session.receive(.account(.authenticate(token: "t")), bytes: 10)
    guard case .begin(_, let slot)? = session.nextAction() else {
      Issue.record("the request does not begin")
      return
    }
    session.finish(slot, Session.Completion(.administrator, identity: .administrator))
    while session.nextAction() != nil {}
    guard case .administrator = session.identity else {
      Issue.record("the identity is not taken")
      return
    }
    session.lose()
    session.lose()
    while session.nextAction() != nil {}
    guard case .anonymous = session.identity else {
      Issue.record("the login is kept")
      return
    }
    #expect(!session.isOpen && !session.wantsInput)
  }

  @Test func `requests after QUIT are dropped, those before are answered`() {
    var session = Session(limits: Limits())
    session.receive(.write(.blog(.rename(username: "a"))), bytes: 10)
    guard case .begin(_, let write)? = session.nextAction() else {
      Issue.record("the write does not begin")
      return
    }
    session.receive(.connection(.quit), bytes: 10)
    #expect(session.nextAction() == nil)
    session.finish(write, Session.Completion(.null))
    guard case .send(.json(.constant(let null)))? = session.nextAction(), "\(null)" == "null",
      case .begin(_, let quit)? = session.nextAction()
    else {
      Issue.record("the write is not answered, or QUIT does not begin")
      return
    }
    session.receive(.read(.ping), bytes: 10)
    var farewell = Session.Completion(.farewell)
    farewell.closes = true
    session.finish(quit, farewell)
    guard case .send(.json(.constant(let bye)))? = session.nextAction(), "\(bye)" == "\"BYE\"",
      case .close? = session.nextAction()
    else {
      Issue.record("the session does not close after its last reply")
      return
    }
    session.receive(.read(.ping), bytes: 10)
    #expect(session.nextAction() == nil)
    #expect(session.ledger.total == 0)
  }
}
