import CanopyTesting
import CanopyTree
import CanopyWire
import Testing

@testable import CanopySession

struct SessionModelTests {
  @Test func `a session keeps its promises whatever comes in whatever order, and however it ends`()
    throws
  {
    var random = SeededGenerator(printingSeedFor: "SessionModelTests")
    var seen: [SessionModel.Seen] = []
    for _ in 0..<400 {
      var limits = Limits()
      limits.outstandingRequestsMax = Int.random(in: 1...8, using: &random)
      limits.requestBytesMax = Int.random(in: 3...10_000, using: &random)
      limits.unreadReplyBytesMax = Int.random(in: 1...1_000, using: &random)
      let seed = random.next()
      var model = try SessionModel(limits, seed: seed)
      for _ in 0..<300 where model.problem == nil { model.step() }
      model.end()
      #expect(model.problem == nil, "seed \(seed): \(model.problem ?? "")")
      if model.problem != nil { return }
      seen.append(model.seen)
    }
    // The runs have everything that the model checks.
    for count: KeyPath<SessionModel.Seen, Int> in [
      \.madeWrites, \.cancelledWrites, \.lateWrites, \.changesOfUser, \.stops, \.nestedCalls,
      \.lossesWithRequests, \.lossesWithWaiting,
    ] {
      #expect(seen.contains { $0[keyPath: count] > 0 }, "\(count)")
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

  @Test
  func `a write that is armed after the loss of its connection is unfinished until it is made`()
    throws
  {
    var session = Session(limits: Limits())
    let set = DisconnectRequest.set(Location(.root), WriteValue(1))
    session.receive(.connection(.onDisconnect(set, text: "SET / 1")), bytes: 10)
    guard case .begin(_, let slot)? = session.nextAction() else {
      Issue.record("the request does not begin")
      return
    }
    session.lose()
    var isUnfinished = session.hasUnfinishedChanges
    #expect(isUnfinished, "the request is under way")
    var completion = Session.Completion(.null)
    let write = try Write.set(Location(.root), WriteValue(1))
    completion.armed = [ArmedWrite(id: 1, write: write, caller: nil, text: "SET / 1")]
    session.finish(slot, completion)
    isUnfinished = session.hasUnfinishedChanges
    #expect(isUnfinished, "the write is to be made")
    guard case .carryOut? = session.nextAction() else {
      Issue.record("the write is not made")
      return
    }
    isUnfinished = session.hasUnfinishedChanges
    #expect(isUnfinished, "the write is under way")
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
