/// What a `SortedTree` holds: something with a place in an order.
protocol SortedElement: Sendable {
  associatedtype SortKey: Comparable & Sendable
  var sortKey: SortKey { get }
  /// The most elements in a leaf page; at least 4.
  ///
  /// Copying a page counts a reference for each element that has one, in memory that is mostly not in
  /// the cache, which is much of what a write to a big tree costs. Smaller pages make a higher tree,
  /// and take more memory.
  static var leafMax: Int { get }
}

/// An ordered collection with value semantics: a B+ tree whose pages are shared between versions.
///
/// A copy costs one reference count. Changing one element copies the pages on its way down that
/// another version still holds, and changes the others in place; so a version kept for readers costs
/// one path, and a run of changes between two such versions pays for each page once.
///
/// How much a page holds is for the elements to say (`SortedElement.leafMax`). Keys here mostly arrive
/// ascending (push ids), so a page that overflows at its end is left full and a new one begun, instead
/// of being halved. A page is merged with its neighbour when both fit into three quarters of one; there
/// is no other rebalancing, which keeps removal simple and the height logarithmic in the number of
/// insertions.
///
/// Finding, changing, counting before a bound: O(log n). Walking: O(log n + elements visited).
struct SortedTree<Element: SortedElement>: Sendable {
  typealias SortKey = Element.SortKey

  /// `@unchecked Sendable`: a page is changed only while the thread that changes it holds the only
  /// reference; once shared it is read only.
  enum Page: @unchecked Sendable {
    case leaf(Leaf)
    case inner(Inner)
  }

  var root: Page

  /// The most elements in a leaf page.
  static var leafMax: Int { Element.leafMax }
  /// The most children of an inner page: few, as each is a reference to be counted when the page is
  /// copied.
  static var innerMax: Int { 8 }

  init() {
    root = .leaf(Leaf.make(capacity: 0))
  }

  init(_ element: Element) {
    let leaf = Leaf.make(capacity: 4)
    leaf.insert(element, at: 0)
    root = .leaf(leaf)
  }

  /// A tree of elements that ascend strictly. O(n).
  init(ascending elements: some Collection<Element>) {
    guard elements.count > Self.leafMax else {
      root = .leaf(Leaf.make(elements))
      return
    }
    var entries: [Inner.Entry] = []
    var rest = elements[...]
    while let first = rest.first {
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
        above.append(.init(pivot: first.pivot, page: .inner(inner), total: inner.header.total))
      }
      entries = above
    }
    root = entries.first?.page ?? .leaf(Leaf.make(capacity: 0))
  }

  /// The number of elements. O(1).
  var count: Int { root.total }

  var isEmpty: Bool { count == 0 }

  /// Whether both are the same version, found without looking at the elements.
  func isIdentical(to other: SortedTree) -> Bool { identity == other.identity }

  /// The root page, which stands for all elements.
  var digestOwner: any DigestOwner {
    switch root {
    case .leaf(let leaf): leaf
    case .inner(let inner): inner
    }
  }

  /// What tells this version's root page from all others that exist at the same time.
  var identity: ObjectIdentifier { root.identity }
}

extension SortedTree.Page {
  /// The number of elements at and below the page.
  var total: Int {
    switch self {
    case .leaf(let leaf): Int(leaf.header.count)
    case .inner(let inner): inner.header.total
    }
  }

  /// The number of elements or children in the page itself.
  var count: Int {
    switch self {
    case .leaf(let leaf): Int(leaf.header.count)
    case .inner(let inner): Int(inner.header.count)
    }
  }

  /// The most that there may be.
  var max: Int {
    switch self {
    case .leaf: SortedTree.leafMax
    case .inner: SortedTree.innerMax
    }
  }
}

extension SortedTree {
  /// The element with this key.
  func find(_ key: SortKey) -> Element? {
    withLeaf(of: key) { leaf in
      let (i, found) = leaf.search(key)
      return found ? leaf.withElements { $0[i] } : nil
    }
  }

  /// Calls `body` with the page in which the element with this key is, if there is one.
  ///
  /// On the way there no reference is counted: the root holds all pages meanwhile. Counting would write
  /// to memory that other threads read at the same time.
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

  /// A page that something else holds.
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

  /// The first element in order. O(log n).
  var first: Element? {
    var result: Element?
    forEach { element in
      result = element
      return false
    }
    return result
  }

  /// The last element in order. O(log n).
  var last: Element? {
    var result: Element?
    forEachBackward { element in
      result = element
      return false
    }
    return result
  }
}
