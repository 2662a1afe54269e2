internal import Synchronization

/// A small branch in one allocation: its JSON text.
///
/// A blog consists mostly of posts and comments with a few fields. As a page, with a string for
/// each longer text, a post needs several allocations, in memory that is rarely in a cache. As text
/// it needs one, and most readers want that text. A change copies the text, which is bounded:
/// starring a post of 500 bytes costs the tree the same as with a page; with 25 stars, a fifth
/// more.
///
/// The text is what `JSONOutput` writes in both styles. It therefore holds no priorities, and no
/// integer keys, which might make arrays. Nested branches are text as well, except under a push id:
/// such a branch may stand in several offsets and must share its memory. Keys have no escapes, so
/// they are found by their bytes. The text is canonical: equal contents have equal text.
///
/// `@unchecked Sendable`: immutable once created.
struct PackedBranch: @unchecked Sendable {
  /// The largest text that is packed, in bytes: the cost bound of copying it for a change.
  #if CANOPY_COUNT_WORK
    /// Tests run with other bounds too.
    @TaskLocal static var bytesMax = 2048
  #else
    static var bytesMax: Int { 2048 }
  #endif

  /// The most children that fit: `"k":1,` is the shortest member.
  static var childrenMax: Int { bytesMax / 6 }

  struct Header: DigestHeader {
    /// The mark of `DigestOwner`, at the beginning.
    var digestMark: UInt32 = 0
    var childCount: UInt16
    var byteCount: UInt16
  }

  /// The memory: the table of member offsets, then the text.
  final class Buffer: ManagedBuffer<Header, UInt8>, DigestOwner {
    deinit {
      forgetDigest()
    }

    func withDigestMark<R>(_ body: (borrowing Atomic<UInt32>) -> R) -> R {
      withUnsafeMutablePointerToHeader { header in
        header.digestMark.withAtomic(body)
      }
    }
  }

  private let buffer: Buffer

  /// Creates a packed branch from its canonical text.
  ///
  /// - Complexity: O(bytes).
  init(unchecked text: UnsafeRawBufferPointer, childCount: Int) {
    self.init(childCount: childCount, byteCount: text.count) { table, copy in
      copy.copyMemory(from: text)
      var iterator = MemberIterator(text)
      for i in 0..<childCount { if let offset = iterator.next() { table[i] = offset } }
    }
  }

  /// Creates a packed branch whose table and text `write` fills completely.
  init(
    childCount: Int, byteCount: Int, _ write: (OffsetTable, UnsafeMutableRawBufferPointer) -> Void
  ) {
    WorkCounter.createObject()
    let tableBytes = childCount * OffsetTable.stride
    let buffer = Buffer.create(minimumCapacity: tableBytes + byteCount) { _ in
      Header(childCount: UInt16(childCount), byteCount: UInt16(byteCount))
    }
    buffer.withUnsafeMutablePointerToElements {
      let base = UnsafeMutableRawPointer($0)
      write(
        OffsetTable(base: base, count: childCount),
        UnsafeMutableRawBufferPointer(start: base + tableBytes, count: byteCount))
    }
    self.buffer = unsafeDowncast(buffer, to: Buffer.self)
  }

  /// The identity of the memory, unique among all packed branches that exist at the same time.
  var identity: ObjectIdentifier { ObjectIdentifier(buffer) }

  /// The object that owns the branch's digest.
  var digestOwner: any DigestOwner { buffer }

  /// The number of children.
  var childCount: Int { buffer.withUnsafeMutablePointerToHeader { Int($0.pointee.childCount) } }

  /// The number of bytes of text.
  var byteCount: Int { buffer.withUnsafeMutablePointerToHeader { Int($0.pointee.byteCount) } }

  /// Calls `body` with the text, including the braces.
  @inline(__always)
  func withText<R>(_ body: (UnsafeRawBufferPointer) throws -> R) rethrows -> R {
    try withMembers { try body($0.text) }
  }

  /// Calls `body` with the members, which must not escape it.
  @inline(__always)
  func withMembers<R>(_ body: (Members) throws -> R) rethrows -> R {
    try buffer.withUnsafeMutablePointers { header, base in
      let table = OffsetTable(base: base, count: Int(header.pointee.childCount))
      let text = UnsafeRawBufferPointer(
        start: base + table.count * OffsetTable.stride, count: Int(header.pointee.byteCount))
      return try body(Members(table: table, text: text))
    }
  }

  func hasSameText(as other: PackedBranch) -> Bool {
    identity == other.identity
      || withText { text in other.withText { text.hasSameBytes(as: $0) } }
  }

  /// Returns the child with this key, or absent.
  ///
  /// - Complexity: O(log children), and O(bytes of the child).
  func child(_ key: Key) -> Node {
    WorkCounter.touch()
    return withMembers { members in
      key.withUTF8 { key in
        let (i, isFound) = members.search(key)
        return isFound ? PackedBranch.node(members.value(i)) : .absent
      }
    }
  }

  /// Calls `body` with the text of a child; returns nil if the child is absent, not a string, or has escapes.
  func withPlainText<R>(of key: Key, _ body: (UnsafeRawBufferPointer) -> R) -> R? {
    WorkCounter.touch()
    return withMembers { members in
      key.withUTF8 { key in
        let (i, isFound) = members.search(key)
        guard isFound else { return nil }
        let text = members.value(i)
        guard text.count >= 2, text.first == UInt8(ascii: "\"") else { return nil }
        let inner = UnsafeRawBufferPointer(rebasing: text[1..<text.count - 1])
        return JSONScan.plainPrefix(inner, from: 0) == inner.count ? body(inner) : nil
      }
    }
  }

  /// Returns the number of children of a child, and whether one of them has a key.
  ///
  /// - Complexity: O(bytes of the child).
  func childCount(at child: Key, with key: Key) -> (count: Int, hasKey: Bool) {
    WorkCounter.touch()
    return withMembers { members in
      let (i, isFound) = child.withUTF8(members.search)
      guard isFound, case let text = members.value(i), text.first == UInt8(ascii: "{") else {
        return (0, false)
      }
      return key.withUTF8 { key in
        var iterator = MemberIterator(text)
        var (count, hasKey) = (0, false)
        while let offset = iterator.next() {
          count += 1
          let (start, end) = (Int(offset.key), Int(offset.value) - 2)
          if end - start == key.count,
            UnsafeRawBufferPointer(rebasing: text[start..<end]).hasSameBytes(as: key)
          {
            hasKey = true
          }
        }
        return (count, hasKey)
      }
    }
  }

  /// Returns the node at a path below, or absent, without creating the nodes on the way.
  ///
  /// - Complexity: O(bytes).
  func at(_ keys: ArraySlice<Key>) -> Node {
    guard let first = keys.first else { return Node(storage: .packed(self)) }
    WorkCounter.touch()
    return withMembers { members in
      let (i, isFound) = first.withUTF8(members.search)
      var value = isFound ? members.value(i) : nil
      for key in keys.dropFirst() {
        guard let object = value, object.first == UInt8(ascii: "{") else { return .absent }
        value = key.withUTF8 { MemberIterator.value(of: $0, in: object) }
      }
      return value.map(PackedBranch.node) ?? .absent
    }
  }

  /// Returns the number of keys of a path below that lead to a node, without creating one.
  ///
  /// - Complexity: O(bytes).
  func existingCount(of keys: ArraySlice<Key>) -> Int {
    guard let first = keys.first else { return 0 }
    WorkCounter.touch()
    return withMembers { members in
      let (i, isFound) = first.withUTF8(members.search)
      guard isFound else { return 0 }
      var value = members.value(i)
      var count = 1
      for key in keys.dropFirst() {
        guard value.first == UInt8(ascii: "{"),
          let found = key.withUTF8({ MemberIterator.value(of: $0, in: value) })
        else { return count }
        value = found
        count += 1
      }
      return count
    }
  }

  /// Returns the node at a path below, without creating the branches on the way; or the absent node or leaf above it at
  /// which the way ends.
  ///
  /// - Returns: the node, and the number of keys that lead to it.
  /// - Complexity: O(bytes).
  func end(of keys: ArraySlice<Key>) -> (depth: Int, node: Node) {
    guard let first = keys.first else { return (0, Node(storage: .packed(self))) }
    WorkCounter.touch()
    return withMembers { members in
      let (i, isFound) = first.withUTF8(members.search)
      guard isFound else { return (1, .absent) }
      var value = members.value(i)
      var depth = 1
      for key in keys.dropFirst() where value.first == UInt8(ascii: "{") {
        depth += 1
        guard let found = key.withUTF8({ MemberIterator.value(of: $0, in: value) }) else {
          return (depth, .absent)
        }
        value = found
      }
      return (depth, PackedBranch.node(value))
    }
  }

  /// Visits the children in key order until `body` returns false.
  ///
  /// - Complexity: O(bytes).
  func forEach(_ body: (Key, Node) -> Bool) {
    WorkCounter.touch()
    withMembers { members in
      for i in 0..<members.count {
        guard body(Key(unchecked: members.key(i)), PackedBranch.node(members.value(i))) else {
          return
        }
      }
    }
  }

  /// The number of levels below: the deepest nesting of braces.
  ///
  /// - Complexity: O(bytes).
  var height: Int {
    withText { text in
      var (height, depth, i) = (0, 0, 0)
      while i < text.count {
        switch text[i] {
        case UInt8(ascii: "\""): i = JSONScan.stringEnd(text, from: i) ?? text.count
        case UInt8(ascii: "{"):
          depth += 1
          height = max(height, depth)
          i += 1
        case UInt8(ascii: "}"):
          depth -= 1
          i += 1
        default: i += 1
        }
      }
      return height
    }
  }

  /// The children as a `SortedTree`.
  ///
  /// - Complexity: O(bytes).
  var children: Children {
    var entries: [Child] = []
    entries.reserveCapacity(childCount)
    forEach {
      entries.append(Child(key: $0, node: $1))
      return true
    }
    return Children(ascending: entries)
  }
}
