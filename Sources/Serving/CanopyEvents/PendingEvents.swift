package import CanopyEngine
package import NIOCore

/// The events that wait for an event loop, in order, with a bound on their memory.
///
/// A busy loop must not make the server keep the events of all commits. Beyond the bound the events of each
/// commit are replaced by the commit itself, from which the loop computes them later. If that is not enough, the
/// commits that wait between two calls are merged into one. The loop then sends the difference between the oldest
/// and the newest tree: clients miss intermediate values, but no change.
///
/// A call may begin a subscription. So nothing is merged across a call: the subscription gets the events after
/// its start, and the others get those before it.
///
/// - Complexity: `append` costs O(1) on average.
package struct PendingEvents {
  /// An event, in the order of the engine.
  package enum Event: Sendable {
    /// A change of one view. The commit is kept here because other loops release that of the notification.
    case notification(NIOLoopBound<LocalView>, Notification, CommittedChange?)
    /// A commit of which the loop searches the views itself.
    case change(CommittedChange)
    /// Anything else, in order with the changes.
    case call(@Sendable () -> Void)
  }

  /// An estimate of the memory for one event, without the values in it.
  package static let eventBytes = 1024

  package private(set) var events: [Event] = []
  /// An estimate of the memory for the events.
  package private(set) var bytes = 0
  private let bytesMax: Int
  /// The bytes beyond which the events are reduced: more than `bytesMax` if calls alone take as much.
  private var reducedAbove: Int
  /// The last commit that was in the list when it was reduced. The engine may still notify further views of it.
  private var reducedThrough: Int64 = 0

  package init(bytesMax: Int) {
    self.bytesMax = bytesMax
    reducedAbove = bytesMax
  }

  package var isEmpty: Bool { events.isEmpty }

  /// Appends an event, unless it is a notification of a commit that the list has as a whole already.
  package mutating func append(_ event: Event) {
    if case .notification(_, _, let change?) = event, change.sequence <= reducedThrough { return }
    events.append(event)
    bytes += PendingEvents.bytes(of: event)
    if bytes > reducedAbove { reduce() }
  }

  /// Moves all events of another list to the end.
  package mutating func append(takingFrom other: inout PendingEvents) {
    if events.isEmpty {
      swap(&self, &other)
    } else {
      events += other.events
      bytes += other.bytes
      other.removeAll()
      if bytes > reducedAbove { reduce() }
    }
  }

  /// Removes and returns all events.
  package mutating func take() -> [Event] {
    var taken: [Event] = []
    swap(&taken, &events)
    removeAll()
    return taken
  }

  private mutating func removeAll() {
    events.removeAll(keepingCapacity: true)
    bytes = 0
    reducedAbove = bytesMax
  }

  private static func bytes(of event: Event) -> Int {
    switch event {
    // The events of each view may be as large as the commit.
    case .notification(_, _, let change): eventBytes + (change?.heldBytes ?? 0)
    case .change(let change): eventBytes + change.heldBytes
    case .call: eventBytes
    }
  }

  private mutating func reduce() {
    replaceNotifications()
    // Half of the bound, so that reducing again takes as many further events.
    if bytes > bytesMax / 2 { mergeChanges() }
    reducedAbove = max(bytesMax, 2 * bytes)
  }

  /// Replaces the notifications of each commit by the commit.
  private mutating func replaceNotifications() {
    var last: CommittedChange?
    keep(
      events.filter { event in
        guard case .notification(_, _, let change?) = event else { return true }
        defer { last = change }
        return change !== last
      }.map { event in
        guard case .notification(_, _, let change?) = event else { return event }
        return .change(change)
      })
  }

  /// Merges the commits between two calls.
  private mutating func mergeChanges() {
    keep(PendingEvents.merged(events))
  }

  /// Returns events with the commits between two other events merged.
  static func merged(_ events: [Event]) -> [Event] {
    var kept: [Event] = []
    var changes: [CommittedChange] = []
    func mergeRun() {
      if changes.count == 1 { kept.append(.change(changes[0])) }
      if changes.count > 1 { kept.append(.change(CommittedChange(merging: changes))) }
      changes = []
    }
    for event in events {
      if case .change(let change) = event {
        changes.append(change)
      } else {
        mergeRun()
        kept.append(event)
      }
    }
    mergeRun()
    return kept
  }

  private mutating func keep(_ kept: [Event]) {
    events = kept
    for case .change(let change) in kept { reducedThrough = max(reducedThrough, change.sequence) }
    bytes = kept.reduce(0) { $0 + PendingEvents.bytes(of: $1) }
  }
}
