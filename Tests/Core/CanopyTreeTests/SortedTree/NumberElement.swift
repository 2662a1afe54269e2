@testable import CanopyTree

/// A number with a key, as an element of a `SortedTree`.
struct NumberElement: SortedElement, Equatable {
  var sortKey: Int
  var value: Int

  static var leafMax: Int { 32 }
  var isPlain: Bool { true }
}

typealias NumberTree = SortedTree<NumberElement>

extension SortedTree {
  /// All elements, in order.
  var elements: [Element] {
    var all: [Element] = []
    forEach {
      all.append($0)
      return true
    }
    return all
  }

  /// The identity of every page, root first.
  var pageIdentities: [ObjectIdentifier] {
    func identities(_ page: Page) -> [ObjectIdentifier] {
      switch page {
      case .leaf(let leaf): [ObjectIdentifier(leaf)]
      case .inner(let inner):
        [ObjectIdentifier(inner)] + inner.withEntries { $0.map(\.page) }.flatMap(identities)
      }
    }
    return identities(root)
  }

  /// The number of levels of pages.
  var levels: Int {
    var page = root
    var levels = 1
    while case .inner(let inner) = page {
      page = inner.withEntries { $0[0].page }
      levels += 1
    }
    return levels
  }
}

extension NumberTree {
  init(_ keys: some Collection<Int>) {
    self.init(ascending: keys.map { NumberElement(sortKey: $0, value: $0) })
  }
}

/// The model of a `SortedTree`: a sorted array.
struct SortedArray {
  private(set) var elements: [NumberElement] = []

  private func position(_ key: Int) -> Int {
    elements.firstIndex { $0.sortKey >= key } ?? elements.count
  }

  mutating func insert(_ element: NumberElement) {
    let i = position(element.sortKey)
    if i < elements.count, elements[i].sortKey == element.sortKey {
      elements[i] = element
    } else {
      elements.insert(element, at: i)
    }
  }

  mutating func remove(_ key: Int) {
    let i = position(key)
    if i < elements.count, elements[i].sortKey == key { elements.remove(at: i) }
  }
}
