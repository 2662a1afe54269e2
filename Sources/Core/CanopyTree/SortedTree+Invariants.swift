extension SortedTree {
  /// Returns a description of the first violated structural invariant; nil if there is none. For
  /// tests and `canopy verify`.
  ///
  /// - Complexity: O(n).
  func brokenInvariant() -> String? {
    var previous: SortKey?
    var problem: String?
    forEach { element in
      if let previous, !(previous < element.sortKey) { problem = "keys do not ascend strictly" }
      previous = element.sortKey
      return problem == nil
    }
    return problem ?? Self.check(root, isRoot: true, above: nil, notBelow: nil).problem
  }

  private static func check(
    _ page: Page, isRoot: Bool, above: SortKey?, notBelow: SortKey?
  ) -> (depth: Int, problem: String?) {
    switch page {
    case .leaf(let leaf):
      return leaf.withElements { elements in
        if elements.isEmpty, !isRoot { return (1, "an empty page below the root") }
        if elements.count > leafMax { return (1, "a page is too full") }
        for element in elements {
          if let notBelow, element.sortKey < notBelow { return (1, "a key is below its pivot") }
          if let above, element.sortKey >= above { return (1, "a key is not below the next pivot") }
        }
        return (1, nil)
      }
    case .inner(let inner):
      return inner.withEntries { entries in
        if entries.count < (isRoot ? 2 : 1) { return (0, "an inner page has too few children") }
        if entries.count > innerMax { return (0, "an inner page has too many children") }
        if inner.total != entries.reduce(0, { $0 + $1.total }) {
          return (0, "the total of a page is not that of its children")
        }
        var depths: Set<Int> = []
        for (i, entry) in entries.enumerated() {
          if entry.total != entry.page.total { return (0, "a child's total is stale") }
          let (depth, problem) = check(
            entry.page, isRoot: false,
            above: i + 1 < entries.count ? entries[i + 1].pivot : above,
            notBelow: i == 0 ? notBelow : entry.pivot)
          if let problem { return (0, problem) }
          depths.insert(depth)
        }
        guard depths.count == 1, let depth = depths.first else {
          return (0, "leaves at different depths")
        }
        return (depth + 1, nil)
      }
    }
  }
}
