import CanopyEngine
import CanopyTesting
import CanopyTree
import CanopyWire

@testable import CanopySession

/// A connection without a transport: performs the actions of a session in memory, in a random order, and checks after
/// every step that the session keeps its promises.
///
/// The requests have the numbers 0, 1, 2 and so on. The model knows four things: how many requests were received and
/// answered, which are under way, the user, and the on-disconnect writes. Replies come in the order of the requests. The
/// writes are made once, after the end of the connection.
struct SessionModel: ~Copyable {
  /// A request that is under way.
  private struct Running {
    enum Kind: Equatable {
      case write
      case read
      case login
      case arming(isCancellation: Bool)
      case quit

      var isArming: Bool { if case .arming = self { true } else { false } }
    }

    let slot: Session.Slot
    let number: Int
    let kind: Kind
    /// The on-disconnect writes when it began.
    let armed: [ArmedWrite]
  }

  /// The events that a run has had, so that a test can show that it checks something.
  struct Seen: Equatable {
    var madeWrites = 0
    var cancelledWrites = 0
    /// On-disconnect writes that were stored after the end of the connection.
    var lateWrites = 0
    var changesOfUser = 0
    var stops = 0
    /// Calls from within an action.
    var nestedCalls = 0
    /// Losses of the transport while requests were under way, and while requests waited.
    var lossesWithRequests = 0
    var lossesWithWaiting = 0
  }

  private static let nobody = "nobody"
  private static let administrator = "administrator"
  private static let readBytes = ReadRequest.help(verb: "1").memoryBytes

  private var session: Session
  private var random: SeededGenerator
  private let limits: Limits
  private let write: Write
  /// The connection ends in about so many steps.
  private let stepsToEnd: Int

  // The client's requests, its user, and its on-disconnect writes.
  private var received = 0
  private var answered = 0
  private var underWay: [Running] = []
  private var user = SessionModel.nobody
  private var armed: Set<DisconnectWriteID> = []
  /// The number of calls that make on-disconnect writes and have no outcome.
  private var carryOuts = 0
  /// The reason that the client is to get when the connection closes.
  private var reason: String?

  // The transport and the server.
  private var unsent = 0
  private var isReading = true
  private var hasStopped = false
  private var isCut = false
  private var hasClosed = false
  private var isLost = false
  /// The number of calls that are performing actions.
  private var depth = 0
  /// The logins that the session has got and not released.
  private var held: [UserSession] = []

  private(set) var seen = Seen()
  /// The first broken promise; nil for none.
  private(set) var problem: String?

  init(_ limits: Limits, seed: UInt64) throws {
    write = try Write.set(Location(.root), WriteValue(1))
    self.limits = limits
    session = Session(limits: limits)
    random = SeededGenerator(seed: seed)
    stepsToEnd = random.pick([10, 100, 1_000])
  }

  /// Whether the connection has ended, so that nothing more is answered.
  private var isOver: Bool { isCut || hasClosed || isLost }

  /// Whether no more requests are accepted.
  private var isEnding: Bool { hasStopped || isOver }

  private mutating func fail(_ text: String) {
    problem = problem ?? text
  }

  // MARK: Steps

  mutating func step() {
    switch Int.random(in: 0..<12, using: &random) {
    case 0...4: receive()
    case 5...6: finishOne()
    case 7: setWritable(Bool.random(using: &random))
    case 8: drain()
    case 9:
      endCarryOut()
      perform()
    case 10: if oneIn(stepsToEnd) { stop() }
    default:
      if oneIn(stepsToEnd) { lose() }
      if oneIn(2 * stepsToEnd) { cut() }
    }
    check()
  }

  /// Lets everything end. When the input has ended and all is answered and sent, nothing waits. When the transport is gone
  /// and all requests under way have ended, nothing is left.
  mutating func end() {
    if Bool.random(using: &random) {
      if !isEnding { reason = "the input ends" }
      session.endInput(because: WireError(.overloaded, "the input ends"))
    } else {
      stop()
    }
    for _ in 0..<10_000 where !hasClosed && !isLost && problem == nil {
      setWritable(true)
      drain()
      finishOne()
      perform()
      check()
    }
    drain()
    if !isLost, !isCut {
      if !hasClosed { fail("the session did not close") }
      if answered != received { fail("\(answered) of \(received) were answered") }
      if session.ledger.total != session.ledger.logins { fail("bytes are left: \(session.ledger)") }
    }
    lose()
    while !underWay.isEmpty, problem == nil {
      finishOne()
      check()
    }
    if !armed.isEmpty { fail("the on-disconnect writes \(armed.sorted()) were not made") }
    let ledger = session.ledger
    if ledger.requests + ledger.armed + ledger.logins != 0 { fail("bytes are left: \(ledger)") }
    while carryOuts > 0 {
      if !session.hasUnfinishedChanges { fail("on-disconnect writes have no outcome") }
      endCarryOut()
    }
    if session.hasUnfinishedChanges { fail("a request never ends") }
  }

  private mutating func oneIn(_ count: Int) -> Bool {
    Int.random(in: 0..<count, using: &random) == 0
  }

  private mutating func receive() {
    // A request after the end must be dropped: nothing with the number -1 may begin or be answered.
    guard session.wantsInput || (isEnding && oneIn(4)) else { return }
    let number = isEnding ? -1 : received
    if !isEnding { received += 1 }
    let bytes = Int.random(in: 1...limits.requestBytesMax / 3, using: &random)
    let text = "\(number)"
    switch Int.random(in: 0..<8, using: &random) {
    case 0: session.receive(.read(.help(verb: text)), bytes: bytes)
    case 1...2: session.receive(.write(.blog(.rename(username: text))), bytes: bytes)
    case 3: session.receive(.account(.authenticate(token: text)), bytes: bytes)
    case 4...5:
      let set = DisconnectRequest.set(Location(.root), WriteValue(1))
      session.receive(.connection(.onDisconnect(set, text: text)), bytes: bytes)
    case 6:
      session.receive(.connection(.onDisconnect(.cancel(.root), text: text)), bytes: bytes)
    default:
      if oneIn(10) {
        session.receive(.connection(.quit), bytes: bytes)
      } else {
        session.refuse(WireError(.badRequest, text))
      }
    }
    perform()
  }

  private mutating func finishOne() {
    guard !underWay.isEmpty else { return }
    let running = underWay.remove(at: Int.random(in: underWay.indices, using: &random))
    var completion = Session.Completion(.json(.number(Int64(running.number))))
    switch running.kind {
    case .write, .read: break
    case .login: changeUser(&completion)
    case .arming(let isCancellation): changeArmed(&completion, of: running, isCancellation)
    case .quit:
      completion.closes = true
      // The requests after it are dropped.
      received = running.number + 1
      hasStopped = true
    }
    session.finish(running.slot, completion)
    checkChanges()
    perform()
  }

  /// On-disconnect writes that were made have an outcome.
  private mutating func endCarryOut() {
    guard carryOuts > 0 else { return }
    carryOuts -= 1
    session.endCarryOut()
  }

  /// Logs a user in or out, or refuses the login.
  private mutating func changeUser(_ completion: inout Session.Completion) {
    var next = user
    switch Int.random(in: 0..<5, using: &random) {
    case 0: return
    case 1: (next, completion.identity) = (SessionModel.nobody, .anonymous)
    case 2: (next, completion.identity) = (SessionModel.administrator, .administrator)
    default:
      let uid = random.pick(["ann", "bob"] as [Key])
      let login = UserSession(uid: uid, email: "", token: "t", expiresAt: .max)
      held.append(login)
      (next, completion.identity) = (uid.text, .user(login))
    }
    // A connection without a transport has no user.
    if isLost { return }
    if next != user { seen.changesOfUser += 1 }
    user = next
  }

  /// Stores an on-disconnect write, or cancels those with odd numbers, or refuses the request.
  private mutating func changeArmed(
    _ completion: inout Session.Completion, of running: Running, _ isCancellation: Bool
  ) {
    if oneIn(4) { return }
    var writes = running.armed
    if isCancellation {
      writes.removeAll { $0.id % 2 == 1 }
      seen.cancelledWrites += running.armed.count - writes.count
    } else {
      let id = DisconnectWriteID(running.number)
      writes.append(ArmedWrite(id: id, write: write, caller: nil, text: "SET / 1"))
      if isOver { seen.lateWrites += 1 }
    }
    armed = Set(writes.map(\.id))
    completion.armed = writes
  }

  private mutating func setWritable(_ isWritable: Bool) {
    guard !isLost else { return }
    session.setUnsent(bytes: unsent, isWritable: isWritable)
    perform()
  }

  private mutating func drain() {
    guard !isLost else { return }
    unsent = 0
    session.setUnsent(bytes: 0, isWritable: true)
    perform()
  }

  /// The server stops: it accepts no more requests.
  private mutating func stop() {
    guard !hasStopped else { return }
    seen.stops += 1
    hasStopped = true
    reason = "the server stops"
    session.endRequests(because: WireError(.overloaded, "the server stops"))
    perform()
  }

  /// The server ends the connection at once.
  private mutating func cut() {
    guard session.abandon(because: WireError(.overloaded, "it must end")) else { return }
    isCut = true
    reason = "it must end"
    perform()
    if !hasClosed, !isLost { fail("the session did not close at once") }
  }

  /// The transport is gone.
  private mutating func lose() {
    if !isLost, !hasClosed {
      if !underWay.isEmpty { seen.lossesWithRequests += 1 }
      if received - answered > underWay.count { seen.lossesWithWaiting += 1 }
    }
    isLost = true
    user = SessionModel.nobody
    session.lose()
    perform()
  }

  // MARK: Actions

  private mutating func perform() {
    session.beginPerforming()
    depth += 1
    if depth > 1 { seen.nestedCalls += 1 }
    defer {
      session.endPerforming()
      depth -= 1
      if session.isPerforming != (depth > 0) { fail("an action is performed at depth \(depth)") }
    }
    while let action = session.nextAction() {
      if depth > 1 {
        switch action {
        case .release, .carryOut: break
        case .close where isCut: break
        default: fail("\(action) came from within another action")
        }
      }
      if isOver { performAfterEnd(action) } else { performWhileOpen(action) }
      // The transport may be lost between two actions.
      if !isLost, oneIn(100 * stepsToEnd) { lose() }
    }
  }

  /// Performs an action after the connection has ended. It gives back logins and makes writes, and answers nothing.
  private mutating func performAfterEnd(_ action: Session.Action) {
    switch action {
    case .release(let login): release(login)
    case .carryOut(let writes, _):
      let ids = writes.map(\.id)
      if ids.count != armed.count || Set(ids) != armed {
        fail("the on-disconnect writes \(ids) were made, not \(armed.sorted())")
      }
      if underWay.contains(where: \.kind.isArming) { fail("a request may still change the writes") }
      armed = []
      carryOuts += 1
      seen.madeWrites += ids.count
    case .close where isCut && !hasClosed: close()
    default: fail("\(action) came after the end")
    }
  }

  private mutating func performWhileOpen(_ action: Session.Action) {
    switch action {
    case .read(.help(let text?)):
      if !underWay.isEmpty { fail("a read began beside others") }
      checkUser(text)
      if oneIn(4) {
        let slot = session.postponeRead(.help(verb: text))
        begin(slot, Int(text) ?? -1, .read)
      } else {
        reply(text, bytes: 100)
      }
    case .send(.failure(let error)): reply(error.sentence, bytes: 50)
    case .send(.json(.number(let number))): reply("\(number)", bytes: 200)
    case .begin(.write(.blog(.rename(let text))), let slot): begin(slot, Int(text) ?? -1, .write)
    case .begin(.account(.authenticate(let text)), let slot):
      begin(slot, Int(text) ?? -1, .login)
    case .begin(.connection(.onDisconnect(let request, let text)), let slot):
      let isCancellation = if case .cancel = request { true } else { false }
      begin(slot, Int(text) ?? -1, .arming(isCancellation: isCancellation))
    case .begin(.connection(.quit), let slot): begin(slot, answered, .quit)
    case .setReading(let value):
      if value == isReading { fail("reading was set to what it is") }
      isReading = value
    case .release(let login): release(login)
    case .close: close()
    default: fail("an unexpected action: \(action)")
    }
  }

  private mutating func close() {
    hasClosed = true
    if session.endReason?.sentence != reason {
      fail("the client gets \(session.endReason?.sentence ?? "no reason"), not \(reason ?? "none")")
    }
  }

  private mutating func begin(_ slot: Session.Slot, _ number: Int, _ kind: Running.Kind) {
    if kind != .write, !underWay.isEmpty || number != answered {
      fail("\(number) began before all earlier requests were answered")
    }
    if underWay.contains(where: { $0.kind != .write }) { fail("\(number) began beside one alone") }
    if number < answered { fail("\(number) began after its reply") }
    checkUser("\(number)")
    underWay.append(Running(slot: slot, number: number, kind: kind, armed: session.armed))
  }

  private mutating func reply(_ number: String, bytes: Int) {
    // The front end may be called from within: no other reply comes before this one is sent.
    if oneIn(4) {
      if oneIn(stepsToEnd) { cut() } else { perform() }
    }
    if Int(number) != answered { fail("\(number) was answered, not \(answered)") }
    if underWay.contains(where: { $0.number == answered }) { fail("\(number) is still under way") }
    answered += 1
    if unsent >= limits.unreadReplyBytesMax { fail("a reply came although too much is unsent") }
    unsent += bytes
    session.setUnsent(bytes: unsent, isWritable: true)
  }

  private mutating func release(_ login: UserSession) {
    guard let index = held.firstIndex(where: { $0 === login }) else {
      return fail("a login was released twice")
    }
    held.remove(at: index)
  }

  /// Checks that a request begins as the user of the last login before it.
  private mutating func checkUser(_ number: String) {
    let name: String =
      switch session.identity {
      case .anonymous: SessionModel.nobody
      case .administrator: SessionModel.administrator
      case .user(let login): login.uid.text
      }
    if name != user { fail("\(number) began as \(name), not as \(user)") }
  }

  // MARK: Checks

  /// Checks that on-disconnect writes count as changes until they have an outcome.
  private mutating func checkChanges() {
    if isOver, !armed.isEmpty || carryOuts > 0, !session.hasUnfinishedChanges {
      fail("\(armed.sorted()) and \(carryOuts) calls do not count as changes")
    }
  }

  private mutating func check() {
    checkChanges()
    if session.isAtRest, let action = session.nextAction() {
      fail("\(action) came from a session at rest")
    }
    checkUser("nothing")
    let hasLogin = user != SessionModel.nobody && user != SessionModel.administrator
    if held.count != (hasLogin ? 1 : 0) { fail("\(user) holds \(held.count) logins") }
    if Set(session.armed.map(\.id)) != armed { fail("\(session.armed.count) writes are armed") }
    if (session.ledger.armed == 0) != armed.isEmpty { fail("the armed writes are not charged") }
    if isEnding, session.wantsInput { fail("input is wanted after the end") }
    let ledger = session.ledger
    // One request may exceed the bound, and a refusal is charged with 256 bytes. A postponed read is charged again.
    let postponed = underWay.contains { $0.kind == .read } ? SessionModel.readBytes : 0
    let bytesMax = limits.requestBytesMax + max(limits.requestBytesMax / 3, 256) + postponed
    if ledger.requests > bytesMax { fail("\(ledger.requests) bytes of requests are held") }
    if ledger.unsent > limits.unreadReplyBytesMax + 200 {
      fail("\(ledger.unsent) bytes are unsent")
    }
    if !hasClosed, !isLost, received - answered > limits.outstandingRequestsMax {
      fail("\(received - answered) requests are outstanding")
    }
    if !isEnding, session.takesInput, isReading != session.wantsInput {
      fail("reading is \(isReading), and input wanted \(session.wantsInput)")
    }
  }
}
