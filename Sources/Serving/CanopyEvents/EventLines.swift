package import CanopyEngine
internal import CanopyRealtimeWire
package import CanopySession
package import CanopyTree
package import CanopyWire
package import NIOCore

/// The lines of events without the numbers of their subscriptions, encoded once for all subscribers.
package struct EventLines: Sendable {
  /// The parts of the lines after `EventLine.begin`, one after the other.
  private let rests: ByteBuffer
  /// The end of each of these parts.
  private let ends: [Int]
  /// The protocol of the lines.
  private let format: EventFormat

  /// Creates the lines that `write` writes into an output. It ends each with a call of its argument.
  private init(
    _ format: EventFormat = .line,
    _ write: (inout JSONOutput, (inout JSONOutput) -> Void) -> Void
  ) {
    var ends: [Int] = []
    var output = JSONOutput(capacity: 512)
    write(&output) { ends.append($0.count) }
    rests = output.withBytes { ByteBuffer(bytes: $0) }
    self.ends = ends
    self.format = format
  }

  /// Creates the lines of several values, in order.
  package init(joining all: [EventLines]) {
    var rests = ByteBuffer()
    var ends: [Int] = []
    for lines in all {
      ends += lines.ends.map { rests.readableBytes + $0 }
      rests.writeImmutableBuffer(lines.rests)
    }
    self.rests = rests
    self.ends = ends
    format = all.first?.format ?? .line
  }

  /// Returns the bytes of the lines for a subscription.
  package func byteCount(for number: Int64) -> Int {
    switch format {
    // `>{"sub":` has eight bytes.
    case .line: rests.readableBytes + count * (8 + String(number).utf8.count)
    case .stream: rests.readableBytes
    case .realtime:
      rests.readableBytes
        + count
        * (PushMessage.beginBytes(tag: RealtimeEvent.tag(number)) + MessageFrames.headBytesMax)
    }
  }

  /// The number of lines.
  package var count: Int { ends.count }

  /// Returns the lines for a subscription.
  package func bytes(for number: Int64) -> ByteBuffer {
    switch format {
    case .line: break
    case .stream: return rests
    case .realtime: return RealtimeEvent.frames(rests, ends: ends, tag: RealtimeEvent.tag(number))
    }
    var output = JSONOutput(capacity: rests.readableBytes + 24 * count)
    append(to: &output, for: number)
    return output.withBytes { ByteBuffer(bytes: $0) }
  }

  /// The bytes from which on a line is shared by subscriptions with different numbers.
  static let sharedLineBytes = 4096

  /// Whether it is one line or message that is large, so that subscriptions share most of it. The text of an event
  /// stream is the same for all subscriptions.
  var isLarge: Bool {
    format != .stream && count == 1 && rests.readableBytes >= EventLines.sharedLineBytes
  }

  /// Returns the parts of a large line or message. O(1) for a line; O(bytes) for a message.
  func largeEvent() -> LargeEvent {
    assert(isLarge, "the head of one line is not that of several")
    return format == .realtime ? LargeEvent(message: rests) : LargeEvent(line: rests)
  }

  /// Writes the lines for a subscription.
  package func append(to output: inout JSONOutput, for number: Int64) {
    rests.withUnsafeReadableBytes { bytes in
      var start = 0
      for end in ends {
        if case .line = format { EventLine.begin(number, to: &output) }
        output.append(UnsafeRawBufferPointer(rebasing: bytes[start..<end]))
        start = end
      }
    }
  }

  /// Creates the lines about a commit.
  ///
  /// - Throws: `WireError` when one event is larger than a line may be.
  package init(
    _ events: [ListenEvent], _ sequence: Int64, of listening: Listening, in format: EventFormat,
    bytesMax: Int
  ) throws(WireError) {
    for event in events where !event.fits(listening.query, bytes: bytesMax) {
      throw .subscriptionTooLarge
    }
    switch format {
    case .line: break
    case .stream:
      self.init(format) { output, endLine in
        for case .put(let puts) in events where StreamEvent.append(puts, to: &output) {
          endLine(&output)
        }
      }
      return
    case .realtime:
      self.init(format) { output, endLine in
        for case .put(let puts) in events {
          RealtimeEvent.append(puts, at: listening.path, to: &output)
          endLine(&output)
        }
      }
      return
    }
    self.init { output, endLine in
      for (index, event) in events.enumerated() {
        switch event {
        case .child(let change):
          EventLine.child(change, sequence, isMore: index + 1 < events.count, to: &output)
        case .value(let node):
          EventLine.value(sequence, to: &output) { $0.append(listening.state(of: node), .plain) }
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

  /// Creates the lines of the present state of a view, which is small.
  ///
  /// - Parameter isAgain: whether the client has an earlier version, which the lines replace.
  /// - Throws: `WireError` when one event is larger than a line may be.
  package init(
    _ state: ShownState, _ sequence: Int64, of listening: Listening, isAgain: Bool, bytesMax: Int
  ) throws(WireError) {
    if listening.form == .child, !isAgain {
      let events = state.children.indices.map { ListenEvent.child(state.addition($0)) }
      try self.init(events, sequence, of: listening, in: .line, bytesMax: bytesMax)
      return
    }
    self.init { output, endLine in
      switch listening.form {
      case .value: EventLine.value(sequence, to: &output) { $0.append(state, .plain) }
      case .child: EventLine.put(.init(.root), sequence, to: &output) { $0.append(state, .plain) }
      case .sync: EventLine.put(.init(.root), sequence, to: &output) { $0.append(state, .export) }
      }
      endLine(&output)
    }
  }

  /// Whether it is certain that the present state has at most `bytesMax` bytes. O(bytes) at most.
  package static func isSmall(_ start: ListenStart, bytesMax: Int) -> Bool {
    smallBytes(of: start, bytesMax: bytesMax) != nil
  }

  /// Returns the bytes of the present state, or a little more; nil if they may be more than `bytesMax`. O(bytes) at most.
  static func smallBytes(of start: ListenStart, bytesMax: Int) -> Int? {
    let query = start.listening.query
    let node = start.node
    if node.childCount > 256, !query.isUnbounded, !query.isIndexed(in: node) { return nil }
    var budget = ByteBudget(bytesMax)
    return query.fits(node, budget: &budget) ? budget.used.json : nil
  }

  /// Returns the bytes of the present state. O(bytes) at most.
  ///
  /// The state may be larger than a line if each child has a line of its own: see
  /// `Limits.initialEventsBytesMax`.
  ///
  /// - Throws: `WireError` when the state, or one child, is larger than it may be.
  package static func size(
    of start: ListenStart, limits: Limits
  ) throws(WireError) -> ValueBytes {
    let (query, node) = (start.listening.query, start.node)
    var budget = ByteBudget(limits.replyBytesMax)
    if query.fits(node, budget: &budget) { return try budget.used.checked(limits) }
    guard start.listening.form == .child, node.isBranch,
      let bytes = query.bytesOfChildren(of: node, limits)
    else { throw .subscriptionTooLarge }
    return try bytes.checked(limits)
  }

  /// Returns the bytes of all events. O(bytes) at most.
  ///
  /// - Throws: `WireError` when one of them is larger than a line may be.
  package static func size(
    of events: [ListenEvent], _ listening: Listening, limits: Limits
  ) throws(WireError) -> ValueBytes {
    var sum = ValueBytes()
    for event in events {
      var budget = ByteBudget(limits.replyBytesMax)
      guard event.fits(listening.query, budget: &budget) else { throw .subscriptionTooLarge }
      sum += budget.used
    }
    return try sum.checked(limits)
  }

  /// Creates the line that a subscription has ended.
  package init(cancel code: WireError.Code) {
    self.init { output, endLine in
      EventLine.cancel(code, to: &output)
      endLine(&output)
    }
  }

  /// Creates the lines of a value that never changes.
  package init(constant node: Node, _ sequence: Int64, form: EventForm) {
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

extension ValueBytes {
  /// Returns the bytes.
  ///
  /// - Throws: `WireError` when one event may not hold the values: see `mayBeHeld`.
  fileprivate func checked(_ limits: Limits) throws(WireError) -> ValueBytes {
    guard mayBeHeld(limits) else { throw .subscriptionTooLarge }
    return self
  }
}

extension ListenEvent {
  private func fits(_ puts: [Assignment], _ budget: inout ByteBudget) -> Bool {
    puts.allSatisfy { put in
      budget.take(put.location)
      return put.value.fits(budget: &budget)
    }
  }

  /// Whether the event surely fits into so many bytes of JSON. O(bytes) at most.
  package func fits(_ query: Query, bytes: Int) -> Bool {
    var budget = ByteBudget(bytes)
    return fits(query, budget: &budget)
  }

  /// Whether the event surely fits into a budget of bytes, from which its bytes are subtracted. O(bytes) at most.
  package func fits(_ query: Query, budget: inout ByteBudget) -> Bool {
    switch self {
    case .child(let change): change.node.fits(budget: &budget)
    case .value(let node): query.fits(node, budget: &budget)
    case .put(let puts): fits(puts, &budget)
    }
  }
}

extension Query {
  /// Whether the value that the query shows of a location fits into the rest of a budget of bytes, which
  /// is reduced.
  ///
  /// - Complexity: O(bytes), if the location keeps the index. The walk stops at the first child that does
  ///   not fit, and collects nothing.
  fileprivate func fits(_ node: Node, budget: inout ByteBudget) -> Bool {
    if isUnbounded { return node.fits(budget: &budget) }
    // `"k":1,` has at least six bytes.
    if isIndexed(in: node), count(in: node) > budget.rest / 6 { return false }
    return forEachChild(of: node) { key, child in
      budget.takeMember(key)
      return child.fits(budget: &budget)
    }
  }

  /// Returns the bytes of the children, each as a line of its own; nil if one of them or all together are larger than
  /// they may be. O(bytes) at most.
  fileprivate func bytesOfChildren(of node: Node, _ limits: Limits) -> ValueBytes? {
    // The members of a line besides the key and the value.
    let lineBytes = 60
    let bytesMax = limits.initialEventsBytesMax
    var sum = ValueBytes()
    if isIndexed(in: node), count(in: node) > bytesMax / lineBytes { return nil }
    let fits = forEachChild(of: node) { key, child in
      var line = ByteBudget(bytesMax)
      line.takeMember(key)
      sum += line.used
      sum.json += lineBytes
      var budget = ByteBudget(min(bytesMax - sum.json, limits.replyBytesMax))
      guard child.fits(budget: &budget) else { return false }
      sum += budget.used
      return true
    }
    return fits ? sum : nil
  }
}

extension ShownState {
  /// The children in the order of the query; empty for a value.
  var children: [(key: Key, node: Node)] {
    guard case .children(let children) = self else { return [] }
    return children
  }

  /// Returns the addition of a child, for a client that has those before it.
  func addition(_ index: Int) -> ChildChange {
    let (key, node) = children[index]
    return ChildChange(
      kind: .added, key: key, node: node, previous: index > 0 ? children[index - 1].key : nil)
  }
}

extension JSONOutput {
  /// Appends a state. Children are an object in their order, even if the keys are integers.
  fileprivate mutating func append(_ state: ShownState, _ style: JSONStyle) {
    let children: [(key: Key, node: Node)]
    switch state {
    case .value(let node): return append(node, style: style)
    case .children(let all): children = all
    }
    var isFirst = true
    for (key, child) in children {
      append(UInt8(ascii: isFirst ? "{" : ","))
      append(key: key)
      append(UInt8(ascii: ":"))
      append(child, style: style)
      isFirst = false
    }
    append(isFirst ? "null" : "}")
  }
}
