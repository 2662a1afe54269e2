internal import CanopyEngine
internal import CanopyWire
internal import DequeModule
internal import NIOCore

/// The delivery of notifications to subscriptions of one view, in steps.
///
/// Between two steps the event loop may do something else. So a view with many subscriptions, or with large events,
/// does not block the loop, and connections that take too much memory end before more is sent.
///
/// It encodes no more events than it delivers at once. So a subscriber that does not read ends before the next
/// events take memory.
final class ViewDelivery {
  /// Lines that all subscriptions get before the next ones are encoded.
  private enum Part {
    /// Events of successive commits.
    case lines([Notification], EventLines)
    /// The events of one commit, which are encoded for each subscription as it reads.
    case large(Notification, bytes: Int)
    /// The end of the subscriptions.
    case end(WireError.Code)
  }

  /// The cost of a step.
  struct Step {
    /// The bytes that were copied, and those of shared buffers that were handed over.
    var bytes = 0
    /// Whether events were encoded, which takes longer than sending them.
    var encodes = false
  }

  private let view: LocalView
  private var notifications: Deque<Notification>
  /// A copy, because a subscriber may end subscriptions meanwhile.
  private let subscriptions: [HubSubscription]
  /// The parts that are encoded.
  private var parts: Deque<Part> = []
  /// The subscription that gets the first part next.
  private var next = 0
  private var group = Group()
  /// The last lines with the number of a subscription. Most subscriptions are the first of their connection: then all
  /// of them share the same bytes.
  private var last: (number: Int64, bytes: ByteBuffer)?

  /// The bytes of events that are delivered together.
  private static let groupBytes = 64 * 1024

  /// Creates a delivery to some subscriptions of a view.
  init(
    _ notifications: Deque<Notification>, to subscriptions: [HubSubscription], of view: LocalView
  ) {
    self.view = view
    self.notifications = notifications
    self.subscriptions = subscriptions
  }

  /// Delivers everything at once.
  func finish() {
    while step() != nil {}
  }

  /// Encodes events, or sends a part to one subscription. Returns nil at the end.
  func step() -> Step? {
    guard let part = parts.first else { return encode() ? Step(encodes: true) : nil }
    guard subscriptions.indices.contains(next) else {
      parts.removeFirst()
      next = 0
      last = nil
      return Step()
    }
    let subscription = subscriptions[next]
    // A subscriber may lead to the next step.
    next += 1
    return Step(bytes: subscription.hasEnded ? 0 : send(part, to: subscription))
  }

  /// Encodes the next events. Returns whether there may be more to do.
  private func encode() -> Bool {
    guard let notification = notifications.popFirst() else {
      return addGroup()
    }
    // If all subscriptions have ended, no events are computed.
    guard subscriptions.contains(where: { !$0.hasEnded }) else {
      notifications.removeAll()
      group = Group()
      return false
    }
    switch view.encoded(notification) {
    case .lines(let lines):
      group.append(lines, of: notification)
      if group.bytes >= ViewDelivery.groupBytes { addGroup() }
    case .large(let bytes):
      addGroup()
      parts.append(.large(notification, bytes: bytes))
    case .failed(let error):
      addGroup()
      parts.append(.end(error.code))
    }
    return true
  }

  /// Returns whether there was anything to add.
  @discardableResult
  private func addGroup() -> Bool {
    defer { group = Group() }
    guard let first = group.lines.first else { return false }
    let lines = group.lines.count == 1 ? first : EventLines(joining: group.lines)
    parts.append(.lines(group.notifications, lines))
    return true
  }

  /// Returns the bytes that were sent.
  private func send(_ part: Part, to subscription: HubSubscription) -> Int {
    guard let subscriber = subscription.subscriber else { return 0 }
    let number = subscription.number
    switch part {
    case .lines(let notifications, let lines):
      let count = lines.byteCount(for: number)
      guard subscriber.accepts(notifications, bytes: count, for: number) else { return 0 }
      if let (head, rest) = lines.largeLine(for: number) {
        subscriber.send(eventHead: head, rest: rest)
      } else {
        let bytes = last?.number == number ? last?.bytes : nil
        let made = bytes ?? lines.bytes(for: number)
        last = (number, made)
        subscriber.send(events: made)
      }
      return count
    case .large(let notification, let bytes):
      guard subscriber.accepts([notification], bytes: bytes, for: number) else { return 0 }
      subscriber.send(
        events: LinePieces(
          notification.events, notification.sequence, of: view.listening, for: number,
          bytes: bytes))
      return 0
    case .end(let code):
      subscriber.cancel(number, code)
      return 0
    }
  }
}

/// The events of successive commits that are delivered together.
private struct Group {
  private(set) var notifications: [Notification] = []
  private(set) var lines: [EventLines] = []
  private(set) var bytes = 0

  mutating func append(_ lines: EventLines, of notification: Notification) {
    guard lines.count > 0 else { return }
    notifications.append(notification)
    self.lines.append(lines)
    bytes += lines.byteCount(for: 1)
  }
}
