internal import CanopyWire
internal import DequeModule

/// The way in which a request may overlap with the others of its connection: see `RequestQueue`.
public enum RequestOrder: Sendable {
  /// Begins when all earlier requests are answered, and is answered at once.
  case read
  /// May be under way together with other writes: the engine keeps their order.
  case write
  /// Begins when all earlier requests are answered, and no other request begins before it is answered.
  case exclusive
}

/// The requests and replies of one connection, in order. Decides which request may begin, and which reply
/// may be sent.
///
/// Replies go out in the order of the requests. A read sees every earlier write of its connection, so it
/// begins when all earlier replies were taken with `nextReply`. Writes may be under way together, because the
/// engine keeps their order. An exclusive request changes the user of the connection or takes long; it runs
/// alone.
struct RequestQueue {
  /// Identifies a request that is under way.
  typealias Slot = Int

  private struct Waiting {
    let request: Pending
    var order: RequestOrder
    let bytes: Int
  }

  private struct Running {
    /// The reply; nil while the request is under way.
    var reply: Reply?
    /// The bytes charged for the request until it is answered.
    let bytes: Int
    /// Whether the request may change data or the state of the connection.
    let mayChange: Bool
  }

  /// A request, or the error for input that is not a request.
  enum Pending {
    case request(Request)
    case refusal(WireError)
  }

  private var waiting: Deque<Waiting> = []
  private var running: Deque<Running> = []
  private var firstSlot: Slot = 0
  private var underWayCount = 0
  private(set) var exclusiveIsUnderWay = false
  /// The bytes charged for the requests that have no reply yet.
  private(set) var requestBytes = 0
  /// The bytes charged for the requests that have not begun.
  private(set) var waitingBytes = 0
  /// The bytes charged for the replies that wait for their turn.
  private(set) var replyBytes = 0

  /// Whether no request waits or is under way, and no reply waits for its turn.
  var isIdle: Bool { waiting.isEmpty && running.isEmpty }

  /// The number of requests without a reply and of replies that wait for their turn.
  var count: Int { waiting.count + running.count }

  /// The number of requests that are under way.
  var underWay: Int { underWayCount }

  /// Whether a request is under way that may change data or the state of the connection. O(requests).
  var hasUnfinishedChanges: Bool { running.contains { $0.reply == nil && $0.mayChange } }

  /// Appends the next request of the connection.
  ///
  /// - Parameter bytes: the bytes to charge until the request is answered.
  mutating func append(_ request: Pending, _ order: RequestOrder, bytes: Int) {
    assert(bytes >= 0)
    waiting.append(Waiting(request: request, order: order, bytes: bytes))
    requestBytes += bytes
    waitingBytes += bytes
  }

  /// A request that may begin now.
  enum Beginning {
    /// A read or a refusal. Its reply must be sent before the next call of the queue.
    case atOnce(Pending)
    /// Any other request. `finish` must be called with the slot.
    case underWay(Request, Slot)
  }

  /// Removes and returns the next request if it may begin. O(1).
  ///
  /// - Parameter runsAlone: whether a write must run alone. The queue asks when the write is the next request: an
  ///   earlier request may have changed the namespace, on which the answer depends.
  mutating func begin(runsAlone: (Request) -> Bool = { _ in false }) -> Beginning? {
    guard var next = waiting.first, !exclusiveIsUnderWay else { return nil }
    if next.order == .write, case .request(let request) = next.request, runsAlone(request) {
      next.order = .exclusive
      // It stays so while earlier writes are under way.
      waiting[waiting.startIndex].order = .exclusive
    }
    if next.order != .write, !running.isEmpty { return nil }
    switch next.request {
    case .refusal:
      // A refusal waits for the replies before it, like a read.
      guard running.isEmpty else { return nil }
      removeFirstWaiting()
      requestBytes -= next.bytes
      return .atOnce(next.request)
    case .request(let request):
      removeFirstWaiting()
      if next.order == .read {
        requestBytes -= next.bytes
        return .atOnce(next.request)
      }
      if next.order == .exclusive { exclusiveIsUnderWay = true }
      running.append(Running(bytes: next.bytes, mayChange: request.mayChange))
      underWayCount += 1
      return .underWay(request, firstSlot + running.count - 1)
    }
  }

  /// Marks a request as under way that `begin` has returned as `atOnce`, because it takes long. No other
  /// request begins before it is answered.
  ///
  /// - Parameter bytes: the bytes to charge until then.
  mutating func postpone(bytes: Int) -> Slot {
    assert(running.isEmpty)
    running.append(Running(bytes: bytes, mayChange: false))
    requestBytes += bytes
    underWayCount += 1
    exclusiveIsUnderWay = true
    return firstSlot + running.count - 1
  }

  private mutating func removeFirstWaiting() {
    waitingBytes -= waiting.removeFirst().bytes
  }

  /// Stores the reply to a request until its turn, and releases the bytes of the request. Does nothing if
  /// the request is not under way.
  mutating func finish(_ slot: Slot, _ reply: Reply) {
    let index = slot - firstSlot
    guard running.indices.contains(index), running[index].reply == nil else { return }
    running[index].reply = reply
    requestBytes -= running[index].bytes
    replyBytes += reply.heldBytes
    underWayCount -= 1
    if underWayCount == 0 { exclusiveIsUnderWay = false }
  }

  /// The number of replies that wait for nothing but their turn. O(requests).
  var readyReplies: Int { running.prefix { $0.reply != nil }.count }

  /// Whether the next reply begins a subscription. It is sent at once, because its events follow.
  var nextIsSubscription: Bool {
    if case .subscribed? = running.first?.reply { true } else { false }
  }

  /// Removes and returns the next reply; nil while the oldest request has none. O(1).
  mutating func nextReply() -> Reply? {
    guard let reply = running.first?.reply else { return nil }
    running.removeFirst()
    firstSlot += 1
    replyBytes -= reply.heldBytes
    return reply
  }

  /// Drops the requests that have not begun, because the connection ends.
  mutating func dropWaiting() {
    requestBytes -= waitingBytes
    waitingBytes = 0
    waiting.removeAll()
  }
}

extension Request {
  /// Whether the request may change data or the state of its connection.
  fileprivate var mayChange: Bool {
    switch self {
    case .read, .listen: false
    case .write, .account, .connection, .administration: true
    }
  }
}
