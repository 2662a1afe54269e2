extension SortedTree {
  /// Visits elements in order, from the first that is not below, until `body` returns false.
  ///
  /// - Parameter isBelow: true for a prefix of the elements, which is skipped in O(log n).
  /// - Returns: whether the end was reached.
  @discardableResult
  func forEach(
    from isBelow: ((SortKey) -> Bool)? = nil, _ body: (Element) -> Bool
  ) -> Bool {
    Self.forEach(root, from: isBelow, body)
  }

  /// Visits the elements of one of several parts of about the same size, in order. Each element is in one part.
  ///
  /// - Precondition: `part` is at least 0 and less than `parts`.
  func forEach(inPart part: Int, of parts: Int, _ body: (Element) -> Void) {
    assert(0..<parts ~= part, "there is no such part")
    let (size, larger) = count.quotientAndRemainder(dividingBy: parts)
    var rest = part < larger ? size + 1 : size
    guard rest > 0, let first = element(atRank: part * size + min(part, larger)) else { return }
    forEach(from: { $0 < first.sortKey }) {
      body($0)
      rest -= 1
      return rest > 0
    }
  }

  /// Visits elements in reverse order, from the last that is not above, until `body` returns false.
  ///
  /// - Parameter isAbove: true for a suffix of the elements, which is skipped in O(log n).
  /// - Returns: whether the start was reached.
  @discardableResult
  func forEachBackward(
    from isAbove: ((SortKey) -> Bool)? = nil, _ body: (Element) -> Bool
  ) -> Bool {
    Self.forEachBackward(root, from: isAbove, body)
  }

  /// Returns the number of elements that are below.
  ///
  /// - Precondition: `isBelow` is true for a prefix of the elements.
  /// - Complexity: O(log n).
  func countPrefix(_ isBelow: (SortKey) -> Bool) -> Int {
    var page = root
    var result = 0
    while true {
      WorkCounter.touch()
      switch page {
      case .leaf(let leaf): return result + leaf.partition(isBelow)
      case .inner(let inner):
        let index = max(0, inner.partition(isBelow) - 1)
        inner.withEntries { entries in
          for i in 0..<index { result += entries[i].total }
          page = entries[index].page
        }
      }
    }
  }

  private static func forEach(
    _ page: Page, from isBelow: ((SortKey) -> Bool)?, _ body: (Element) -> Bool
  ) -> Bool {
    WorkCounter.touch()
    switch page {
    case .leaf(let leaf):
      let start = isBelow.map(leaf.partition) ?? 0
      return leaf.withElements { elements in
        for i in start..<max(start, elements.count) where !body(elements[i]) { return false }
        return true
      }
    case .inner(let inner):
      let start = isBelow.map { max(0, inner.partition($0) - 1) } ?? 0
      return inner.withEntries { entries in
        for i in start..<max(start, entries.count)
        where !forEach(entries[i].page, from: i == start ? isBelow : nil, body) { return false }
        return true
      }
    }
  }

  private static func forEachBackward(
    _ page: Page, from isAbove: ((SortKey) -> Bool)?, _ body: (Element) -> Bool
  ) -> Bool {
    WorkCounter.touch()
    switch page {
    case .leaf(let leaf):
      return leaf.withElements { elements in
        let end = isAbove.map { isAbove in leaf.partition { !isAbove($0) } } ?? elements.count
        for i in (0..<end).reversed() where !body(elements[i]) { return false }
        return true
      }
    case .inner(let inner):
      return inner.withEntries { entries in
        // Never skip the first child: its pivot may be above although elements precede it.
        let end =
          isAbove.map { isAbove in max(1, inner.partition { !isAbove($0) }) } ?? entries.count
        for i in (0..<min(end, entries.count)).reversed()
        where !forEachBackward(entries[i].page, from: i == end - 1 ? isAbove : nil, body) {
          return false
        }
        return true
      }
    }
  }
}

extension SortedTree {
  /// Returns the element with `rank` elements before it, or nil.
  ///
  /// - Complexity: O(log n).
  func element(atRank rank: Int) -> Element? {
    guard rank >= 0, rank < count else { return nil }
    var rest = rank
    var page = root
    while true {
      WorkCounter.touch()
      switch page {
      case .leaf(let leaf):
        return leaf.withElements { rest < $0.count ? $0[rest] : nil }
      case .inner(let inner):
        inner.withEntries { entries in
          var i = 0
          while i + 1 < entries.count, rest >= entries[i].total {
            rest -= entries[i].total
            i += 1
          }
          page = entries[i].page
        }
      }
    }
  }
}
