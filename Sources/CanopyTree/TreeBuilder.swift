/// Builds a tree from locations and values that come in the order of the locations' text.
///
/// What an ordered scan of a checkpoint delivers: each value once, none at or below another, a
/// branch's priority at `path/.priority`. O(size) in all; only the branches on the way to the present
/// location are kept apart.
///
/// Copies of one thing are made to share their memory again: a branch under a push id that was seen
/// elsewhere under the same push id with the same contents becomes that same node. (A post stands in
/// `/posts` and in `/user-posts`.)
public struct TreeBuilder: ~Copyable {
  private struct Level {
    var key: Key
    var entries: [Child] = []
    var priority = Node.absent
    /// What is planned there and below.
    let plan: IndexPlan.Matches?
    private let orders: [Order]
    /// The children's places in each planned order, in the sequence in which they came.
    private var positions: [[Position]]

    init(key: Key, plan: IndexPlan.Matches?) {
      self.key = key
      self.plan = plan
      orders = plan?.orders ?? []
      positions = orders.map { _ in [] }
    }

    mutating func append(_ child: Child) {
      // Now, as it has just been looked at: later it would be fetched from memory once more.
      for i in orders.indices {
        positions[i].append(Position(value: orders[i].value(of: child.node), key: child.key))
      }
      entries.append(child)
    }

    /// The branch, with its indexes and its priority.
    var node: Node {
      var node = Node(entries: entries)
      if node.childCount == entries.count, !node.isAbsent {
        for (order, positions) in zip(orders, positions) {
          node.addIndex(OrderIndex(order, positions: positions))
        }
      }
      return node.withPriority(priority)
    }
  }

  /// The open branches; the first is the root, whose key means nothing.
  private var levels: [Level]
  private var rootValue = Node.absent
  private var keys: [Key] = []
  /// The last location up to its last slash, and the number of keys in that.
  private var parent: [UInt8] = []
  private var parentKeys = 0
  private var seen: [Key: Node] = [:]
  private var scratch = JSONOutput()

  /// Values that were read, those whose text was copied, and those of which the text showed that they were
  /// there already.
  private(set) var counts: Counts = (0, 0, 0)
  typealias Counts = (read: Int, copied: Int, found: Int)

  /// A builder that has nothing yet.
  ///
  /// - Parameter indexes: those that are made at once. `Tree` makes the others, and those below a row.
  public init(indexes: IndexPlan = IndexPlan()) {
    levels = [Level(key: Key(index: 0), plan: indexes.matches)]
  }

  /// Adds what stands at a location, of which the JSON text is given.
  ///
  /// Text that is as `JSONOutput` writes it (style `export`) is not read where it is that of a record,
  /// which keeps it, or of a copy, with which it is compared.
  ///
  /// - Parameters:
  ///   - json: a value without server values, of any size.
  ///   - location: UTF-8 of the location's text: keys joined by `/`.
  /// - Throws: `TreeError` for a location that is none, and for JSON that is none.
  public mutating func add(
    json: UnsafeRawBufferPointer, at location: UnsafeRawBufferPointer
  ) throws(TreeError) {
    if try parse(location) {
      counts.read += 1
      return setPriority(try WriteValue(json: json, limits: .none).node)
    }
    if let key = keys.last, case .push = key.form {
      // One look into a table that is too large for any cache.
      if let node = TreeBuilder.known(json, &seen[key, default: .absent], &counts, &scratch) {
        return place(node)
      }
    } else if let record = Record(json: json) {
      counts.copied += 1
      return place(Node(storage: .record(record)))
    }
    counts.read += 1
    let node = try WriteValue(json: json, limits: .none).node
    place(keys.last.map { shared(node, under: $0, isRead: true) } ?? node)
  }

  /// The node of a text that an earlier node has, or that is a record's; nil if it is to be read.
  ///
  /// - Parameter earlier: what was seen last under the same push id; the record is noted there. (Nothing in
  ///   a record stands under a push id.)
  private static func known(
    _ json: UnsafeRawBufferPointer, _ earlier: inout Node, _ counts: inout Counts,
    _ scratch: inout JSONOutput
  ) -> Node? {
    if !earlier.isAbsent, hasText(earlier, json, &scratch) {
      counts.found += 1
      return earlier
    }
    guard let record = Record(json: json) else { return nil }
    counts.copied += 1
    earlier = Node(storage: .record(record))
    return earlier
  }

  private static func hasText(
    _ node: Node, _ json: UnsafeRawBufferPointer, _ scratch: inout JSONOutput
  ) -> Bool {
    if case .record(let record) = node.storage {
      return record.withText { $0.hasSameBytes(as: json) }
    }
    scratch.removeAll()
    scratch.append(node, style: .export)
    return scratch.withBytes { $0.hasSameBytes(as: json) }
  }

  /// Adds what stands at a location.
  ///
  /// - Parameter location: UTF-8 of the location's text: keys joined by `/`.
  /// - Throws: `TreeError` for a location that is none.
  public mutating func add(
    _ value: Node, at location: UnsafeRawBufferPointer
  ) throws(TreeError) {
    if try parse(location) { return setPriority(value) }
    place(keys.last.map { shared(value, under: $0, isRead: true) } ?? value)
  }

  /// The number of keys that lead to the deepest open branch above or at the location.
  private var common: Int {
    var common = 0
    while common + 1 < levels.count, common < keys.count, levels[common + 1].key == keys[common] {
      common += 1
    }
    return common
  }

  /// Gives the branch where `keys` lead its priority.
  private mutating func setPriority(_ value: Node) {
    // It is open or will be.
    close(to: common)
    open(upTo: keys.count)
    levels[levels.count - 1].priority = value
  }

  /// Puts a value, which shares its memory with its copies, where `keys` lead.
  private mutating func place(_ value: Node) {
    guard let last = keys.last else {
      rootValue = value
      return
    }
    // The branch above the last key is to be open, and nothing below it.
    close(to: min(common, keys.count - 1))
    open(upTo: keys.count - 1)
    levels[levels.count - 1].append(Child(key: last, node: value))
  }

  /// The tree of all that was added.
  ///
  /// - Throws: `TreeError.invalidData` when a location came twice or below another.
  public consuming func finish() throws(TreeError) -> Node {
    close(to: 0)
    let root = levels[0]
    let node = root.node
    guard !hasOverlap, node.childCount == root.entries.count(where: { !$0.node.isAbsent }),
      rootValue.isAbsent || node.isAbsent
    else { throw .invalidData("two rows stand at one location, or one below the other") }
    return rootValue.isAbsent ? node : rootValue
  }

  private var hasOverlap = false

  /// Opens the branches on the way to where the first `count` keys lead.
  private mutating func open(upTo count: Int) {
    while levels.count <= count {
      let key = keys[levels.count - 1]
      levels.append(Level(key: key, plan: levels[levels.count - 1].plan?.child(key)))
    }
  }

  /// Closes the open branches but for the root and `count` below it.
  private mutating func close(to count: Int) {
    while levels.count > count + 1, let level = levels.popLast() {
      let node = level.node
      if node.childCount != level.entries.count { hasOverlap = true }
      levels[levels.count - 1]
        .append(Child(key: level.key, node: shared(node, under: level.key, isRead: false)))
    }
  }

  private func isPrefix(
    _ prefix: UnsafeRawBufferPointer, of bytes: UnsafeRawBufferPointer
  ) -> Bool {
    UnsafeRawBufferPointer(rebasing: bytes.prefix(prefix.count)).hasSameBytes(as: prefix)
  }

  /// Makes `keys` those of a location; whether it is that of the priority there.
  private mutating func parse(
    _ location: UnsafeRawBufferPointer
  ) throws(TreeError) -> Bool {
    guard JSONScan.isASCII(location) || String(validating: location, as: UTF8.self) != nil else {
      throw .invalidPath("a location is not valid UTF-8")
    }
    // Mostly it is a sibling of the last one, and only the last key is another.
    var start = 0
    if location.count > parent.count, parent.withUnsafeBytes({ isPrefix($0, of: location) }) {
      start = parent.count
      keys.removeLast(keys.count - parentKeys)
    } else {
      keys.removeAll(keepingCapacity: true)
      parent = []
      parentKeys = 0
    }
    let kept = start
    while start < location.count {
      var end = start
      while end < location.count, location[end] != UInt8(ascii: "/") { end += 1 }
      let part = UnsafeRawBufferPointer(rebasing: location[start..<end])
      if end == location.count {
        if start != kept || kept == 0 {
          parent = Array(location[..<start])
          parentKeys = keys.count
        }
        if part.elementsEqual(".priority".utf8) { return true }
      }
      keys.append(try Key(utf8: part))
      start = end + 1
    }
    guard keys.count <= Limits.depthMax else { throw .invalidPath("a location is too deep") }
    return false
  }

  /// The node itself, or an equal one seen before under the same push id.
  ///
  /// - Parameter isRead: whether the node comes from a row; what is in it has not been looked at yet.
  private mutating func shared(_ node: Node, under key: Key, isRead: Bool) -> Node {
    // (In a record there is nothing under a push id.)
    guard node.isBranch else { return node }
    if case .push = key.form, let earlier = seen[key],
      earlier.isIdentical(to: node) || earlier == node
    {
      return earlier
    }
    let result = isRead && node.record == nil ? sharedInside(node) : node
    if case .push = key.form { seen[key] = result }
    return result
  }

  /// The same with its branches under push ids shared.
  private mutating func sharedInside(_ node: Node) -> Node {
    var result = node
    node.forEachChild { key, child in
      guard child.isBranch else { return true }
      let shared = self.shared(child, under: key, isRead: true)
      if !shared.isIdentical(to: child) { result.set(shared, at: Path(keys: [key])) }
      return true
    }
    return result
  }
}
