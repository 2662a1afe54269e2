/// Builds a tree from rows in the order of their locations' text, such as an ordered scan of a
/// checkpoint.
///
/// Each value comes once, none at or below another; a branch's priority is at `path/.priority`.
/// Only the branches on the way to the current location are open.
///
/// Copies share their memory again: a branch under a push id that equals an earlier one under the
/// same push id becomes that node. (A post stands in `/posts` and in `/user-posts`.)
///
/// - Complexity: O(size) in total.
public struct TreeBuilder: ~Copyable {
  private struct Level {
    var key: Key
    /// The number of added children, absent and repeated ones included, and that of absent ones.
    private(set) var count = 0
    private(set) var absentCount = 0
    var priority = Node.absent
    /// The index plan at and below this level.
    let plan: IndexPlan.Matches?
    /// The children that may become a packed branch; all children if they do not ascend.
    private var entries: [Child] = []
    /// The children, once they cannot become a packed branch and as long as they ascend; then
    /// `entries` is empty.
    private var pages: Children.Growing?
    private var isAscending = true
    /// Whether a child in `pages` has a priority.
    private var hasPriorities = false
    /// The positions of the children in each planned order.
    private var positions: [OrderIndex.Growing]

    init(key: Key, plan: IndexPlan.Matches?) {
      self.key = key
      self.plan = plan
      positions = plan?.orders.map { OrderIndex.Growing($0) } ?? []
    }

    mutating func append(_ child: Child) {
      count += 1
      // Compute the positions now, while the child is in the cache.
      for i in positions.indices { positions[i].append(child) }
      if child.node.isAbsent { absentCount += 1 }
      if pages == nil, isAscending,
        entries.count >= PackedBranch.childrenMax || PackedBranch.isTooDeep(child)
      {
        beginPages()
      }
      if pages != nil {
        if !child.node.isAbsent, pages?.append(child) == true {
          if child.node.isPrioritized { hasPriorities = true }
          return
        }
        entries = pages?.finishAsArray() ?? []
        pages = nil
        isAscending = false
      }
      entries.append(child)
    }

    private mutating func beginPages() {
      var pages = Children.Growing()
      for child in entries {
        guard !child.node.isAbsent, pages.append(child) else {
          isAscending = false
          return
        }
        if child.node.isPrioritized { hasPriorities = true }
      }
      entries = []
      self.pages = pages
    }

    /// Returns the branch, with its indexes and its priority. Call once.
    mutating func finish() -> Node {
      var node: Node
      if var pages = pages.take() {
        node = Node(storage: .branch(pages.finish()))
        if hasPriorities { node.addIndex(.priority) }
      } else {
        node = Node(entries: entries)
      }
      if node.childCount == count, !node.isAbsent {
        for i in positions.indices { node.addIndex(positions[i].finish()) }
      }
      return node.withPriority(priority)
    }
  }

  /// The open branches. The first is the root; its key is unused.
  private var levels: [Level]
  private var rootValue = Node.absent
  private var keys: [Key] = []
  /// The last location up to its last slash, and the number of keys in it.
  private var parent: [UInt8] = []
  private var parentKeys = 0
  /// Whether the branch at `parent` is the deepest open one.
  private var isParentOpen = false
  private var seen = PushIDTable()
  private var scratch = JSONOutput()

  /// The numbers of values that were parsed, copied as text, and recognised as a copy by their
  /// text.
  private(set) var counts: Counts = (0, 0, 0)
  typealias Counts = (read: Int, copied: Int, found: Int)

  /// Creates an empty builder.
  ///
  /// - Parameter indexes: the indexes to build at once. `Tree` builds all others, and those inside
  ///   a row.
  public init(indexes: IndexPlan = IndexPlan()) {
    levels = [Level(key: Key(index: 0), plan: indexes.matches)]
  }

  /// Adds the node at a location from its JSON text.
  ///
  /// Canonical text (`JSONOutput` in style `export`) is not parsed if it is that of a packed
  /// branch, which keeps it, or of an earlier copy.
  ///
  /// - Parameters:
  ///   - json: a value without server values, of any size.
  ///   - location: the UTF-8 of the location's text: keys joined by `/`.
  /// - Throws: `TreeError` for an invalid location or invalid JSON.
  public mutating func add(
    json: UnsafeRawBufferPointer, at location: UnsafeRawBufferPointer
  ) throws(TreeError) {
    if try parse(location) {
      counts.read += 1
      return setPriority(try WriteValue(json: json, limits: .none).node)
    }
    if let key = keys.last, case .push(let high, let low) = key.form {
      // A single lookup: the table is too large for any cache.
      let i = seen.index(high, low)
      if let node = TreeBuilder.knownNode(json, &seen.entries[i].node, &counts, &scratch) {
        return append(node)
      }
    } else if let packed = PackedBranch(json: json) {
      counts.copied += 1
      return append(Node(storage: .packed(packed)))
    }
    counts.read += 1
    let node = try WriteValue(json: json, limits: .none).node
    append(keys.last.map { shared(node, under: $0, isRead: true) } ?? node)
  }

  /// Returns the earlier node with the same text, or a packed branch; nil if the text must be
  /// parsed.
  ///
  /// - Parameter earlier: the last node under the same push id; a new packed branch replaces it.
  ///   (No packed branch contains branches under push ids.)
  private static func knownNode(
    _ json: UnsafeRawBufferPointer, _ earlier: inout Node, _ counts: inout Counts,
    _ scratch: inout JSONOutput
  ) -> Node? {
    if !earlier.isAbsent, hasText(earlier, json, &scratch) {
      counts.found += 1
      return earlier
    }
    guard let packed = PackedBranch(json: json) else { return nil }
    counts.copied += 1
    earlier = Node(storage: .packed(packed))
    return earlier
  }

  private static func hasText(
    _ node: Node, _ json: UnsafeRawBufferPointer, _ scratch: inout JSONOutput
  ) -> Bool {
    if case .packed(let packed) = node.storage {
      return packed.withText { $0.hasSameBytes(as: json) }
    }
    // A member has at least two bytes. A branch may be much larger than the text.
    guard node.childCount <= json.count / 2 else { return false }
    scratch.removeAll()
    scratch.append(node, style: .export)
    return scratch.withBytes { $0.hasSameBytes(as: json) }
  }

  /// Adds the node at a location.
  ///
  /// - Parameter location: the UTF-8 of the location's text: keys joined by `/`.
  /// - Throws: `TreeError` for an invalid location.
  public mutating func add(
    _ value: Node, at location: UnsafeRawBufferPointer
  ) throws(TreeError) {
    if try parse(location) { return setPriority(value) }
    guard let key = keys.last else { return append(value) }
    let node = shared(value, under: key, isRead: true)
    if value.packed != nil, !node.isIdentical(to: value) { counts.found += 1 }
    append(node)
  }

  /// Returns the node of a row's JSON text if `add` would keep the text, as for most posts and comments; else nil.
  /// So another thread can do a part of the work.
  public static func packedNode(json: UnsafeRawBufferPointer) -> Node? {
    PackedBranch(json: json).map { Node(storage: .packed($0)) }
  }

  /// The number of values that were recognised as a copy of an earlier one.
  public var foundCopies: Int { counts.found }

  /// The number of keys that lead to the deepest open branch at or above the location.
  private var common: Int {
    var common = 0
    while common + 1 < levels.count, common < keys.count, levels[common + 1].key == keys[common] {
      common += 1
    }
    return common
  }

  /// Sets the priority of the branch at `keys`.
  private mutating func setPriority(_ value: Node) {
    // The branch is open, or a later row opens it.
    close(to: common)
    open(upTo: keys.count)
    levels[levels.count - 1].priority = value
  }

  /// Adds a value at `keys`.
  private mutating func append(_ value: Node) {
    guard let last = keys.last else {
      rootValue = value
      return
    }
    if !isParentOpen {
      // Open the branch above the last key, and close all branches below it.
      close(to: min(common, keys.count - 1))
      open(upTo: keys.count - 1)
      isParentOpen = true
    }
    levels[levels.count - 1].append(Child(key: last, node: value))
  }

  /// Returns the tree of all added nodes. Call once, at the end.
  ///
  /// - Throws: `TreeError.invalidData` if a location came twice or below another.
  public mutating func finish() throws(TreeError) -> Node {
    close(to: 0)
    let node = levels[0].finish()
    guard !hasOverlap, node.childCount == levels[0].count - levels[0].absentCount,
      rootValue.isAbsent || node.isAbsent
    else { throw .invalidData("two rows have the same location, or one is below the other") }
    return rootValue.isAbsent ? node : rootValue
  }

  private var hasOverlap = false

  /// Opens the branches of the first `count` keys.
  private mutating func open(upTo count: Int) {
    while levels.count <= count {
      let key = keys[levels.count - 1]
      levels.append(Level(key: key, plan: levels[levels.count - 1].plan?.child(key)))
    }
  }

  /// Closes the open branches below the first `count` keys.
  private mutating func close(to count: Int) {
    while levels.count > count + 1, var level = levels.popLast() {
      let node = level.finish()
      if node.childCount != level.count { hasOverlap = true }
      levels[levels.count - 1]
        .append(Child(key: level.key, node: shared(node, under: level.key, isRead: false)))
    }
  }

  private func isPrefix(
    _ prefix: UnsafeRawBufferPointer, of bytes: UnsafeRawBufferPointer
  ) -> Bool {
    UnsafeRawBufferPointer(rebasing: bytes.prefix(prefix.count)).hasSameBytes(as: prefix)
  }

  /// Sets `keys` to those of a location. Returns whether it is the location of a priority.
  private mutating func parse(
    _ location: UnsafeRawBufferPointer
  ) throws(TreeError) -> Bool {
    if parseSibling(location) { return false }
    isParentOpen = false
    guard JSONScan.isASCII(location) || String(validating: location, as: UTF8.self) != nil else {
      throw .invalidPath("a location is not valid UTF-8")
    }
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

  /// Sets `keys` to those of a location that differs from the last one only in its last key, which
  /// is a push id. Most locations do. Returns false, and changes nothing, for any other location.
  private mutating func parseSibling(_ location: UnsafeRawBufferPointer) -> Bool {
    guard parentKeys > 0, parentKeys < Limits.depthMax,
      location.count == parent.count + PushID.length,
      parent.withUnsafeBytes({ isPrefix($0, of: location) }),
      // The alphabet of push ids is ASCII, and has no slash.
      let (high, low) = PushID.pack(UnsafeRawBufferPointer(rebasing: location[parent.count...]))
    else { return false }
    keys.removeLast(keys.count - parentKeys)
    keys.append(Key(form: .push(high, low)))
    return true
  }

  /// Returns the node, or an equal one seen earlier under the same push id.
  ///
  /// - Parameter isRead: whether the node comes from a row, so that the branches in it have not
  ///   been shared yet.
  private mutating func shared(_ node: Node, under key: Key, isRead: Bool) -> Node {
    // A packed branch contains no branches under push ids.
    guard node.isBranch else { return node }
    guard case .push(let high, let low) = key.form else {
      return isRead && node.packed == nil ? sharedInside(node) : node
    }
    let i = seen.index(high, low)
    let earlier = seen.entries[i].node
    if earlier.isIdentical(to: node) || (!earlier.isAbsent && earlier == node) { return earlier }
    let result = isRead && node.packed == nil ? sharedInside(node) : node
    seen.entries[i].node = result
    return result
  }

  /// Returns the node with its branches under push ids shared.
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
