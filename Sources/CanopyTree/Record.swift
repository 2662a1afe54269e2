internal import Synchronization

/// A small branch in one piece of memory: its JSON text.
///
/// What a blog keeps are records of a few fields. As a page and a string for each longer text a post takes
/// several allocations, in memory that is mostly in no cache; as text it takes one, and its text is what it
/// is mostly wanted for. A change writes the text anew, which is bounded: a star on a post of 500 bytes
/// takes the tree as long as with a page, on one with 25 stars a fifth longer.
///
/// The text is what `JSONOutput` writes in either style: so there are no priorities in it, and no integer
/// keys, which might make arrays. Branches in it are text as well, but none under a push id is: such a
/// thing may stand in several places, and is to share its memory. Keys have no escapes, so they are
/// found by their bytes. One content has one text, so equal texts are equal contents.
///
/// `@unchecked Sendable`: never changed once it is made.
struct Record: @unchecked Sendable {
  /// Bytes of text up to which a branch is a record: what a change of it may have to copy.
  #if CANOPY_COUNT_WORK
    /// (Tests try out trees with other bounds.)
    @TaskLocal static var bytesMax = 2048
  #else
    static var bytesMax: Int { 2048 }
  #endif

  /// Children that fit into so many bytes at most: `"k":1,` is the shortest member.
  static var childrenMax: Int { bytesMax / 6 }

  struct Header {
    var childCount: UInt16
    var byteCount: UInt16
    /// See `DigestOwner`.
    var digestMark: UInt32 = 0
  }

  /// A table of where the members stand, then the text.
  final class Buffer: ManagedBuffer<Header, UInt8>, DigestOwner {
    deinit {
      forgetDigest()
    }

    func withDigestMark<R>(_ body: (borrowing Atomic<UInt32>) -> R) -> R {
      withUnsafeMutablePointerToHeader { header in
        withUnsafeMutablePointer(to: &header.pointee.digestMark) { $0.withAtomic(body) }
      }
    }
  }

  private let buffer: Buffer

  /// A record of text that is known to be one. O(bytes).
  init(unchecked text: UnsafeRawBufferPointer, childCount: Int) {
    self.init(childCount: childCount, byteCount: text.count) { table, copy in
      copy.copyMemory(from: text)
      var scan = Scan(text)
      for i in 0..<childCount { if let place = scan.next() { table[i] = place } }
    }
  }

  /// A record whose table and text `write` writes, all of both.
  init(
    childCount: Int, byteCount: Int, _ write: (Table, UnsafeMutableRawBufferPointer) -> Void
  ) {
    let tableBytes = childCount * Table.stride
    let buffer = Buffer.create(minimumCapacity: tableBytes + byteCount) { _ in
      Header(childCount: UInt16(childCount), byteCount: UInt16(byteCount))
    }
    buffer.withUnsafeMutablePointerToElements {
      let base = UnsafeMutableRawPointer($0)
      write(
        Table(base: base, count: childCount),
        UnsafeMutableRawBufferPointer(start: base + tableBytes, count: byteCount))
    }
    self.buffer = unsafeDowncast(buffer, to: Buffer.self)
  }

  /// What tells this record from all others that exist at the same time.
  var identity: ObjectIdentifier { ObjectIdentifier(buffer) }

  /// The object that stands for the record.
  var digestOwner: any DigestOwner { buffer }

  /// The number of children.
  var childCount: Int { Int(buffer.header.childCount) }

  /// Bytes of text.
  var byteCount: Int { Int(buffer.header.byteCount) }

  /// Calls `body` with the text, braces and all.
  @inline(__always)
  func withText<R>(_ body: (UnsafeRawBufferPointer) throws -> R) rethrows -> R {
    try withMembers { try body($0.text) }
  }

  /// Calls `body` with the members, which must not outlive it.
  @inline(__always)
  func withMembers<R>(_ body: (Members) throws -> R) rethrows -> R {
    try buffer.withUnsafeMutablePointers { header, base in
      let table = Table(base: base, count: Int(header.pointee.childCount))
      let text = UnsafeRawBufferPointer(
        start: base + table.count * Table.stride, count: Int(header.pointee.byteCount))
      return try body(Members(table: table, text: text))
    }
  }

  func hasSameText(as other: Record) -> Bool {
    identity == other.identity
      || withText { text in other.withText { text.hasSameBytes(as: $0) } }
  }

  /// The child with this key, or absent. O(log children), and O(its bytes).
  func child(_ key: Key) -> Node {
    WorkCounter.touch()
    return withMembers { members in
      key.withUTF8 { key in
        let (i, isFound) = members.search(key)
        return isFound ? Record.node(members.value(i)) : .absent
      }
    }
  }

  /// What stands at a path below, or absent, without making nodes of what is on the way. O(bytes).
  func at(_ keys: ArraySlice<Key>) -> Node {
    guard let first = keys.first else { return Node(storage: .record(self)) }
    WorkCounter.touch()
    return withMembers { members in
      let (i, isFound) = first.withUTF8(members.search)
      var value = isFound ? members.value(i) : nil
      for key in keys.dropFirst() {
        guard let object = value, object.first == UInt8(ascii: "{") else { return .absent }
        value = key.withUTF8 { Scan.value(of: $0, in: object) }
      }
      return value.map(Record.node) ?? .absent
    }
  }

  /// Visits the children in key order until `body` returns false. O(bytes).
  func forEach(_ body: (Key, Node) -> Bool) {
    WorkCounter.touch()
    withMembers { members in
      for i in 0..<members.count {
        guard body(Key(unchecked: members.key(i)), Record.node(members.value(i))) else { return }
      }
    }
  }

  /// The levels below: as many as braces are open at one place. O(bytes).
  var height: Int {
    withText { text in
      var (height, depth, i) = (0, 0, 0)
      while i < text.count {
        switch text[i] {
        case UInt8(ascii: "\""): i = Scan.stringEnd(in: text, from: i)
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

  /// The children as a branch has them that is no record. O(bytes).
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
