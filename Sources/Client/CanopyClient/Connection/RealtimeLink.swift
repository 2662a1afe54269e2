internal import CanopyTree
internal import DequeModule

/// The bookkeeping of the connections by the realtime protocol: request numbers, the order of answers, and listeners.
struct RealtimeLink {
  /// An answer of the server: the word for its outcome, and the JSON of its data.
  struct Answer {
    var status: String
    var data: [UInt8]
  }

  /// A listener of the current connection.
  struct Listener {
    let spec: QuerySpec
    /// The data that the server sent before its answer; nil if the client had them.
    var initial: Node?
    /// The whole location, if the server has no index for the query and sends everything. The client filters.
    var whole: Tree?
    var isAnswered = false
    /// The last unanswered request that ended a listener with the same messages; nil if there was none.
    let former: Int64?
  }

  private var lastNumber: Int64 = 0
  /// The numbers of the unanswered requests of this connection, in order.
  private var awaited: Deque<Int64> = []
  /// Answers that arrived before those to earlier requests.
  private var early: [Int64: Answer] = [:]
  private var listeners: [Int64: Listener] = [:]
  /// The unanswered requests that ended listeners, in order, with the queries of these.
  private var endings: Deque<(number: Int64, spec: QuerySpec)> = []
  /// The host of later connections, which the server named; nil for that of the URL.
  var redirect: Endpoint?
  /// The ID of the last connection, by which the server ends it when the client connects again; nil if there was none.
  var lastSession: String?
  static let sessionBytesMax = 256

  /// Returns the number of a new request.
  mutating func nextNumber() -> Int64 {
    lastNumber += 1
    return lastNumber
  }

  /// Forgets the connection, but not the host of later ones.
  mutating func disconnect() {
    awaited = []
    early = [:]
    listeners = [:]
    endings = []
  }

  // MARK: Answers

  mutating func expect(_ number: Int64) {
    awaited.append(number)
  }

  /// Takes an answer. Requests are answered in their order, whatever the order of the server is.
  ///
  /// - Returns: the answers that are due now; nil if no request awaits this one.
  mutating func take(_ answer: Answer, to number: Int64) -> [Answer]? {
    if let index = endings.firstIndex(where: { $0.number == number }) { endings.remove(at: index) }
    if awaited.first == number {
      awaited.removeFirst()
      var due = [answer]
      while let next = awaited.first, let answer = early.removeValue(forKey: next) {
        awaited.removeFirst()
        due.append(answer)
      }
      return due
    }
    guard awaited.contains(number), early[number] == nil else { return nil }
    early[number] = answer
    return []
  }

  // MARK: Listeners

  mutating func begin(_ tag: ListenTag, _ spec: QuerySpec) {
    let former = endings.last { $0.spec.hasMessagesLike(spec) }
    listeners[Int64(tag.number)] = Listener(spec: spec, former: former?.number)
  }

  /// Ends a listener. Returns its query; nil if there is no such listener.
  mutating func end(_ tag: ListenTag) -> QuerySpec? {
    listeners.removeValue(forKey: Int64(tag.number))?.spec
  }

  /// Records that the last request ends a listener of a query.
  ///
  /// Messages of a listener to a whole location name no listener. The server handles requests in their order. So until
  /// it answers this one, messages about the location belong to the listener that ends, and not to one that has begun
  /// after it: that one would take an old value for a new one.
  mutating func expectEnd(of spec: QuerySpec) {
    guard let number = awaited.last else { return }
    endings.append((number, spec))
  }

  /// Whether messages cannot be those of a listener yet, as the end of an earlier one is not answered. O(unanswered ends).
  private func isEarly(_ listener: Listener) -> Bool {
    listener.former.map { former in endings.contains { $0.number == former } } ?? false
  }

  /// Returns the query of a listener; nil if there is no such listener.
  func spec(of tag: ListenTag) -> QuerySpec? {
    listeners[Int64(tag.number)]?.spec
  }

  /// Whether a listener to a whole location includes a path.
  func hasWholeListener(at path: Path) -> Bool { wholeListener(at: path) != nil }

  /// Returns the listener of a cancellation.
  func listener(at path: Path, _ query: Query?) -> ListenTag? {
    let found = listeners.filter { _, listener in
      guard listener.spec.path == path, !isEarly(listener) else { return false }
      return query.map { $0 == listener.spec.query } ?? listener.spec.query.isUnbounded
    }
    return found.keys.min().map { ListenTag(number: Int($0)) }
  }

  /// Records that a listener was answered.
  ///
  /// - Parameter isUnindexed: whether the server sends the whole location.
  mutating func answered(_ tag: ListenTag, isUnindexed: Bool, known: Node?) {
    let number = Int64(tag.number)
    guard var listener = listeners[number] else { return }
    if isUnindexed { listener.whole = Tree(root: listener.initial ?? known ?? .absent) }
    listener.initial = nil
    listener.isAnswered = true
    listeners[number] = listener
  }

  /// Returns the listener to which a change belongs, with the assignments relative to its location.
  ///
  /// - Returns: nil if no listener wants the change.
  mutating func take(
    _ puts: [Assignment], at path: Path, tag: Int64?
  ) -> (ListenTag, [Assignment], isPatch: Bool)? {
    guard let number = tag ?? wholeListener(at: path), let listener = listeners[number] else {
      return nil
    }
    let base = listener.spec.path
    var relative: [Assignment] = []
    for put in puts {
      guard let rest = put.location.path.relative(to: base) else { return nil }
      relative.append(
        Assignment(Location(rest, isPriority: put.location.isPriority), put.value))
    }
    let found = ListenTag(number: Int(number))
    let first = relative.first
    let isWhole = relative.count == 1 && first?.location == Location(.root)
    if !listener.spec.query.isUnbounded {
      if !listener.isAnswered, isWhole { listeners[number]?.initial = first?.value }
      if listener.whole != nil {
        // The server filters nothing, so this client computes the query's result.
        listeners[number]?.whole?.apply(relative)
        let root = listeners[number]?.whole?.root ?? .absent
        return (found, [Assignment(.root, listener.spec.query.value(of: root))], false)
      }
    }
    return (found, relative, !isWhole)
  }

  /// Returns a listener to a whole location at or above a path.
  private func wholeListener(at path: Path) -> Int64? {
    var found: (number: Int64, depth: Int)?
    for (number, listener) in listeners where listener.spec.query.isUnbounded {
      let base = listener.spec.path
      guard path.hasPrefix(base), (found?.depth ?? -1) < base.count, !isEarly(listener) else {
        continue
      }
      found = (number, base.count)
    }
    return found?.number
  }
}

extension QuerySpec {
  /// Whether a message about a location may belong to a listener of this query as well as to one of another query.
  fileprivate func hasMessagesLike(_ other: QuerySpec) -> Bool {
    guard query.isUnbounded, other.query.isUnbounded else { return self == other }
    return path.hasPrefix(other.path) || other.path.hasPrefix(path)
  }
}
