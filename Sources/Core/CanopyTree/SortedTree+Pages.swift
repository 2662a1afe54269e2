internal import CPrefetch
internal import Synchronization

/// The number of elements in a page, and its capacity.
struct LeafHeader: DigestHeader {
  /// The mark of `DigestOwner`, at the beginning.
  var digestMark: UInt32 = 0
  var count: Int16
  var capacity: Int16
  /// Whether all elements that were ever in the page are plain: see `SortedElement.isPlain`.
  var isPlain = true
}

/// The number of children in a page, its capacity, and the number of elements below it.
struct InnerHeader: DigestHeader {
  /// The mark of `DigestOwner`, at the beginning.
  var digestMark: UInt32 = 0
  var count: Int16
  var capacity: Int16
  var total: Int
}

extension SortedTree {
  /// A page of elements, in one allocation.
  final class Leaf: ManagedBuffer<LeafHeader, Element>, DigestOwner {
    /// The number of elements, and of those for which there is room. Read and written by address, as `header` would check each access.
    var count: Int {
      get { withUnsafeMutablePointerToHeader { Int($0.pointee.count) } }
      set { withUnsafeMutablePointerToHeader { $0.pointee.count = Int16(newValue) } }
    }
    var slots: Int { withUnsafeMutablePointerToHeader { Int($0.pointee.capacity) } }
    /// Whether all elements that were ever in the page are plain.
    private(set) var isPlain: Bool {
      get { withUnsafeMutablePointerToHeader { $0.pointee.isPlain } }
      set { withUnsafeMutablePointerToHeader { $0.pointee.isPlain = newValue } }
    }

    deinit {
      withUnsafeMutablePointerToHeader { header in
        // No other thread has a reference, so the mark is read without an atomic operation.
        if header.pointee.digestMark != 0 { DigestCache.shared.remove(ObjectIdentifier(self)) }
        if header.pointee.isPlain { return }
        withUnsafeMutablePointerToElements {
          Element.destroyElements($0, count: Int(header.pointee.count))
        }
      }
    }

    func withDigestMark<R>(_ body: (borrowing Atomic<UInt32>) -> R) -> R {
      withUnsafeMutablePointerToHeader { header in
        header.digestMark.withAtomic(body)
      }
    }

    /// Notes that an element was added to the page, or has replaced another.
    @inline(__always)
    func note(_ element: Element) {
      if !element.isPlain { isPlain = false }
    }

    static func make(capacity: Int) -> Leaf {
      WorkCounter.createObject()
      let buffer = create(minimumCapacity: capacity) { _ in
        LeafHeader(count: 0, capacity: Int16(capacity))
      }
      return unsafeDowncast(buffer, to: Leaf.self)
    }

    static func make(_ elements: some Collection<Element>) -> Leaf {
      let leaf = make(capacity: elements.count)
      leaf.withUnsafeMutablePointerToElements { base in
        var i = 0
        for element in elements {
          (base + i).initialize(to: element)
          leaf.note(element)
          i += 1
        }
      }
      leaf.count = elements.count
      return leaf
    }

    @inline(__always)
    func withElements<R>(_ body: (UnsafeMutableBufferPointer<Element>) -> R) -> R {
      withUnsafeMutablePointers {
        body(UnsafeMutableBufferPointer(start: $1, count: Int($0.pointee.count)))
      }
    }

    /// Returns the index of the first element that is not below.
    ///
    /// - Precondition: `isBelow` is true for a prefix of the elements.
    @inline(__always)
    func partition(_ isBelow: (SortKey) -> Bool) -> Int {
      withElements { elements in
        partitionPoint(count: elements.count) { isBelow(elements[$0].sortKey) }
      }
    }

    /// Returns the index of the element with this key, or its insertion index.
    @inline(__always)
    func search(_ key: SortKey) -> (index: Int, found: Bool) {
      withElements { elements in
        let i = partitionPoint(count: elements.count) { elements[$0].sortKey < key }
        return (i, i < elements.count && elements[i].sortKey == key)
      }
    }

    /// Returns a copy of the page with room for `capacity` elements.
    func copy(capacity: Int) -> Leaf {
      WorkCounter.copyPage()
      let count = count
      let copy = Leaf.make(capacity: max(capacity, count))
      copy.isPlain = isPlain
      copy.count = count
      withUnsafeMutablePointerToElements { source in
        copy.withUnsafeMutablePointerToElements { target in
          if isPlain {
            // Plain elements have no references to count.
            UnsafeMutableRawPointer(target)
              .copyMemory(from: source, byteCount: count * MemoryLayout<Element>.stride)
          } else {
            if let offset = Element.referenceOffset {
              let references = UnsafeRawPointer(source) + offset
              PrefetchReferences(references, count, MemoryLayout<Element>.stride)
            }
            // Faster than `initialize(from:count:)`, which calls a function of the type for each element.
            for i in 0..<count { (target + i).initialize(to: source[i]) }
          }
        }
      }
      return copy
    }

    /// Inserts an element at an index.
    ///
    /// - Precondition: the page has room and is uniquely referenced.
    func insert(_ element: Element, at index: Int) {
      let count = self.count
      assert(count < slots && index <= count, "no room, or no such index")
      withUnsafeMutablePointerToElements { base in
        (base + index + 1).moveInitialize(from: base + index, count: count - index)
        (base + index).initialize(to: element)
      }
      note(element)
      self.count = count + 1
    }

    /// Closes the gap that a moved-out element left.
    func closeGap(at index: Int) {
      let count = self.count
      assert(index < count, "no such index")
      withUnsafeMutablePointerToElements { base in
        (base + index).moveInitialize(from: base + index + 1, count: count - index - 1)
      }
      self.count = count - 1
    }

    /// Moves the elements from `index` on into a new page.
    func split(at index: Int) -> Leaf {
      let moved = count - index
      assert(0...leafMax ~= moved, "no such index")
      let right = Leaf.make(capacity: leafMax)
      withUnsafeMutablePointerToElements { base in
        right.withUnsafeMutablePointerToElements {
          $0.moveInitialize(from: base + index, count: moved)
        }
      }
      right.isPlain = isPlain
      right.count = moved
      count = index
      return right
    }
  }

  /// A page of children. Each pivot is at most the child's first key and above all keys of the
  /// preceding children.
  final class Inner: ManagedBuffer<InnerHeader, Inner.Entry>, DigestOwner {
    /// The number of children, of those for which there is room, and the number of elements below the page, by address as in a leaf.
    var count: Int {
      get { withUnsafeMutablePointerToHeader { Int($0.pointee.count) } }
      set { withUnsafeMutablePointerToHeader { $0.pointee.count = Int16(newValue) } }
    }
    var slots: Int { withUnsafeMutablePointerToHeader { Int($0.pointee.capacity) } }
    var total: Int {
      get { withUnsafeMutablePointerToHeader { $0.pointee.total } }
      set { withUnsafeMutablePointerToHeader { $0.pointee.total = newValue } }
    }

    struct Entry: Sendable {
      var pivot: SortKey
      var page: Page
      var total: Int
    }

    deinit {
      withUnsafeMutablePointerToHeader { header in
        // No other thread has a reference, so the mark is read without an atomic operation.
        if header.pointee.digestMark != 0 { DigestCache.shared.remove(ObjectIdentifier(self)) }
        // The entries follow the header. To ask for their address would look up the type of the entries.
        let entries = UnsafeMutableRawPointer(header + 1)
        assert(withUnsafeMutablePointerToElements { $0 == entries }, "the entries are elsewhere")
        Element.destroyEntries(entries, count: Int(header.pointee.count))
      }
    }

    func withDigestMark<R>(_ body: (borrowing Atomic<UInt32>) -> R) -> R {
      withUnsafeMutablePointerToHeader { header in
        header.digestMark.withAtomic(body)
      }
    }

    private static func makeEmpty() -> Inner {
      WorkCounter.createObject()
      let capacity = innerMax
      let buffer = create(minimumCapacity: capacity) { _ in
        InnerHeader(count: 0, capacity: Int16(capacity), total: 0)
      }
      return unsafeDowncast(buffer, to: Inner.self)
    }

    static func make(_ entries: some Collection<Entry>) -> Inner {
      let inner = makeEmpty()
      var i = 0
      for entry in entries {
        inner.insert(entry, at: i)
        inner.total += entry.total
        i += 1
      }
      return inner
    }

    @inline(__always)
    func withEntries<R>(_ body: (UnsafeMutableBufferPointer<Entry>) -> R) -> R {
      withUnsafeMutablePointers {
        body(UnsafeMutableBufferPointer(start: $1, count: Int($0.pointee.count)))
      }
    }

    /// Returns the index of the first child whose pivot is not below.
    ///
    /// - Precondition: `isBelow` is true for a prefix of the pivots.
    @inline(__always)
    func partition(_ isBelow: (SortKey) -> Bool) -> Int {
      withEntries { entries in
        partitionPoint(count: entries.count) { isBelow(entries[$0].pivot) }
      }
    }

    /// Returns the index of the only child that may contain the key.
    @inline(__always)
    func childIndex(of key: SortKey) -> Int {
      max(0, partition { $0 <= key } - 1)
    }

    /// Begins to load the pages of entries into the cache, before their references are counted.
    @inline(__always)
    static func prefetchPages(_ entries: UnsafeRawPointer, count: Int) {
      guard let offset = MemoryLayout<Entry>.offset(of: \.page) else { return }
      PrefetchReferences(entries + offset, count, MemoryLayout<Entry>.stride)
    }

    func copy() -> Inner {
      WorkCounter.copyPage()
      let count = count
      let copy = Inner.makeEmpty()
      copy.count = count
      copy.total = total
      withUnsafeMutablePointerToElements { source in
        copy.withUnsafeMutablePointerToElements { target in
          Self.prefetchPages(source, count: count)
          for i in 0..<count { (target + i).initialize(to: source[i]) }
        }
      }
      return copy
    }

    /// Inserts an entry at an index. The caller updates the total.
    ///
    /// - Precondition: the page has room and is uniquely referenced.
    func insert(_ entry: Entry, at index: Int) {
      let count = self.count
      assert(count < slots && index <= count, "no room, or no such index")
      withUnsafeMutablePointerToElements { base in
        (base + index + 1).moveInitialize(from: base + index, count: count - index)
        (base + index).initialize(to: entry)
      }
      self.count = count + 1
    }

    /// Removes and returns the entry at an index. The caller updates the total.
    func remove(at index: Int) -> Entry {
      let count = self.count
      assert(index < count, "no such index")
      let entry = withUnsafeMutablePointerToElements { base in
        let entry = (base + index).move()
        (base + index).moveInitialize(from: base + index + 1, count: count - index - 1)
        return entry
      }
      self.count = count - 1
      return entry
    }

    /// Moves the children from `index` on into a new page and updates both totals.
    func split(at index: Int) -> Inner {
      let right = withEntries { Inner.make($0[index...]) }
      while count > index { _ = remove(at: count - 1) }
      total -= right.total
      return right
    }
  }
}

/// Returns the first of `count` indexes for which `isBelow` is false.
///
/// - Precondition: `isBelow` is true for a prefix of the indexes.
/// - Complexity: O(log count).
@inline(__always)
func partitionPoint(count: Int, _ isBelow: (Int) -> Bool) -> Int {
  var low = 0
  var high = count
  while low < high {
    let middle = (low &+ high) / 2
    if isBelow(middle) { low = middle &+ 1 } else { high = middle }
  }
  return low
}
