internal import DequeModule

/// How a request fits in with the others of its connection: see `RequestPipeline`.
enum RequestKind {
  case read
  case write
  case exclusive
}

/// The order of things on one connection: which request may begin, and which reply may go out.
///
/// Replies go out in the order of their requests. What may run side by side follows from what a
/// client expects of requests that it sends without waiting:
///
/// - a *read* sees everything that was written before it on its connection, so it begins when nothing
///   is under way, and is done at once;
/// - *writes* may be under way together, as the engine keeps their order;
/// - an *exclusive* request (one that changes who the connection is, or takes its time) begins when
///   nothing is under way, and nothing begins before it has ended.
///
/// A value without I/O: the driver feeds it and does what it says.
struct RequestPipeline<Request> {
  typealias Kind = RequestKind

  private enum Slot {
    case underWay
    case replied([UInt8])
  }

  private var waiting: Deque<(request: Request, kind: Kind, bytes: Int)> = []
  /// Bytes of the requests that have not begun.
  private(set) var waitingBytes = 0
  private var slots: Deque<Slot> = []
  private var firstSlot = 0
  private var underWay = 0
  private var exclusiveIsUnderWay = false

  /// Nothing waits, nothing is under way, and no reply is held back.
  var isIdle: Bool { waiting.isEmpty && slots.isEmpty }

  /// Requests that have no reply yet, and replies that are held back.
  var count: Int { waiting.count + slots.count }

  /// Adds the next request of the connection.
  ///
  /// - Parameter bytes: what it takes to keep it until it begins.
  mutating func enqueue(_ request: Request, _ kind: Kind, bytes: Int = 0) {
    waiting.append((request, kind, bytes))
    waitingBytes += bytes
  }

  /// The next request, if it may begin.
  ///
  /// - Returns: the request, and the slot to `finish`; a read has no slot, as its reply is to be
  ///   written before anything else is asked.
  mutating func begin() -> (request: Request, slot: Int?)? {
    guard let next = waiting.first, !exclusiveIsUnderWay else { return nil }
    switch next.kind {
    case .read:
      guard slots.isEmpty else { return nil }
      removeFirstWaiting()
      return (next.request, nil)
    case .exclusive:
      guard slots.isEmpty else { return nil }
      exclusiveIsUnderWay = true
    case .write:
      break
    }
    removeFirstWaiting()
    slots.append(.underWay)
    underWay += 1
    return (next.request, firstSlot + slots.count - 1)
  }

  /// Takes the reply of a request that was under way.
  mutating func finish(_ slot: Int, _ reply: [UInt8]) {
    let index = slot - firstSlot
    guard slots.indices.contains(index), case .underWay = slots[index] else { return }
    slots[index] = .replied(reply)
    underWay -= 1
    if underWay == 0 { exclusiveIsUnderWay = false }
  }

  /// The next reply that may go out.
  mutating func nextReply() -> [UInt8]? {
    guard let first = slots.first, case .replied(let reply) = first else { return nil }
    slots.removeFirst()
    firstSlot += 1
    return reply
  }

  /// Drops what has not begun: the connection is to be closed.
  mutating func dropWaiting() {
    waiting.removeAll()
    waitingBytes = 0
  }

  private mutating func removeFirstWaiting() {
    waitingBytes -= waiting.removeFirst().bytes
  }
}
