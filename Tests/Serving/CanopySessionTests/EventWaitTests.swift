import CanopyTree
import CanopyWire
import Testing

@testable import CanopySession

/// A connection that waits until the events before a reply are sent.
struct EventWaitTests {
  /// Performs the actions of a session, which must be these.
  private static func expect(_ expected: [String], of session: inout Session) {
    var names: [String] = []
    while let action = session.nextAction() {
      switch action {
      case .read: names.append("read")
      case .begin: names.append("begin")
      case .send, .sendAfterEvents: names.append("send")
      case .close: names.append("close")
      default: break
      }
    }
    #expect(names == expected)
  }

  @Test func `no request begins, no reply is sent and nothing closes before the last wait ends`() {
    var session = Session(limits: Limits())
    session.receive(.read(.help(verb: nil)), bytes: 10)
    Self.expect(["read"], of: &session)
    session.receive(.read(.help(verb: nil)), bytes: 10)
    Self.expect(["read"], of: &session)
    let slot = session.postponeRead(.help(verb: nil))
    let read = Session.Waiter.read(.help(verb: nil), slot)
    let reply = Session.Waiter.reply(.null)
    session.beginWaiting(read)
    session.beginWaiting(reply)
    session.receive(.read(.help(verb: nil)), bytes: 10)
    session.finish(slot, Session.Completion(.null))
    session.endInput()
    #expect(!session.wantsInput && !session.readsAtOnce(.help(verb: nil)))
    Self.expect([], of: &session)
    var goesOn = session.endWaiting(read)
    #expect(goesOn)
    Self.expect([], of: &session)
    goesOn = session.endWaiting(reply)
    #expect(goesOn)
    Self.expect(["send", "read", "close"], of: &session)
  }

  @Test func `when the connection has ended, nothing goes on but a read on another thread`() {
    var session = Session(limits: Limits())
    session.beginWaiting(.reply(.null))
    session.beginWaiting(.longRead { _ in })
    session.lose()
    let replies = session.endWaiting(.reply(.null))
    let reads = session.endWaiting(.longRead { _ in })
    #expect(!replies && reads)
  }

  @Test func `a connection whose last reply waits for events does not close`() {
    var session = Session(limits: Limits())
    session.beginWaiting(.reply(.null))
    session.endInput()
    Self.expect([], of: &session)
    let goesOn = session.endWaiting(.reply(.null))
    #expect(goesOn)
    Self.expect(["close"], of: &session)
  }
}
