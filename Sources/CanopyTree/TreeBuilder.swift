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
  }

  private var levels: [Level] = []
  private var rootEntries: [Child] = []
  private var rootPriority = Node.absent
  private var rootValue = Node.absent
  private var keys: [Key] = []
  /// The last location up to its last slash, and the number of keys in that.
  private var parent: [UInt8] = []
  private var parentKeys = 0
  private var seen: [Key: Node] = [:]
  private var scratch = JSONOutput()

  /// Values that were read, those whose text was copied, and those of which the text showed that they were
  /// there already.
  private(set) var counts = (read: 0, copied: 0, found: 0)

  /// A builder that has nothing yet.
  public init() {}

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
    var isPush = false
    if let key = keys.last, case .push = key.form {
      isPush = true
      if let earlier = seen[key], hasText(earlier, json) {
        counts.found += 1
        return place(earlier)
      }
    }
    if let record = Record(json: json) {
      counts.copied += 1
      let node = Node(storage: .record(record))
      // Nothing in a record stands under a push id.
      if isPush, let key = keys.last { seen[key] = node }
      return place(node)
    }
    counts.read += 1
    let node = try WriteValue(json: json, limits: .none).node
    place(keys.last.map { shared(node, under: $0, isRead: true) } ?? node)
  }

  private mutating func hasText(_ node: Node, _ json: UnsafeRawBufferPointer) -> Bool {
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
    while common < levels.count, common < keys.count, levels[common].key == keys[common] {
      common += 1
    }
    return common
  }

  /// Gives the branch where `keys` lead its priority.
  private mutating func setPriority(_ value: Node) {
    // It is open or will be.
    close(to: common)
    open(upTo: keys.count)
    if levels.isEmpty { rootPriority = value } else { levels[levels.count - 1].priority = value }
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
    let child = Child(key: last, node: value)
    if levels.isEmpty {
      rootEntries.append(child)
    } else {
      levels[levels.count - 1].entries.append(child)
    }
  }

  /// The tree of all that was added.
  ///
  /// - Throws: `TreeError.invalidData` when a location came twice or below another.
  public consuming func finish() throws(TreeError) -> Node {
    close(to: 0)
    let node = Node(entries: rootEntries).withPriority(rootPriority)
    guard !hasOverlap, node.childCount == rootEntries.count(where: { !$0.node.isAbsent }) else {
      throw .invalidData("two rows stand at one location, or one below the other")
    }
    guard !rootValue.isAbsent else { return node }
    guard node.isAbsent else {
      throw .invalidData("two rows stand at one location, or one below the other")
    }
    return rootValue
  }

  private var hasOverlap = false

  private mutating func open(upTo count: Int) {
    while levels.count < count { levels.append(Level(key: keys[levels.count])) }
  }

  private mutating func close(to count: Int) {
    while levels.count > count, let level = levels.popLast() {
      let node = Node(entries: level.entries).withPriority(level.priority)
      if node.childCount != level.entries.count { hasOverlap = true }
      let child = Child(key: level.key, node: shared(node, under: level.key, isRead: false))
      if levels.isEmpty {
        rootEntries.append(child)
      } else {
        levels[levels.count - 1].entries.append(child)
      }
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
