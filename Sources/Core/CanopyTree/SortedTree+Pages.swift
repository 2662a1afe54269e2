internal import Synchronization

/// The number of elements in a page, and its capacity.
struct LeafHeader {
  var count: Int16
  var capacity: Int16
  /// The mark of `DigestOwner`.
  var digestMark: UInt32 = 0
}

/// The number of children in a page, its capacity, and the number of elements below it.
struct InnerHeader {
  var count: Int16
  var capacity: Int16
  /// The mark of `DigestOwner`.
  var digestMark: UInt32 = 0
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

    deinit {
      forgetDigest()
      _ = withUnsafeMutablePointers { $1.deinitialize(count: Int($0.pointee.count)) }
    }

    func withDigestMark<R>(_ body: (borrowing Atomic<UInt32>) -> R) -> R {
      withUnsafeMutablePointerToHeader { header in
        withUnsafeMutablePointer(to: &header.pointee.digestMark) { $0.withAtomic(body) }
      }
    }

    static func make(capacity: Int) -> Leaf {
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
      let copy = Leaf.make(capacity: max(capacity, count))
      withElements { elements in
        if let base = elements.baseAddress {
          copy.withUnsafeMutablePointerToElements {
            $0.initialize(from: base, count: elements.count)
          }
        }
      }
      copy.count = count
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
      forgetDigest()
      _ = withUnsafeMutablePointers { $1.deinitialize(count: Int($0.pointee.count)) }
    }

    func withDigestMark<R>(_ body: (borrowing Atomic<UInt32>) -> R) -> R {
      withUnsafeMutablePointerToHeader { header in
        withUnsafeMutablePointer(to: &header.pointee.digestMark) { $0.withAtomic(body) }
      }
    }

    private static func makeEmpty() -> Inner {
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

    func copy() -> Inner {
      let copy = Inner.makeEmpty()
      withEntries { entries in
        guard let base = entries.baseAddress else { return }
        copy.withUnsafeMutablePointerToElements { $0.initialize(from: base, count: entries.count) }
      }
      copy.count = count
      copy.total = total
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
