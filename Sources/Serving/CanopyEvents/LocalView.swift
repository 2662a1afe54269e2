package import CanopyEngine
package import CanopyTree
internal import DequeModule

/// The subscriptions on one loop with the same location, query and form.
package final class LocalView {
  package let listening: Listening
  /// Views are notified of a commit in the order of their numbers.
  package let number: Int
  /// Encodes the events.
  let encoder: EventEncoder
  /// Subscriptions that wait for the engine to begin.
  package var starting = 0
  private var subscriptions: [HubSubscription] = []
  /// The last commit that was withheld first, until `forgetWithheld`.
  private var lastWithheld: FirstWithheld?
  /// The number of subscriptions of each protocol.
  private var formats = EventFormat.Counts()

  package init(_ listening: Listening, _ limits: Limits, number: Int) {
    self.listening = listening
    self.number = number
    encoder = EventEncoder(listening, limits)
  }

  package var count: Int { subscriptions.count }

  package var isUnused: Bool { starting == 0 && subscriptions.isEmpty }

  package func add(_ subscription: HubSubscription) {
    subscription.view = self
    subscription.index = subscriptions.count
    subscriptions.append(subscription)
    formats[subscription.format] += 1
  }

  package func remove(_ subscription: HubSubscription) {
    let index = subscription.index
    guard subscriptions.indices.contains(index), subscriptions[index] === subscription else {
      return
    }
    // The last subscription fills the gap: the order has no meaning.
    subscriptions.swapAt(index, subscriptions.count - 1)
    subscriptions[index].index = index
    subscriptions.removeLast()
    formats[subscription.format] -= 1
    assert(formats[subscription.format] >= 0, "a view has lost count of its subscriptions")
  }

  /// Returns the commit as the first one that is withheld from a subscription. It is made once for all subscriptions.
  ///
  /// - Complexity: that of `FirstWithheld.init` for the first of them, else O(1).
  func firstWithheld(_ change: CommittedChange) -> FirstWithheld {
    if let last = lastWithheld, last.commit === change { return last }
    let first = FirstWithheld(change, of: listening)
    lastWithheld = first
    return first
  }

  /// Keeps the result of work on another thread, for `firstWithheld`.
  func keep(_ first: FirstWithheld) {
    lastWithheld = first
  }

  /// Releases the memory of the last commit that was withheld first, when all subscriptions have it.
  func forgetWithheld() {
    lastWithheld = nil
  }

  /// Returns a delivery of notifications, in order, to all subscriptions.
  ///
  /// - Parameters:
  ///   - notifications: each with its commit, as other loops release that of the notification.
  ///   - engine: says which authorizations to check; nil to check none.
  ///   - checked: the verdicts of the hub about the last commit.
  func delivery(
    of notifications: some Sequence<ViewDelivery.Item>, in engine: Engine?,
    checked: CheckedVerdicts = CheckedVerdicts()
  ) -> ViewDelivery {
    ViewDelivery(
      Deque(notifications), to: subscriptions, isMixed: formats.areSeveral, of: self, in: engine,
      checked: checked)
  }

  /// Returns the text about a commit in a protocol. It is made once for all loops.
  ///
  /// - Parameter prepared: the text, if it was made on another thread.
  func encoded(
    _ notification: Notification, in format: EventFormat, _ prepared: EventEncoder.Encoded? = nil
  ) -> EventEncoder.Encoded {
    let encoded = prepared ?? encoder.encoded(notification, in: format)
    // The events may wait for a client for long. They must not keep versions of the whole tree.
    notification.releaseChange()
    return encoded
  }
}

/// A commit that is the first one to be withheld from a subscription.
struct FirstWithheld: Sendable {
  let commit: CommittedChange
  /// The commits that are withheld: this one; nil if the query selects too many children.
  let changes: WithheldChanges?
  /// See `WithheldChanges.append`; nil if the query selects too many children.
  let bytes: Int?

  /// - Complexity: that of `WithheldChanges.init` and of `WithheldChanges.append`.
  init(_ commit: CommittedChange, of listening: Listening) {
    var changes = WithheldChanges(before: commit, for: listening)
    bytes = changes?.append(commit)
    self.changes = changes
    self.commit = commit
  }
}
