internal import DequeModule

/// The writes and transactions that the server has refused for a time, oldest first. They stay pending, and are sent
/// again after the time that the server has named.
///
/// No write is sent while a wait lasts. After it, the oldest one is sent alone, and each answer allows two more. So a
/// client far above its quota sends few writes in vain, however many it holds.
struct HeldWrites {
  /// The longest wait, in milliseconds.
  static let waitMax: Int64 = 3_600_000

  private enum Wait {
    case none
    case running
    /// It is over, but some requests that were sent before it are not answered.
    case over
  }

  private var requests: Deque<SentRequest> = []
  /// The number of those at the front that were refused since the last wait ended. The requests that await an answer
  /// were sent after these and before the others.
  private var refusedCount = 0
  private var wait = Wait.none
  /// The most outstanding requests with which a write may be sent.
  private(set) var outstandingMax = Int.max

  var isEmpty: Bool { requests.isEmpty }

  /// Whether no write may be sent.
  var isWaiting: Bool { wait != .none }

  /// Whether writes may be sent as soon as those that were sent before are answered.
  var isOver: Bool { wait == .over }

  /// Adds the oldest request that awaited an answer, which the server has refused.
  ///
  /// - Returns: whether a wait begins; then the caller calls `endWait` after it.
  mutating func add(_ request: SentRequest) -> Bool {
    requests.insert(request, at: refusedCount)
    refusedCount += 1
    guard wait == .none else { return false }
    wait = .running
    return true
  }

  /// Records that the time that the server has named is over.
  mutating func endWait() {
    wait = .over
  }

  /// Allows to send the oldest write. Precondition: the wait is over, and no write awaits an answer.
  mutating func release() {
    assert(isOver, "the wait is not over")
    wait = .none
    refusedCount = 0
    outstandingMax = 1
  }

  /// Records that a write was answered, and not refused for a time.
  mutating func noteAnswer() {
    if outstandingMax < .max { outstandingMax += 1 }
  }

  /// Removes and returns the oldest request, to send it.
  mutating func next() -> SentRequest? { requests.popFirst() }

  /// Adds the requests that await an answer, because the connection has ended.
  mutating func add(lost: Deque<SentRequest>) {
    requests.insert(contentsOf: lost, at: refusedCount)
  }

  /// Removes and returns the requests that were refused before the oldest one that awaits an answer, and that satisfy a
  /// condition.
  mutating func removeRefused(where matches: (SentRequest) -> Bool) -> [SentRequest] {
    let refused = requests.prefix(refusedCount)
    let removed = refused.filter(matches)
    guard !removed.isEmpty else { return [] }
    let kept = refused.filter { !matches($0) }
    requests.replaceSubrange(..<refusedCount, with: kept)
    refusedCount = kept.count
    return Array(removed)
  }

  /// Removes and returns all requests. The wait goes on.
  mutating func removeAll() -> Deque<SentRequest> {
    defer {
      requests = []
      refusedCount = 0
    }
    return requests
  }
}
