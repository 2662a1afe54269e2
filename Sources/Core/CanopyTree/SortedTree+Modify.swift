extension SortedTree {
  /// Changes, inserts or removes the element with this key.
  ///
  /// - Parameter body: receives the element, or nil if there is none, and sets the new one (with
  ///   the same key), or nil to remove it.
  mutating func modify(_ key: SortKey, _ body: (inout Element?) -> Void) {
    if let split = Self.modify(&root, key, body).split {
      let left = root
      root = .inner(
        Inner.make([
          .init(pivot: Self.leastPivot(of: left) ?? split.pivot, page: left, total: left.total),
          split,
        ]))
    }
    // Replace a root that has one child by that child.
    while case .inner(let inner) = root, inner.count == 1 {
      root = inner.withEntries { $0[0].page }
    }
  }

  /// Inserts an element or replaces the one with its key.
  mutating func insert(_ element: Element) {
    modify(element.sortKey) { $0 = element }
  }

  /// Removes the element with this key, if it exists.
  mutating func remove(_ key: SortKey) {
    modify(key) { $0 = nil }
  }

  private struct Outcome {
    var delta = 0
    var split: Inner.Entry?
  }

  private static func leastPivot(of page: Page) -> SortKey? {
    switch page {
    case .leaf(let leaf): leaf.withElements { $0.first?.sortKey }
    case .inner(let inner): inner.withEntries { $0.first?.pivot }
    }
  }

  private static func modify(
    _ page: inout Page, _ key: SortKey, _ body: (inout Element?) -> Void
  ) -> Outcome {
    WorkCounter.touch()
    // Move the page out of `page` while it is changed, so that it is uniquely referenced.
    switch consume page {
    case .leaf(var leaf):
      let outcome = modify(&leaf, key, body)
      page = .leaf(leaf)
      return outcome
    case .inner(var inner):
      if isKnownUniquelyReferenced(&inner) { inner.forgetDigest() } else { inner = inner.copy() }
      let outcome = modify(inner, key, body)
      page = .inner(inner)
      return outcome
    }
  }

  /// Makes a page safe to change: copies it if it is shared.
  @inline(__always)
  private static func makeUnique(_ leaf: inout Leaf, capacity: Int) {
    if isKnownUniquelyReferenced(&leaf) {
      leaf.forgetDigest()
    } else {
      leaf = leaf.copy(capacity: capacity)
    }
  }

  private static func modify(
    _ leaf: inout Leaf, _ key: SortKey, _ body: (inout Element?) -> Void
  ) -> Outcome {
    let (index, found) = leaf.search(key)
    let count = leaf.count
    if found {
      makeUnique(&leaf, capacity: count)
      let removed = leaf.withUnsafeMutablePointerToElements { base in
        var slot: Element? = (base + index).move()
        body(&slot)
        guard let element = slot else { return true }
        assert(element.sortKey == key, "the element has another key")
        (base + index).initialize(to: element)
        leaf.note(element)
        return false
      }
      guard removed else { return Outcome() }
      leaf.closeGap(at: index)
      return Outcome(delta: -1)
    }

    var slot: Element?
    body(&slot)
    guard let element = slot else { return Outcome() }
    assert(element.sortKey == key, "the element has another key")
    guard count == leafMax else {
      // Small pages grow in small steps: most branches stay small.
      let capacity = min(leafMax, count < 16 ? count + 2 : count + count / 2)
      if count == leaf.slots {
        leaf = leaf.copy(capacity: capacity)
      } else {
        makeUnique(&leaf, capacity: capacity)
      }
      leaf.insert(element, at: index)
      return Outcome(delta: 1)
    }

    if index == count {
      let right = Leaf.make(capacity: leafMax)
      right.insert(element, at: 0)
      return Outcome(delta: 1, split: .init(pivot: key, page: .leaf(right), total: 1))
    }
    makeUnique(&leaf, capacity: leafMax)
    let middle = leafMax / 2
    let right = leaf.split(at: middle)
    if index <= middle {
      leaf.insert(element, at: index)
    } else {
      right.insert(element, at: index - middle)
    }
    let pivot = right.withElements { $0[0].sortKey }
    return Outcome(
      delta: 1, split: .init(pivot: pivot, page: .leaf(right), total: right.count))
  }

  private static func modify(
    _ inner: Inner, _ key: SortKey, _ body: (inout Element?) -> Void
  ) -> Outcome {
    let index = inner.childIndex(of: key)
    var outcome = inner.withUnsafeMutablePointerToElements { base in
      let outcome = modify(&base[index].page, key, body)
      base[index].total += outcome.delta - (outcome.split?.total ?? 0)
      return outcome
    }
    inner.total += outcome.delta
    if let split = outcome.split {
      outcome.split = insert(split, into: inner, at: index + 1)
    } else if outcome.delta < 0 {
      mergeIfSparse(inner, index)
    }
    return outcome
  }

  /// Inserts a page that was split off a child. Returns the page that was split off `inner` to make
  /// room, if any.
  private static func insert(_ entry: Inner.Entry, into inner: Inner, at index: Int) -> Inner.Entry?
  {
    let count = inner.count
    guard count == innerMax else {
      inner.insert(entry, at: index)
      return nil
    }
    let isAppend = index == count
    let middle = isAppend ? count : innerMax / 2
    let right = inner.split(at: middle)
    if index <= middle, !isAppend {
      // The split subtracted the moved totals; recompute the sum with the new entry.
      inner.insert(entry, at: index)
      inner.total = inner.withEntries { $0.reduce(0) { $0 + $1.total } }
    } else {
      right.insert(entry, at: index - middle)
      inner.total = inner.withEntries { $0.reduce(0) { $0 + $1.total } }
    }
    right.total = right.withEntries { $0.reduce(0) { $0 + $1.total } }
    let pivot = right.withEntries { $0[0].pivot }
    return .init(pivot: pivot, page: .inner(right), total: right.total)
  }

  /// Removes an empty child, or merges a sparse child with a neighbour if both fit into three
  /// quarters of a page.
  private static func mergeIfSparse(_ inner: Inner, _ index: Int) {
    let counts = inner.withEntries { entries in
      (
        entries[index].page.count,
        index > 0 ? entries[index - 1].page.count : Int.max / 2,
        index + 1 < entries.count ? entries[index + 1].page.count : Int.max / 2
      )
    }
    if counts.0 == 0 {
      _ = inner.remove(at: index)
      return
    }
    let max = inner.withEntries { $0[index].page.max }
    guard counts.0 <= max / 4 else { return }
    let bound = max * 3 / 4
    if counts.0 + counts.1 <= bound {
      merge(inner, index - 1)
    } else if counts.0 + counts.2 <= bound {
      merge(inner, index)
    }
  }

  /// Merges the child at `index` with the next one.
  private static func merge(_ inner: Inner, _ index: Int) {
    let right = inner.remove(at: index + 1)
    inner.withUnsafeMutablePointerToElements { base in
      let left = base[index]
      switch (left.page, right.page) {
      case (.leaf(let a), .leaf(let b)):
        let merged = a.copy(capacity: leafMax)
        b.withElements {
          for element in $0 { merged.insert(element, at: merged.count) }
        }
        base[index].page = .leaf(merged)
      case (.inner(let a), .inner(let b)):
        var entries = a.withEntries { Array($0) }
        let seam = entries.count
        b.withEntries { entries.append(contentsOf: $0) }
        // The first child of a page may hold elements below its own pivot, but not below the
        // page's.
        entries[seam].pivot = right.pivot
        base[index].page = .inner(Inner.make(entries))
      default:
        preconditionFailure("pages of one level are of one kind")
      }
      base[index].total = left.total + right.total
      assert(base[index].page.total == base[index].total, "a merged page lost elements")
    }
  }
}
