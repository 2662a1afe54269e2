package import CanopyEngine
package import CanopyTree
internal import CanopyWire
internal import DequeModule

/// The subscriptions on one loop with the same location, query and form.
package final class LocalView {
  package let listening: Listening
  /// Views are notified of a commit in the order of their numbers.
  package let number: Int
  private let limits: Limits
  /// The bytes of JSON up to which the events of a commit are encoded in one go: more than those of a reply,
  /// as that is done once for all subscriptions.
  private let wholeBytesMax: Int
  /// Subscriptions that wait for the engine to begin.
  package var starting = 0
  private var subscriptions: [HubSubscription] = []
  /// The number of subscriptions of each protocol.
  private var formats: [EventFormat: Int] = [:]

  package init(_ listening: Listening, _ limits: Limits, number: Int) {
    self.listening = listening
    self.number = number
    self.limits = limits
    wholeBytesMax = min(4 * limits.wholeReplyBytesMax, limits.replyBytesMax)
  }

  package var count: Int { subscriptions.count }

  package var isUnused: Bool { starting == 0 && subscriptions.isEmpty }

  package func add(_ subscription: HubSubscription) {
    subscription.view = self
    subscription.index = subscriptions.count
    subscriptions.append(subscription)
    formats[subscription.format, default: 0] += 1
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
    let left = (formats[subscription.format] ?? 0) - 1
    assert(left >= 0, "a view has lost count of its subscriptions")
    formats[subscription.format] = left > 0 ? left : nil
  }

  /// Returns a delivery of notifications, in order, to all subscriptions.
  ///
  /// - Parameter engine: says which authorizations to check; nil to check none.
  func delivery(
    of notifications: some Sequence<Notification>, in engine: Engine?
  ) -> ViewDelivery {
    ViewDelivery(
      Deque(notifications), to: subscriptions, isMixed: formats.count > 1, of: self, in: engine)
  }

  /// The lines about a commit, made once for all loops.
  enum Encoded: Sendable {
    case lines(EventLines)
    case large(bytes: ValueBytes)
    case failed(WireError)

    /// The bytes of the text.
    var bytes: Int {
      guard case .lines(let lines) = self else { return 0 }
      return lines.byteCount(for: 1)
    }
  }

  /// The text in one protocol. A notification keeps one value of each type, so each protocol has a type.
  private struct Shared<Format>: Sendable {
    let encoded: Encoded
  }

  private enum Line {}
  private enum Stream {}
  private enum Realtime {}

  /// Returns the text about a commit in a protocol. It is made once for all loops.
  func encoded(_ notification: Notification, in format: EventFormat) -> Encoded {
    let encoded =
      switch format {
      case .line: shared(notification, format, as: Shared<Line>.self)
      case .stream: shared(notification, format, as: Shared<Stream>.self)
      case .realtime: shared(notification, format, as: Shared<Realtime>.self)
      }
    // The events may wait for a client for long. They must not keep versions of the whole tree.
    notification.releaseChange()
    return encoded
  }

  private func shared<Format>(
    _ notification: Notification, _ format: EventFormat, as type: Shared<Format>.Type
  ) -> Encoded {
    notification.shared {
      type.init(encoded: encode(notification.events, notification.sequence, in: format))
    } bytes: {
      $0.encoded.bytes
    }.encoded
  }

  private func encode(
    _ events: [ListenEvent], _ sequence: Int64, in format: EventFormat
  ) -> Encoded {
    do throws(WireError) {
      var budget = ByteBudget(wholeBytesMax)
      if events.allSatisfy({ $0.fits(listening.query, budget: &budget) }) {
        return .lines(
          try EventLines(
            events, sequence, of: listening, in: format, bytesMax: limits.replyBytesMax))
      }
      return .large(bytes: try EventLines.size(of: events, listening, limits: limits))
    } catch {
      return .failed(error)
    }
  }
}
