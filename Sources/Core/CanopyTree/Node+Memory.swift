/// Estimates of the memory that nodes hold.
///
/// A value that waits for its reader shares its memory with the tree at first. When the tree has moved on, only the
/// value holds its pages. So a value is charged with all of its memory, also while the tree has the same pages. The
/// JSON says little about it. The member `"1":true,` has nine bytes, and takes 59 in full pages. A branch with one
/// child adds six bytes to the JSON of the child, and takes a page of its own: 80 bytes, or 224 if the child was added
/// by a change.
///
/// The estimates follow the layout of the objects, and the sizes in which glibc hands out memory. `NodeMemoryTests`
/// compares them with the bytes that it has handed out: they differ by less than 3 % below and 10 % above.
enum NodeMemory {
  /// The bytes that the allocator takes for an object of a size: a multiple of 16, with 8 bytes of its own.
  static func allocated(_ bytes: Int) -> Int { max(32, (bytes + 8 + 15) & ~15) }

  /// The head of each object: its type and its reference count.
  static let objectBytes = 16

  /// The bytes of a text or an array besides its elements.
  static let arrayBytes = 32

  /// Returns the bytes that a string has outside of the position where it stands. Up to 15 bytes fit in that position.
  static func bytes(of text: String) -> Int {
    let count = text.utf8.count
    // With a zero at the end, in steps of 16 bytes.
    return count <= 15 ? 0 : allocated((arrayBytes + count + 1 + 15) & ~15)
  }
}

extension Node {
  /// The bytes that the node itself has outside of the position where it stands, without those of its children. O(1);
  /// O(pages) for a branch that is not packed, and O(children) for each of its indexes.
  var ownMemory: Int {
    switch storage {
    case .absent, .bool, .integer, .double: 0
    case .string(let text): NodeMemory.bytes(of: text)
    case .branch(let children): children.memoryBytes
    case .packed(let packed): packed.memoryBytes
    case .indexed(let box): box.memoryBytes
    case .prioritized(let box):
      Prioritized.memoryBytes + box.node.ownMemory + box.priority.ownMemory
    }
  }
}

extension Key {
  /// The bytes that the key has outside of the position where it stands. O(1)
  var ownMemory: Int {
    if case .long(let bytes) = form {
      NodeMemory.allocated(NodeMemory.arrayBytes + bytes.count)
    } else {
      0
    }
  }
}

extension SortedTree {
  /// The bytes of the pages, without those that the elements have elsewhere. O(pages)
  var memoryBytes: Int { root.memoryBytes }
}

extension SortedTree.Page {
  /// The bytes of the page alone. O(1)
  var ownMemory: Int {
    switch self {
    case .leaf(let leaf):
      NodeMemory.allocated(
        NodeMemory.objectBytes + MemoryLayout<LeafHeader>.stride
          + leaf.slots * MemoryLayout<Element>.stride)
    case .inner(let inner):
      NodeMemory.allocated(
        NodeMemory.objectBytes + MemoryLayout<InnerHeader>.stride
          + inner.slots * MemoryLayout<SortedTree.Inner.Entry>.stride)
    }
  }

  /// The bytes of a full leaf page. O(1)
  var fullPageBytes: Int {
    NodeMemory.allocated(
      NodeMemory.objectBytes + MemoryLayout<LeafHeader>.stride
        + SortedTree.leafMax * MemoryLayout<Element>.stride)
  }

  fileprivate var memoryBytes: Int {
    switch self {
    case .leaf: ownMemory
    case .inner(let inner):
      inner.withEntries { entries in entries.reduce(ownMemory) { $0 + $1.page.memoryBytes } }
    }
  }
}

extension PackedBranch {
  /// The bytes of the memory. O(1)
  var memoryBytes: Int {
    NodeMemory.allocated(
      NodeMemory.objectBytes + MemoryLayout<Header>.stride + childCount * OffsetTable.stride
        + byteCount)
  }
}

extension Prioritized {
  /// The bytes of the object: a node, a priority and a mark.
  static let memoryBytes = NodeMemory.allocated(
    NodeMemory.objectBytes + 2 * MemoryLayout<Node>.stride + MemoryLayout<UInt32>.stride)
}

extension IndexedBranch {
  /// The bytes of the pages of the children and of all indexes. O(pages); the texts of the indexes:
  /// O(children).
  fileprivate var memoryBytes: Int {
    indexes.reduce(ownMemory + children.memoryBytes) { $0 + $1.memoryBytes }
  }

  /// The bytes of the object, and of its array. O(1)
  var ownMemory: Int {
    NodeMemory.allocated(
      NodeMemory.objectBytes + MemoryLayout<Children>.stride + MemoryLayout<[OrderIndex]>.stride)
      + NodeMemory.allocated(
        NodeMemory.arrayBytes + indexes.count * MemoryLayout<OrderIndex>.stride)
  }
}

extension OrderIndex {
  var memoryBytes: Int {
    var bytes = positions.memoryBytes + (keys?.memoryBytes ?? 0)
    positions.forEach { position in
      bytes += position.value.indexedTextBytes(in: order)
      return true
    }
    return bytes
  }
}
