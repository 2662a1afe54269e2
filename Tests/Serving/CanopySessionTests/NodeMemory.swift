import Foundation

@testable import CanopyTree

extension Node {
  /// The bytes that the allocator has given for the node: its pages, packed branches, priorities, and long keys and
  /// strings.
  var measuredBytes: Int {
    switch storage {
    case .absent, .bool, .integer, .double: 0
    case .string(let text): measured(text)
    case .branch(let children): children.measuredBytes { measured($0) }
    case .packed(let packed): measured(packed)
    case .indexed(let branch):
      measured(branch) + branch.children.measuredBytes { measured($0) }
        + branch.indexes.reduce(32) { sum, index in
          sum + MemoryLayout<OrderIndex>.stride + index.positions.measuredBytes { _ in 0 }
            + (index.keys?.measuredBytes { _ in 0 } ?? 0)
        }
    case .prioritized(let prioritized):
      measured(prioritized) + prioritized.node.measuredBytes + prioritized.priority.measuredBytes
    }
  }
}

extension Node {
  /// The bytes that the allocator has given for the parts of the node that another version does not share, as
  /// `measuredBytes`. The branches of both have the same children, or more in this version.
  func measuredBytes(besides other: Node) -> Int {
    if isIdentical(to: other) { return 0 }
    switch storage {
    case .absent, .bool, .integer, .double: return 0
    case .string(let text): return measured(text)
    case .packed(let packed): return measured(packed)
    case .branch(let children): return children.measuredBytes(besides: other)
    case .indexed(let branch):
      var bytes = measured(branch) + branch.children.measuredBytes(besides: other)
      for (index, otherIndex) in zip(branch.indexes, other.indexes) {
        bytes += index.positions.pageBytes(besides: otherIndex.positions)
        if let keys = index.keys, let otherKeys = otherIndex.keys {
          bytes += keys.pageBytes(besides: otherKeys)
        }
      }
      return bytes
    case .prioritized(let prioritized):
      return measured(prioritized) + prioritized.node.measuredBytes(besides: other.withoutPriority)
    }
  }
}

extension SortedTree<Child> {
  fileprivate func measuredBytes(besides other: Node) -> Int {
    var bytes = other.children.map { pageBytes(besides: $0) } ?? measuredBytes { _ in 0 }
    forEach {
      bytes += $0.node.measuredBytes(besides: other.child($0.key))
      return true
    }
    return bytes
  }
}

extension SortedTree {
  /// The bytes of the pages that another version does not share.
  fileprivate func pageBytes(besides other: SortedTree) -> Int {
    var shared: Set<ObjectIdentifier> = []
    SortedTree.forEachPage(other.root) { page, _ in
      shared.insert(page.identity)
      return true
    }
    var bytes = 0
    SortedTree.forEachPage(root) { page, object in
      if shared.contains(page.identity) { return false }
      bytes += measured(object)
      return true
    }
    return bytes
  }

  private static func forEachPage(_ page: Page, _ body: (Page, AnyObject) -> Bool) {
    switch page {
    case .leaf(let leaf): _ = body(page, leaf)
    case .inner(let inner):
      guard body(page, inner) else { return }
      inner.withEntries { for entry in $0 { forEachPage(entry.page, body) } }
    }
  }

  fileprivate func measuredBytes(_ element: (Element) -> Int) -> Int {
    SortedTree.measuredBytes(root, element)
  }

  private static func measuredBytes(_ page: Page, _ element: (Element) -> Int) -> Int {
    switch page {
    case .leaf(let leaf): leaf.withElements { measured(leaf) + $0.reduce(0) { $0 + element($1) } }
    case .inner(let inner):
      inner.withEntries { measured(inner) + $0.reduce(0) { $0 + measuredBytes($1.page, element) } }
    }
  }
}

/// The bytes of the key of a child and of its node.
private func measured(_ child: Child) -> Int {
  let key = if case .long(let bytes) = child.key.form { allocated(32 + bytes.count) } else { 0 }
  return key + child.node.measuredBytes
}

/// The bytes of the text of a packed branch, and of the table of its members.
private func measured(_ packed: PackedBranch) -> Int {
  allocated(24 + 2 * packed.childCount + packed.byteCount)
}

/// The bytes of the object of a string that has one.
private func measured(_ text: String) -> Int {
  text.utf8.count < 16 ? 0 : allocated(32 + text.utf8.count + 1)
}

/// The bytes of an object with the elements in it.
private func measured(_ object: AnyObject) -> Int {
  usableSize.map { allocated($0(Unmanaged.passUnretained(object).toOpaque())) } ?? 0
}

private typealias UsableSize = @convention(c) @Sendable (UnsafeMutableRawPointer) -> Int

/// The function of the allocator that returns the bytes of an allocation.
private let usableSize = dlsym(nil, "malloc_usable_size").map {
  unsafeBitCast($0, to: UsableSize.self)
}

/// The bytes of the heap for an allocation: with the header of the allocator, in multiples of 16.
private func allocated(_ bytes: Int) -> Int {
  max(32, (bytes + 8 + 15) & ~15)
}
