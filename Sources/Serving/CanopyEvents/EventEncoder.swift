internal import CanopyEngine
internal import CanopySession
internal import CanopyTree
internal import CanopyWire

/// Encodes the events of a view. Safe to use from any thread.
struct EventEncoder: Sendable {
  private let listening: Listening
  private let limits: Limits
  /// The bytes of JSON up to which the events of a commit are encoded in one go: more than those of a reply,
  /// as that is done once for all subscriptions.
  private let wholeBytesMax: Int

  init(_ listening: Listening, _ limits: Limits) {
    self.listening = listening
    self.limits = limits
    wholeBytesMax = min(4 * limits.wholeReplyBytesMax, limits.replyBytesMax)
  }

  /// The lines about a commit, made once for all loops. `memory` is that of the values in their events.
  enum Encoded: Sendable {
    case lines(EventLines, memory: Int)
    /// Events that are encoded for each subscription as it reads; with the state, if they are a new value.
    case large(bytes: ValueBytes, ShownState?)
    case failed(WireError)

    /// The bytes of the text, or of the list of a state.
    var bytes: Int {
      switch self {
      case .lines(let lines, _): lines.byteCount(for: 1)
      case .large(_, let state): state?.listBytes ?? 0
      case .failed: 0
      }
    }
  }

  /// The text in one protocol. A notification keeps one value of each type, so each protocol has a type.
  private struct Shared<Format>: Sendable {
    let encoded: Encoded
  }

  private enum Line {}
  private enum Stream {}
  private enum Realtime {}

  /// Whether encoding the events of a commit takes long. A large value is measured and listed as a whole, however little of
  /// it has changed.
  ///
  /// - Complexity: O(1) for a few events of small values; else O(bytes that are encoded in one go).
  func takesLong(_ notification: Notification) -> Bool {
    let events = notification.events
    if events.count <= EventEncoder.smallEventsMax, events.allSatisfy(EventEncoder.isSmall) {
      return false
    }
    return bytesAtOnce(events) == nil
  }

  private static let smallEventsMax = 4

  private static func isSmall(_ event: ListenEvent) -> Bool {
    switch event {
    case .child(let change): change.node.isEncodedAtOnce
    case .put(let puts): puts.count == 1 && puts[0].value.isEncodedAtOnce
    case .value: false
    }
  }

  /// Encodes the events of a commit if that takes long. The notification may not keep the result: see `Notification.shared`.
  func prepare(_ notification: Notification, in format: EventFormat) -> Encoded? {
    takesLong(notification) ? encoded(notification, in: format) : nil
  }

  /// Returns the text about a commit in a protocol. It is made once for all loops.
  func encoded(_ notification: Notification, in format: EventFormat) -> Encoded {
    switch format {
    case .line: shared(notification, format, as: Shared<Line>.self)
    case .stream: shared(notification, format, as: Shared<Stream>.self)
    case .realtime: shared(notification, format, as: Shared<Realtime>.self)
    }
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

  /// Returns the bytes of the values in some events; nil if the events are too large to be encoded in one go.
  private func bytesAtOnce(_ events: [ListenEvent]) -> ValueBytes? {
    var budget = ByteBudget(wholeBytesMax)
    return events.allSatisfy { $0.fits(listening.query, budget: &budget) } ? budget.used : nil
  }

  private func encode(
    _ events: [ListenEvent], _ sequence: Int64, in format: EventFormat
  ) -> Encoded {
    do throws(WireError) {
      if let bytes = bytesAtOnce(events) {
        return .lines(
          try EventLines(
            events, sequence, of: listening, in: format, bytesMax: limits.replyBytesMax),
          memory: bytes.memory)
      }
      var bytes = try EventLines.size(of: events, listening, limits: limits)
      guard case .value(let node)? = events.first else { return .large(bytes: bytes, nil) }
      let state = listening.state(of: node)
      if listening.query.isUnbounded { bytes.memory += state.listBytes }
      return .large(bytes: bytes, state)
    } catch {
      return .failed(error)
    }
  }
}
