package import CanopyEngine
package import CanopyTree
package import CanopyWire
package import NIOCore
internal import Synchronization

/// A connection that receives events.
package protocol Subscriber: AnyObject {
  /// Returns whether events of a subscription are to be sent now.
  ///
  /// - Parameter bytes: the bytes of their text, and the memory of the values in them.
  func accepts(_ notifications: [Notification], bytes: ValueBytes, for subscription: Int64) -> Bool
  /// Appends the lines of events to the output.
  func send(events lines: ByteBuffer)
  /// Appends one line of an event to the output: a short part, and one that other subscribers get as well.
  func send(eventHead head: ByteBuffer, rest: ByteBuffer)
  /// Appends the lines of large events to the output.
  func send(events lines: LinePieces)
  /// Whether the events of the next commits are to be withheld, because the client reads slowly.
  var withholdsEvents: Bool { get }
  /// Keeps a commit from a subscription.
  func withhold(_ change: CommittedChange, from subscription: HubSubscription)
  /// Notes that the rules take many steps to allow a subscription an event, for which its hub waits.
  func noteLongCheck(of subscription: Int64)
  /// Ends a subscription that cannot go on.
  func cancel(_ subscription: Int64, _ code: WireError.Code)
}

/// A connection that always reads, and does not move to another hub.
extension Subscriber {
  package var withholdsEvents: Bool { false }

  package func withhold(_ change: CommittedChange, from subscription: HubSubscription) {}

  package func noteLongCheck(of subscription: Int64) {}
}

/// One subscription of a connection, as the hub keeps it.
package final class HubSubscription {
  /// The number on its connection.
  package let number: Int64
  /// Whether the rules decide about it.
  package let isAuthorized: Bool
  /// The protocol of the connection.
  package let format: EventFormat
  /// The number in the text of its events: that of the subscription, or the tag that its client has chosen.
  package let label: Int64
  /// The remote network of the connection; nil for this machine.
  let network: ByteString?
  /// The hub that delivers its events; nil between the two hubs of a move, and after its end.
  var hub: EventHub?
  /// The connection; nil when the subscription has ended.
  package internal(set) var subscriber: (any Subscriber)?
  package internal(set) var hasEnded = false
  package internal(set) var listener: ListenerID?
  /// The listener that begins at the engine; nil before and after.
  var start: StartingListenerID?
  /// The listener at the engine, and the inbox that gets its events. Nil before `EventHub.begin`.
  var registration: HubRegistration?
  /// The view in which it is, or will be when it has begun.
  var view: LocalView?
  /// The commits that are withheld, because the client reads slowly; nil if none is.
  var withheld: WithheldChanges?
  /// The place among the values of the shared hub; nil while its values do not count.
  var sharedValue: SharedValues.Place?
  var index = 0

  package init(
    number: Int64, isAuthorized: Bool, format: EventFormat = .line, label: Int64? = nil,
    network: String? = nil, subscriber: any Subscriber
  ) {
    self.network = network.map { ByteString($0) }
    self.format = format
    self.label = label ?? number
    self.number = number
    self.isAuthorized = isAuthorized
    self.subscriber = subscriber
  }

  /// Whether commits are withheld.
  package var isBehind: Bool { withheld != nil }

  /// Whether commits are withheld, and a version of the tree has all of them.
  package func mayCatchUp(to snapshot: Snapshot) -> Bool {
    withheld?.isContained(in: snapshot) ?? false
  }

  /// Adds a commit to those that are withheld. Returns the bytes by which the memory may have grown; nil if the commit
  /// cannot be withheld.
  package func withhold(_ change: CommittedChange) -> Int? {
    guard withheld == nil, let view else { return withheld?.append(change) }
    let first = view.firstWithheld(change)
    withheld = first.changes
    return first.bytes
  }
}

/// The listener of a subscription at the engine, and the inbox that gets its events. The engine's thread changes it, and
/// any thread may use it.
final class HubRegistration: Sendable {
  private struct State {
    var listener: ListenerID?
    var inbox: LoopInbox
  }

  private let state: Mutex<State>

  init(_ inbox: LoopInbox) {
    state = Mutex(State(inbox: inbox))
  }

  /// Notes the listener, when the engine has registered it.
  func begin(_ listener: ListenerID?) {
    state.withLock { $0.listener = listener }
  }

  /// Notes that another inbox gets the later events. Returns the listener; nil if there is none.
  func move(to inbox: LoopInbox) -> ListenerID? {
    state.withLock { state in
      state.inbox = inbox
      return state.listener
    }
  }

  /// Adds a call to the inbox that gets the events, in order with them.
  func call(_ body: @escaping @Sendable () -> Void) {
    state.withLock { $0.inbox }.collect(.call(body))
  }
}
