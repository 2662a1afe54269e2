import CanopyEngine
import CanopyTesting
import CanopyTree
import CanopyWire
import Testing

@testable import CanopySession

/// The bytes of logins in the ledger of a connection.
struct LoginLedgerTests {
  private func login(_ uid: Key, tokenBytes: Int, claimBytes: Int = 0) -> UserSession {
    let claims = Node(children: [("c", Node(String(repeating: "c", count: claimBytes)))])
    return UserSession(
      uid: uid, email: "", token: String(repeating: "t", count: tokenBytes), expiresAt: .max,
      auth: claims)
  }

  private func become(_ identity: Identity, _ session: inout Session) throws {
    session.receive(.account(.logOut), bytes: 0)
    guard case .begin(_, let slot)? = session.nextAction() else {
      throw WireError(.internalError, "the request did not begin")
    }
    session.finish(slot, Session.Completion(.null, identity: identity))
    while session.nextAction() != nil {}
  }

  @Test func `a login counts with its token and its claims until another replaces it`() throws {
    let (small, large) = (
      login("a", tokenBytes: 43), login("b", tokenBytes: 4_000, claimBytes: 3_000)
    )
    #expect(small.memoryBytes > 2_048 + 43 && small.memoryBytes < 2_200)
    // An empty text counts as a few bytes.
    let claimBytes = large.memoryBytes - small.memoryBytes - 3_957
    #expect((4 * 2_980...4 * 3_000).contains(claimBytes), "\(claimBytes)")
    var session = Session(limits: Limits())
    try become(.user(small), &session)
    #expect(session.ledger.logins == small.memoryBytes)
    #expect(session.ledger.total == small.memoryBytes)
    try become(.user(large), &session)
    #expect(session.ledger.logins == large.memoryBytes)
    try become(.administrator, &session)
    #expect(session.ledger.logins == 0)
    try become(.user(small), &session)
    session.lose()
    #expect(session.ledger.total == 0)
  }

  @Test func `an earlier login counts once while on-disconnect writes of it wait`() throws {
    let (first, second) = (login("a", tokenBytes: 4_000), login("b", tokenBytes: 43))
    let registry = SessionRegistry()
    let armed = try (1...2).map { number in
      ArmedWrite(
        id: DisconnectWriteID(number), write: try Write.set(Location("n"), WriteValue(1)),
        caller: first.caller, session: ArmedSession(first, in: registry), text: "SET /n 1")
    }
    var session = Session(limits: Limits())
    try become(.user(first), &session)
    session.setArmed(armed)
    #expect(session.ledger.logins == first.memoryBytes)
    try become(.user(second), &session)
    #expect(session.ledger.logins == first.memoryBytes + second.memoryBytes)
    session.setArmed([])
    #expect(session.ledger.logins == second.memoryBytes)
  }
}
