internal import CanopyRealtimeWire
internal import CanopyTree
internal import CanopyWire
internal import DequeModule

/// The requests of a connection that are not answered, in order. Requests begin in this order, and are answered in it.
struct PendingAnswers {
  /// The part of a request that its answer depends on.
  enum Kind {
    /// The answer has no data.
    case plain
    case get
    case listen(ListenBody)
    case unlisten(ListenTarget)
    /// A put with a condition.
    case transaction(Location)
    /// A merge with a condition: the hash.
    case conditionalMerge(Path, hash: String)
    case authenticate
    case unauthenticate

    /// An estimate of the memory of the request and its kind. O(path)
    fileprivate var memoryBytes: Int {
      let path: Path
      switch self {
      case .plain, .get, .authenticate, .unauthenticate: return baseBytes
      case .listen(let body): path = body.target.path
      case .unlisten(let target): path = target.path
      case .transaction(let location): path = location.path
      case .conditionalMerge(let merged, _): path = merged
      }
      return path.keys.reduce(baseBytes) { $0 + MemoryLayout<Key>.stride + $1.utf8Count }
    }

    private var baseBytes: Int { 128 }
  }

  /// The memory of the requests. It stays charged until they are answered, also while their replies wait.
  private(set) var bytes = 0
  private var all: Deque<(number: Int64, kind: Kind)> = []
  /// The number of those at the front that have begun.
  private var begunCount = 0
  /// The kind of the request that has begun last.
  private(set) var begun = Kind.plain

  /// Appends a request that has not begun.
  mutating func append(_ number: Int64, _ kind: Kind) {
    all.append((number, kind))
    bytes += kind.memoryBytes
  }

  /// Returns the kind of the request that begins now. Precondition: there is one that has not begun.
  mutating func begin() -> Kind {
    guard all.indices.contains(begunCount) else {
      assertionFailure("a request begins that was not received")
      return .plain
    }
    begun = all[begunCount].kind
    begunCount += 1
    return begun
  }

  /// Removes and returns the first request, which is answered now. A request that is refused is answered without having
  /// begun.
  mutating func take() -> (number: Int64, kind: Kind)? {
    begunCount = max(0, begunCount - 1)
    assert(!all.isEmpty, "an answer has no request")
    let first = all.popFirst()
    if let first { bytes -= first.kind.memoryBytes }
    return first
  }
}
