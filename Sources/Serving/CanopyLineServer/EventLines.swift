internal import CanopyEngine
internal import CanopySession
internal import CanopyTree
internal import CanopyWire
internal import NIOCore

/// The lines of events without the numbers of their subscriptions, encoded once for all subscribers.
struct EventLines: Sendable {
  /// The parts of the lines after `EventLine.begin`, one after the other.
  private let rests: ByteBuffer
  /// The end of each of these parts.
  private let ends: [Int]

  /// Creates the lines that `write` writes into an output. It ends each with a call of its argument.
  private init(_ write: (inout JSONOutput, (inout JSONOutput) -> Void) -> Void) {
    var ends: [Int] = []
    var output = JSONOutput(capacity: 512)
    write(&output) { ends.append($0.count) }
    rests = output.withBytes { ByteBuffer(bytes: $0) }
    self.ends = ends
  }

  /// Creates the lines of several values, in order.
  init(joining all: [EventLines]) {
    var rests = ByteBuffer()
    var ends: [Int] = []
    for lines in all {
      ends += lines.ends.map { rests.readableBytes + $0 }
      rests.writeImmutableBuffer(lines.rests)
    }
    self.rests = rests
    self.ends = ends
  }

  /// Returns the bytes of the lines for a subscription.
  func byteCount(for number: Int64) -> Int {
    // `>{"sub":` has eight bytes.
    rests.readableBytes + count * (8 + String(number).utf8.count)
  }

  /// The number of lines.
  var count: Int { ends.count }

  /// Returns the lines for a subscription.
  func bytes(for number: Int64) -> ByteBuffer {
    var output = JSONOutput(capacity: rests.readableBytes + 24 * count)
    append(to: &output, for: number)
    return output.withBytes { ByteBuffer(bytes: $0) }
  }

  /// The bytes from which on a line is shared by subscriptions with different numbers.
  static let sharedLineBytes = 4096

  /// Returns the two parts of a single large line: a short one, and one that all subscriptions share; nil for
  /// other lines.
  func largeLine(for number: Int64) -> (head: ByteBuffer, rest: ByteBuffer)? {
    guard count == 1, rests.readableBytes >= EventLines.sharedLineBytes else { return nil }
    var head = JSONOutput(capacity: 32)
    EventLine.begin(number, to: &head)
    return (head.withBytes { ByteBuffer(bytes: $0) }, rests)
  }

  /// Writes the lines for a subscription.
  func append(to output: inout JSONOutput, for number: Int64) {
    rests.withUnsafeReadableBytes { bytes in
      var start = 0
      for end in ends {
        EventLine.begin(number, to: &output)
        output.append(UnsafeRawBufferPointer(rebasing: bytes[start..<end]))
        start = end
      }
    }
  }

  /// Creates the lines about a commit.
  ///
  /// - Throws: `WireError` when one event is larger than a line may be.
  init(
    _ events: [ListenEvent], _ sequence: Int64, of listening: Listening, bytesMax: Int
  ) throws(WireError) {
    for event in events where !event.fits(listening.query, bytes: bytesMax) {
      throw .subscriptionTooLarge
    }
    self.init { output, endLine in
      for (index, event) in events.enumerated() {
        switch event {
        case .child(let change):
          EventLine.child(change, sequence, isMore: index + 1 < events.count, to: &output)
        case .value(let node):
          EventLine.value(sequence, to: &output) { $0.append(listening.query, of: node) }
        case .put(let puts) where puts.count == 1:
          EventLine.put(puts[0].location, sequence, to: &output) {
            $0.append(puts[0].value, style: .export)
          }
        case .put(let puts):
          EventLine.patch(puts, sequence, to: &output)
        }
        endLine(&output)
      }
    }
  }

  /// Creates the lines of the present state of a view.
  ///
  /// - Parameter isAgain: whether the client has an earlier version, which the lines replace.
  /// - Throws: `WireError` when one event is larger than a line may be.
  init(
    start: ListenStart, of listening: Listening, isAgain: Bool, bytesMax: Int
  ) throws(WireError) {
    let query = listening.query
    // Checked before anything is collected. The present state as a whole is one reply.
    try EventLines.checkSize(of: start, listening, bytesMax: bytesMax)
    if listening.form == .child, !isAgain {
      var previous: Key?
      var events: [ListenEvent] = []
      for (key, node) in query.children(of: start.node) {
        events.append(
          .child(ChildChange(kind: .added, key: key, node: node, previous: previous)))
        previous = key
      }
      try self.init(events, start.sequence, of: listening, bytesMax: bytesMax)
      return
    }
    self.init { output, endLine in
      switch listening.form {
      case .value:
        EventLine.value(start.sequence, to: &output) { $0.append(query, of: start.node) }
      case .child:
        EventLine.put(.init(.root), start.sequence, to: &output) {
          // In the order of the query, because later events refer to it.
          $0.append(query, of: start.node, isOrdered: true)
        }
      case .sync:
        EventLine.put(.init(.root), start.sequence, to: &output) {
          $0.append(query.value(of: start.node), style: .export)
        }
      }
      endLine(&output)
    }
  }

  /// Checks that the present state fits in one line. O(size), without collecting it.
  ///
  /// - Throws: `WireError` when it is larger than a line may be.
  private static func checkSize(
    of start: ListenStart, _ listening: Listening, bytesMax: Int
  ) throws(WireError) {
    guard listening.query.fits(start.node, bytes: bytesMax) else { throw .subscriptionTooLarge }
  }

  /// Whether the present state is surely no larger than so many bytes. O(bytes) at most.
  static func isSmall(_ start: ListenStart, bytesMax: Int) -> Bool {
    let query = start.listening.query
    let node = start.node
    if node.childCount > 256, !query.isUnbounded, !query.isIndexed(in: node) { return false }
    return query.fits(node, bytes: bytesMax)
  }

  /// Returns the bytes of the present state, or a little more. O(bytes) at most.
  ///
  /// - Throws: `WireError` when it is larger than a line may be.
  static func size(of start: ListenStart, bytesMax: Int) throws(WireError) -> Int {
    var budget = bytesMax
    guard start.listening.query.fits(start.node, budget: &budget) else {
      throw .subscriptionTooLarge
    }
    return bytesMax - budget
  }

  /// Returns the bytes of all events, or a little more. O(bytes) at most.
  ///
  /// - Throws: `WireError` when one of them is larger than a line may be.
  static func size(
    of events: [ListenEvent], _ listening: Listening, bytesMax: Int
  ) throws(WireError) -> Int {
    var sum = 0
    for event in events {
      var budget = bytesMax
      guard event.fits(listening.query, budget: &budget) else { throw .subscriptionTooLarge }
      sum += bytesMax - budget
    }
    return sum
  }

  /// Creates the line that a subscription has ended.
  init(cancel code: WireError.Code) {
    self.init { output, endLine in
      EventLine.cancel(code, to: &output)
      endLine(&output)
    }
  }

  /// Creates the lines of a value that never changes.
  init(constant node: Node, _ sequence: Int64, form: EventForm) {
    self.init { output, endLine in
      switch form {
      case .value: EventLine.value(sequence, to: &output) { $0.append(node) }
      case .sync: EventLine.put(.init(.root), sequence, to: &output) { $0.append(node) }
      case .child:
        let keys = Query.all.children(of: node)
        for (index, (key, child)) in keys.enumerated() {
          let change = ChildChange(
            kind: .added, key: key, node: child, previous: index > 0 ? keys[index - 1].key : nil)
          EventLine.child(change, sequence, isMore: index + 1 < keys.count, to: &output)
          endLine(&output)
        }
        return
      }
      endLine(&output)
    }
  }
}

extension ListenEvent {
  private func fits(_ puts: [Assignment], _ budget: inout Int) -> Bool {
    puts.allSatisfy { put in
      // `"path":value,`
      budget -= put.location.path.keys.reduce(4) { $0 + $1.utf8Count + 1 }
      return put.value.fits(budget: &budget)
    }
  }

  /// Whether the event surely fits into so many bytes of JSON. O(bytes) at most.
  func fits(_ query: Query, bytes: Int) -> Bool {
    var budget = bytes
    return fits(query, budget: &budget)
  }

  /// Whether the event surely fits into a budget of bytes, from which its bytes are subtracted. O(bytes) at most.
  func fits(_ query: Query, budget: inout Int) -> Bool {
    switch self {
    case .child(let change): change.node.fits(budget: &budget)
    case .value(let node): query.fits(node, budget: &budget)
    case .put(let puts): fits(puts, &budget)
    }
  }
}

extension Query {
  fileprivate func fits(_ node: Node, bytes: Int) -> Bool {
    var budget = bytes
    return fits(node, budget: &budget)
  }

  /// Whether the value that the query shows of a location fits into the rest of a budget of bytes, which
  /// is reduced.
  ///
  /// - Complexity: O(bytes), if the location keeps the index. The walk stops at the first child that does
  ///   not fit, and collects nothing.
  fileprivate func fits(_ node: Node, budget: inout Int) -> Bool {
    if isUnbounded { return node.fits(budget: &budget) }
    // `"k":1,` has at least six bytes.
    if isIndexed(in: node), count(in: node) > budget / 6 { return false }
    return forEachChild(of: node) { key, child in
      budget -= key.utf8Count + 4
      return child.fits(budget: &budget)
    }
  }
}

extension JSONOutput {
  /// Appends a query's result. If the query has an order, the result is an object in this order, even if the keys
  /// are integers.
  ///
  /// - Parameter isOrdered: whether to write such an object without an order as well.
  fileprivate mutating func append(_ query: Query, of node: Node, isOrdered: Bool = false) {
    guard !query.isUnbounded || (node.isBranch && (isOrdered || query.order != .priority)) else {
      return append(node)
    }
    var isFirst = true
    for (key, child) in query.children(of: node) {
      append(UInt8(ascii: isFirst ? "{" : ","))
      append(key: key)
      append(UInt8(ascii: ":"))
      append(child)
      isFirst = false
    }
    append(isFirst ? "null" : "}")
  }
}
