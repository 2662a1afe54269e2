extension SortedTree {
  /// Visits the elements in which two versions differ, in order, until `body` returns false.
  ///
  /// Skips pages that both versions share. Visits elements with equal keys unless `isSame` returns
  /// true.
  ///
  /// - Parameter body: receives the old element, the new element, or both.
  /// - Returns: whether the end was reached.
  /// - Complexity: O(log n) for each page that differs, however many elements there are.
  @discardableResult
  static func forEachDifference(
    from old: SortedTree, to new: SortedTree, isSame: (Element, Element) -> Bool,
    _ body: (Element?, Element?) -> Bool
  ) -> Bool {
    var a = Cursor(old)
    var b = Cursor(new)
    while true {
      switch (a.current, b.current) {
      case (.end, .end):
        return true
      case (.page(let page, let height), .page(let other, let otherHeight)):
        WorkCounter.touch()
        if page.identity == other.identity {
          a.advance()
          b.advance()
          continue
        }
        if height >= otherHeight { a.descend() }
        if height <= otherHeight { b.descend() }
      case (.page, _):
        a.descend()
      case (_, .page):
        b.descend()
      case (.element(let element), .end):
        guard body(element, nil) else { return false }
        a.advance()
      case (.end, .element(let element)):
        guard body(nil, element) else { return false }
        b.advance()
      case (.element(let x), .element(let y)):
        if x.sortKey == y.sortKey {
          guard isSame(x, y) || body(x, y) else { return false }
          a.advance()
          b.advance()
        } else if x.sortKey < y.sortKey {
          guard body(x, nil) else { return false }
          a.advance()
        } else {
          guard body(nil, y) else { return false }
          b.advance()
        }
      }
    }
  }

  /// Returns the memory of the pages that one version has and the other one lacks: that of the new ones less that of
  /// the old ones.
  ///
  /// - Parameter body: receives the old element, the new element, or both, of these pages.
  /// - Complexity: as `forEachDifference`.
  static func memoryDifference(
    from old: SortedTree, to new: SortedTree, _ body: (Element?, Element?) -> Void
  ) -> Int {
    var a = Cursor(old)
    var b = Cursor(new)
    var bytes = 0
    while true {
      switch (a.current, b.current) {
      case (.end, .end):
        return bytes
      case (.page(let page, let height), .page(let other, let otherHeight)):
        if page.identity == other.identity {
          a.advance()
          b.advance()
          continue
        }
        if height >= otherHeight {
          bytes -= page.ownMemory
          a.descend()
        }
        if height <= otherHeight {
          bytes += other.ownMemory
          b.descend()
        }
      case (.page(let page, _), _):
        bytes -= page.ownMemory
        a.descend()
      case (_, .page(let page, _)):
        bytes += page.ownMemory
        b.descend()
      case (.element(let element), .end):
        body(element, nil)
        a.advance()
      case (.end, .element(let element)):
        body(nil, element)
        b.advance()
      case (.element(let x), .element(let y)):
        if x.sortKey == y.sortKey {
          body(x, y)
          a.advance()
          b.advance()
        } else if x.sortKey < y.sortKey {
          body(x, nil)
          a.advance()
        } else {
          body(nil, y)
          b.advance()
        }
      }
    }
  }

  /// A cursor in a tree: before an element, or before a page that has not been entered.
  private struct Cursor {
    enum Current {
      case page(Page, height: Int)
      case element(Element)
      case end
    }

    /// The entered pages, outermost first, each with the index of its next element or child.
    private var stack: [(page: Page, next: Int)] = []
    private var root: Page?
    private let height: Int

    init(_ tree: SortedTree) {
      root = tree.root
      var height = 1
      var page = tree.root
      while case .inner(let inner) = page {
        height += 1
        page = inner.withEntries { $0[0].page }
      }
      self.height = height
    }

    var current: Current {
      if let root { return .page(root, height: height) }
      guard let top = stack.last else { return .end }
      switch top.page {
      case .leaf(let leaf): return .element(leaf.withElements { $0[top.next] })
      case .inner(let inner):
        return .page(inner.withEntries { $0[top.next].page }, height: height - stack.count)
      }
    }

    /// Enters the next page.
    mutating func descend() {
      guard case .page(let page, _) = current else { return }
      WorkCounter.touch()
      if root != nil {
        root = nil
      } else {
        stack[stack.count - 1].next += 1
      }
      stack.append((page, 0))
      leaveExhausted()
    }

    /// Skips the next element or page.
    mutating func advance() {
      if root != nil {
        root = nil
        return
      }
      stack[stack.count - 1].next += 1
      leaveExhausted()
    }

    private mutating func leaveExhausted() {
      while let top = stack.last, top.next >= top.page.count { stack.removeLast() }
    }
  }
}

extension SortedTree.Page {
  /// The identity of the page, unique among all pages that exist at the same time.
  var identity: ObjectIdentifier {
    switch self {
    case .leaf(let leaf): ObjectIdentifier(leaf)
    case .inner(let inner): ObjectIdentifier(inner)
    }
  }
}
