extension SortedTree {
  /// Visits the elements in order, one with each call, so that a walk can be interrupted and resumed.
  ///
  /// It holds the version of the tree with which it began. `forEach` is faster.
  struct Iterator: IteratorProtocol, Sendable {
    /// The pages from the root to the current leaf, each with the index to go on from.
    private var pages: [(page: Page, index: Int)]

    fileprivate init(_ root: Page) {
      pages = [(root, 0)]
    }

    /// Returns the next element, or nil at the end. O(1) amortized.
    mutating func next() -> Element? {
      while let (page, index) = pages.last {
        guard index < page.count else {
          pages.removeLast()
          continue
        }
        pages[pages.count - 1].index = index + 1
        switch page {
        case .leaf(let leaf):
          if index == 0 { WorkCounter.touch() }
          return leaf.withElements { $0[index] }
        case .inner(let inner):
          WorkCounter.touch()
          pages.append((inner.withEntries { $0[index].page }, 0))
        }
      }
      return nil
    }
  }

  /// Returns an iterator that begins with the first element. O(1).
  func makeIterator() -> Iterator {
    Iterator(root)
  }
}
