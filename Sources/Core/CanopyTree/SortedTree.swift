internal import CPrefetch

/// An element of a `SortedTree`: a value with a sort key.
protocol SortedElement: Sendable {
  associatedtype SortKey: Comparable & Sendable
  var sortKey: SortKey { get }
  /// The capacity of a leaf page; at least 4.
  ///
  /// Copying a page counts a reference for each element that has one, mostly in memory outside the
  /// cache. That is a large part of the cost of a write to a big tree. Smaller pages make a higher
  /// tree and take more memory.
  static var leafMax: Int { get }

  /// Whether a copy of the element counts no reference. Pages of such elements are copied as bytes and freed without a
  /// look at the elements.
  var isPlain: Bool { get }

  /// The offset of a reference in an element, for elements that mostly have one. Nil if they rarely have one.
  ///
  /// The objects of a page are then loaded into the cache all at once before their references are counted. Otherwise
  /// each count would wait for its object. The bytes may also be no reference.
  static var referenceOffset: Int? { get }

  /// Ends the lifetime of the elements of a page that is freed.
  ///
  /// The code that frees an object of a generic class is not specialized. It calls this method and the next one, whose
  /// code is: the default implementation is compiled for each conforming type.
  static func destroyElements(_ base: UnsafeMutableRawPointer, count: Int)
  /// Ends the lifetime of the children of a page that is freed.
  static func destroyEntries(_ base: UnsafeMutableRawPointer, count: Int)
}

extension SortedElement {
  static var referenceOffset: Int? { nil }

  static func destroyElements(_ base: UnsafeMutableRawPointer, count: Int) {
    let elements = base.assumingMemoryBound(to: Self.self)
    if let referenceOffset {
      PrefetchReferences(base + referenceOffset, count, MemoryLayout<Self>.stride)
    }
    for i in 0..<count { (elements + i).deinitialize(count: 1) }
  }

  static func destroyEntries(_ base: UnsafeMutableRawPointer, count: Int) {
    let entries = base.assumingMemoryBound(to: SortedTree<Self>.Inner.Entry.self)
    SortedTree<Self>.Inner.prefetchPages(base, count: count)
    for i in 0..<count { (entries + i).deinitialize(count: 1) }
  }
}

/// An ordered collection with value semantics: a B+ tree whose pages are shared between versions.
///
/// A copy costs one reference count. Changing one element copies only those pages on its path that
/// another version still references, and changes the others in place. A version kept for readers
/// costs one path; a run of changes between two such versions copies each page once.
///
/// The element type sets the page size (`SortedElement.leafMax`). Keys mostly arrive in ascending
/// order (push ids), so a page that overflows at its end stays full and a new one begins, instead
/// of halving it. Two neighbours are merged when both fit into three quarters of a page. There is
/// no other rebalancing: removal stays simple, and the height is logarithmic in the number of
/// insertions.
///
/// - Complexity: finding, changing and counting before a bound are O(log n). Walking is O(log n +
///   elements visited).
struct SortedTree<Element: SortedElement>: Sendable {
  typealias SortKey = Element.SortKey

  /// A leaf or an inner page.
  ///
  /// `@unchecked Sendable`: only a thread that holds the only reference changes a page; a shared
  /// page is read-only.
  enum Page: @unchecked Sendable {
    case leaf(Leaf)
    case inner(Inner)
  }

  var root: Page

  /// The capacity of a leaf page.
  static var leafMax: Int { Element.leafMax }
  /// The capacity of an inner page. Small, because copying a page counts a reference for each
  /// child.
  static var innerMax: Int { 8 }

  init() {
    root = .leaf(Leaf.make(capacity: 0))
  }

  init(root: Page) {
    self.root = root
  }

  init(_ element: Element) {
    let leaf = Leaf.make(capacity: 4)
    leaf.insert(element, at: 0)
    root = .leaf(leaf)
  }

  /// Creates a tree of elements.
  ///
  /// - Precondition: the elements ascend strictly.
  /// - Complexity: O(n).
  init(ascending elements: some Collection<Element>) {
    self.init(ascending: elements, pausing: {})
  }

  /// Creates a tree of elements.
  ///
  /// - Precondition: the elements ascend strictly.
  /// - Parameter pause: called for each page.
  /// - Throws: the error of `pause`.
  /// - Complexity: O(n).
  init<E: Error>(
    ascending elements: some Collection<Element>, pausing pause: () throws(E) -> Void
  ) throws(E) {
    assert(
      zip(elements, elements.dropFirst()).allSatisfy { $0.sortKey < $1.sortKey },
      "the elements do not ascend strictly")
    try self.init(unchecked: elements, pausing: pause)
  }

  /// Creates a tree of elements without the assertion, for the test of `Node.brokenInvariant`.
  init(unchecked elements: some Collection<Element>) {
    self.init(unchecked: elements, pausing: {})
  }

  private init<E: Error>(
    unchecked elements: some Collection<Element>, pausing pause: () throws(E) -> Void
  ) throws(E) {
    guard elements.count > Self.leafMax else {
      root = .leaf(Leaf.make(elements))
      return
    }
    var entries: [Inner.Entry] = []
    var rest = elements[...]
    while let first = rest.first {
      try pause()
      let page = rest.prefix(Self.leafMax)
      rest = rest.dropFirst(Self.leafMax)
      entries.append(
        .init(pivot: first.sortKey, page: .leaf(Leaf.make(page)), total: page.count))
    }
    while entries.count > 1 {
      var above: [Inner.Entry] = []
      var rest = entries[...]
      while let first = rest.first {
        let inner = Inner.make(rest.prefix(Self.innerMax))
        rest = rest.dropFirst(Self.innerMax)
        above.append(.init(pivot: first.pivot, page: .inner(inner), total: inner.total))
      }
      entries = above
    }
    root = entries.first?.page ?? .leaf(Leaf.make(capacity: 0))
  }

  /// The number of elements.
  ///
  /// - Complexity: O(1).
  var count: Int { root.total }

  var isEmpty: Bool { count == 0 }

  /// Whether both are the same version. Does not look at the elements.
  func isIdentical(to other: SortedTree) -> Bool { identity == other.identity }

  /// The root page, which owns the digest of all elements.
  var digestOwner: any DigestOwner {
    switch root {
    case .leaf(let leaf): leaf
    case .inner(let inner): inner
    }
  }

  /// The identity of the root page, unique among all pages that exist at the same time.
  var identity: ObjectIdentifier { root.identity }
}

extension SortedTree.Page {
  /// The number of elements at and below the page.
  var total: Int {
    switch self {
    case .leaf(let leaf): leaf.count
    case .inner(let inner): inner.total
    }
  }

  /// The number of elements or children in the page itself.
  var count: Int {
    switch self {
    case .leaf(let leaf): leaf.count
    case .inner(let inner): inner.count
    }
  }

  /// The capacity of the page.
  var max: Int {
    switch self {
    case .leaf: SortedTree.leafMax
    case .inner: SortedTree.innerMax
    }
  }
}

extension SortedTree {
  /// Returns the element with this key, or nil.
  ///
  /// - Complexity: O(log n).
  func find(_ key: SortKey) -> Element? {
    withLeaf(of: key) { leaf in
      let (i, found) = leaf.search(key)
      return found ? leaf.withElements { $0[i] } : nil
    }
  }

  /// Calls `body` with the only page that may contain the key.
  ///
  /// Counts no references on the way, as the root keeps all pages alive. Counting would write to
  /// memory that other threads read at the same time.
  @inline(__always)
  func withLeaf<R>(of key: SortKey, _ body: (Leaf) -> R) -> R {
    withExtendedLifetime(self) {
      var page = UnmanagedPage(root)
      while true {
        WorkCounter.touch()
        switch page {
        case .inner(let inner):
          page = inner._withUnsafeGuaranteedRef { inner in
            inner.withEntries { UnmanagedPage($0[inner.childIndex(of: key)].page) }
          }
        case .leaf(let leaf):
          return leaf._withUnsafeGuaranteedRef(body)
        }
      }
    }
  }

  /// A page that another reference keeps alive.
  private enum UnmanagedPage {
    case leaf(Unmanaged<Leaf>)
    case inner(Unmanaged<Inner>)

    @inline(__always)
    init(_ page: Page) {
      switch page {
      case .leaf(let leaf): self = .leaf(.passUnretained(leaf))
      case .inner(let inner): self = .inner(.passUnretained(inner))
      }
    }
  }

  /// The first element in order.
  ///
  /// - Complexity: O(log n).
  var first: Element? {
    var result: Element?
    forEach { element in
      result = element
      return false
    }
    return result
  }

  /// The last element in order.
  ///
  /// - Complexity: O(log n).
  var last: Element? {
    var result: Element?
    forEachBackward { element in
      result = element
      return false
    }
    return result
  }
}
