extension SortedTree {
  /// A tree that grows at its end. Its pages are those of `init(ascending:)`, but its elements are never all in an array,
  /// which would grow and be copied.
  struct Growing {
    /// The page that is being filled. It has at least one element, and no other reference.
    private var leaf: Leaf?
    /// For each level, the pages that are not part of an inner page yet: at most as many as one has room for.
    private var rows: [[Inner.Entry]] = []

    /// Adds an element at the end. Returns false, and changes nothing, if it does not sort after all others.
    mutating func append(_ element: Element) -> Bool {
      if let leaf {
        let count = leaf.count
        let isLast = leaf.withElements { $0[count - 1].sortKey < element.sortKey }
        guard isLast else { return false }
        if count < leafMax {
          leaf.insert(element, at: count)
          return true
        }
        add(leaf)
      }
      let next = Leaf.make(capacity: leafMax)
      next.insert(element, at: 0)
      leaf = next
      return true
    }

    private mutating func add(_ leaf: Leaf) {
      guard let pivot = leaf.withElements({ $0.first?.sortKey }) else { return }
      add(Inner.Entry(pivot: pivot, page: .leaf(leaf), total: leaf.count), at: 0)
    }

    private mutating func add(_ entry: Inner.Entry, at level: Int) {
      if level == rows.count { rows.append([]) }
      if rows[level].count == innerMax { addRow(level) }
      rows[level].append(entry)
    }

    /// Makes an inner page of the pages of a level.
    private mutating func addRow(_ level: Int) {
      guard let pivot = rows[level].first?.pivot else { return }
      let inner = Inner.make(rows[level])
      rows[level].removeAll(keepingCapacity: true)
      add(Inner.Entry(pivot: pivot, page: .inner(inner), total: inner.total), at: level + 1)
    }

    /// Returns the tree. Call once.
    mutating func finish() -> SortedTree {
      guard let leaf = leaf.take() else { return SortedTree() }
      let last = leaf.count == leafMax ? leaf : leaf.copy(capacity: leaf.count)
      if rows.isEmpty { return SortedTree(root: .leaf(last)) }
      add(last)
      var level = 0
      while level + 1 < rows.count || rows[level].count > 1 {
        addRow(level)
        level += 1
      }
      return SortedTree(root: rows[level][0].page)
    }

    /// Returns all elements, in order. Call instead of `finish`.
    mutating func finishAsArray() -> [Element] {
      var elements: [Element] = []
      finish().forEach {
        elements.append($0)
        return true
      }
      return elements
    }
  }
}
