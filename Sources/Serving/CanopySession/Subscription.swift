internal import CanopyEngine
internal import CanopyTree
internal import CanopyWire

/// One subscription of a session, from its request to its end.
struct Subscription {
  enum Phase {
    /// The engine has not registered the listener yet.
    case starting(Session.Slot, SubscriptionRequest)
    /// The journal is being read for the changes that the client missed, or a large state is being measured. Events
    /// after the commit with this number wait. No version of the tree is kept.
    case resuming(Session.Slot, Int64, HeldEvents)
    /// Events are sent as they come.
    case active
  }

  /// Events that wait while a resumption is under way.
  struct HeldEvents {
    var notifications: [Notification] = []
    /// The bytes of their encoded lines.
    var bytes = 0
    /// The memory of the notifications and of the values in them.
    var memory = 0
    /// The memory of a notification without its values, and of its encoded lines.
    static let notificationBytes = 512
    /// Whether there were more than may be held.
    var isOverflowing = false
  }

  /// The location and query; nil for a constant.
  let listening: Listening?
  /// Whether the rules decide about it.
  let isAuthorized: Bool
  /// The location and query, if the rules decide about the subscription.
  var authorized: Listening? { isAuthorized ? listening : nil }
  /// Whether the client has an earlier version, which the present state replaces.
  var isReplacement = false
  var phase: Phase
  /// The bytes charged for it until it ends.
  let bytes: Int
  /// The bytes charged for commits that are withheld from it, because its client reads slowly; nil if none is.
  var withheldBytes: Int?
  /// The reason why it cannot go on, if that is found before its request is answered.
  var cancellation: WireError.Code?

  /// The phase without its contents. A copy of the phase would keep a second reference to the events that
  /// wait, and each further event would copy them all.
  enum Stage {
    case starting
    case resuming
    case active
  }

  /// The phase without its contents.
  var stage: Stage {
    switch phase {
    case .starting: .starting
    case .resuming: .resuming
    case .active: .active
    }
  }

  /// Keeps events until the resumption is complete, or drops all if they are too many. O(events) on the
  /// average.
  ///
  /// - Parameters:
  ///   - bytes: the bytes of their encoded lines, and the memory of the values in them.
  ///   - bytesMax: the bytes of encoded lines that may be held.
  /// - Returns: by how many bytes the memory of the held events has grown or shrunk.
  mutating func hold(_ notifications: [Notification], bytes: ValueBytes, bytesMax: Int) -> Int {
    guard case .resuming(let slot, let sequence, var held) = phase, !held.isOverflowing else {
      return 0
    }
    // Releases the other reference to the array, so that appending does not copy it.
    phase = .active
    defer { phase = .resuming(slot, sequence, held) }
    guard held.bytes + bytes.json <= bytesMax else {
      let dropped = held.memory
      held = HeldEvents(isOverflowing: true)
      return -dropped
    }
    // A short text may be kept by the notification besides its values.
    let memory =
      notifications.count * HeldEvents.notificationBytes + bytes.memory + bytes.json
    held.notifications += notifications
    held.bytes += bytes.json
    held.memory += memory
    return memory
  }

  /// The memory of the events that wait.
  var heldMemory: Int {
    guard case .resuming(_, _, let held) = phase else { return 0 }
    return held.memory
  }
}

/// The fate of events that come for a subscription.
public enum EventOutcome: Sendable {
  /// Send the events.
  case send
  /// Kept until the resumption is complete.
  case held
  /// Dropped, because the subscription has ended.
  case dropped
  /// The client left too many events unread: the connection is to end.
  case overloaded
}
