/// A small branch in one piece of memory: its JSON text.
///
/// What a blog keeps are records of a few fields. As pages and strings a post takes nine allocations and
/// as many lines of cold memory to read; as text it takes one, and its text is what it is mostly wanted
/// for. A change writes the text anew, which is bounded, and costs no more than counting the references
/// of the page of its fields would.
///
/// The text is what `JSONOutput` writes in either style: so there are no priorities in it, and no integer
/// keys, which might make arrays. Branches in it are text as well, but none under a push id is: such a
/// thing may stand in several places, and is to share its memory. Keys have no escapes, so they are
/// found by their bytes. One content has one text, so equal texts are equal contents.
///
/// `@unchecked Sendable`: never changed once it is made.
struct Record: @unchecked Sendable {
  /// Bytes of text up to which a branch is a record. To find a child is to go through the text, and to
  /// change one is to copy it.
  #if CANOPY_COUNT_WORK
    /// (Tests try out trees with other bounds.)
    @TaskLocal static var bytesMax = 2048
  #else
    static var bytesMax: Int { 2048 }
  #endif

  struct Header {
    var childCount: Int32
    var byteCount: Int32
  }

  final class Buffer: ManagedBuffer<Header, UInt8> {}

  private let buffer: Buffer

  /// A record of text that is known to be one.
  init(unchecked text: UnsafeRawBufferPointer, childCount: Int) {
    let buffer = Buffer.create(minimumCapacity: text.count) { _ in
      Header(childCount: Int32(childCount), byteCount: Int32(text.count))
    }
    buffer.withUnsafeMutablePointerToElements {
      UnsafeMutableRawBufferPointer(start: $0, count: text.count).copyMemory(from: text)
    }
    self.buffer = unsafeDowncast(buffer, to: Buffer.self)
  }

  /// What tells this record from all others that exist at the same time.
  var identity: ObjectIdentifier { ObjectIdentifier(buffer) }

  /// The number of children.
  var childCount: Int { Int(buffer.header.childCount) }

  /// Bytes of text.
  var byteCount: Int { Int(buffer.header.byteCount) }

  /// Calls `body` with the text, braces and all.
  @inline(__always)
  func withText<R>(_ body: (UnsafeRawBufferPointer) throws -> R) rethrows -> R {
    try buffer.withUnsafeMutablePointers {
      try body(UnsafeRawBufferPointer(start: $1, count: Int($0.pointee.byteCount)))
    }
  }

  func hasSameText(as other: Record) -> Bool {
    identity == other.identity
      || withText { text in other.withText { text.hasSameBytes(as: $0) } }
  }

  /// The child with this key, or absent. O(bytes).
  func child(_ key: Key) -> Node {
    WorkCounter.touch()
    return withText { text in
      key.withUTF8 { key in
        var members = Members(text)
        while let member = members.next() {
          if members.text(member.key).hasSameBytes(as: key) { return members.node(member.value) }
        }
        return .absent
      }
    }
  }

  /// Visits the children in key order until `body` returns false. O(bytes).
  func forEach(_ body: (Key, Node) -> Bool) {
    WorkCounter.touch()
    withText { text in
      var members = Members(text)
      while let member = members.next() {
        let key = Key(unchecked: members.text(member.key))
        guard body(key, members.node(member.value)) else { return }
      }
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

extension Record {
  /// Goes through the members of a record's text.
  struct Members {
    /// Where a member stands in the text, its key without the quotes.
    struct Member {
      var key: Range<Int>
      var value: Range<Int>
    }

    private let text: UnsafeRawBufferPointer
    private var index = 1

    /// - Parameter text: that of a record, which outlives this.
    init(_ text: UnsafeRawBufferPointer) {
      self.text = text
    }

    func text(_ range: Range<Int>) -> UnsafeRawBufferPointer {
      UnsafeRawBufferPointer(rebasing: text[range])
    }

    mutating func next() -> Member? {
      // Before a key are the opening brace or a comma, and a quote; after the last value a brace.
      guard index &+ 1 < text.count else { return nil }
      let keyStart = index &+ 1
      let keyEnd = JSONScan.plainPrefix(text, from: keyStart)
      let valueStart = min(keyEnd &+ 2, text.count)
      let valueEnd = end(from: valueStart)
      index = valueEnd &+ 1
      return Member(key: keyStart..<keyEnd, value: valueStart..<valueEnd)
    }

    /// Where the value ends that begins at an index.
    private func end(from start: Int) -> Int {
      var i = start
      var depth = 0
      while i < text.count {
        switch text[i] {
        case UInt8(ascii: "\""):
          i = stringEnd(from: i)
          if depth == 0 { return i }
        case UInt8(ascii: "{"):
          depth += 1
          i += 1
        case UInt8(ascii: "}"):
          if depth == 0 { return i }
          depth -= 1
          i += 1
          if depth == 0 { return i }
        case UInt8(ascii: ",") where depth == 0:
          return i
        default:
          i += 1
        }
      }
      return text.count
    }

    /// Where the string ends whose opening quote is at an index.
    private func stringEnd(from start: Int) -> Int {
      var i = JSONScan.plainPrefix(text, from: start &+ 1)
      while i < text.count, text[i] != UInt8(ascii: "\"") {
        // A backslash; of `\u001f` the digits are plain.
        i = JSONScan.plainPrefix(text, from: min(i &+ 2, text.count))
      }
      return min(i &+ 1, text.count)
    }

    /// The value at a place in the text.
    func node(_ range: Range<Int>) -> Node {
      let value = text(range)
      switch value.first {
      case UInt8(ascii: "t"): return true
      case UInt8(ascii: "f"): return false
      case UInt8(ascii: "{"):
        var members = Members(value)
        var count = 0
        while members.next() != nil { count += 1 }
        return Node(storage: .record(Record(unchecked: value, childCount: count)))
      case UInt8(ascii: "\""):
        let inner = UnsafeRawBufferPointer(rebasing: value.dropFirst().dropLast())
        if JSONScan.plainPrefix(inner, from: 0) == inner.count {
          return Node(String(decoding: inner, as: UTF8.self))
        }
      default:
        if let integer = Decimal.integer(value) { return Node(integer) }
      }
      // Escapes and fractions.
      var reader = JSONReader(value, limits: .none)
      return (try? reader.readNode().node) ?? .absent
    }
  }
}
