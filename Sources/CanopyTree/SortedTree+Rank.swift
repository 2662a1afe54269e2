extension SortedTree {
  /// The element with so many before it. O(log n).
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
