/// Counts the memory that a version of a node holds alone, when other versions replace parts of it.
///
/// A write copies more than the value at its location: the pages on the way to it, or the whole text of the packed
/// branch that contains it. Each of these objects is counted once, whatever number of locations it contains.
///
///     var memory = ReplacedMemory()
///     memory.count(location, in: node, atMost: .max)   // the value, and the pages on the way
///     memory.count(sibling, in: node, atMost: .max)    // the value
///
/// The node must stay in memory meanwhile: the objects are known by their addresses.
public struct ReplacedMemory: Sendable {
  private var counted: Set<ObjectIdentifier> = []

  /// The bytes for an object in the set.
  private static let entryBytes = 24

  /// Creates a count of no location.
  public init() {}

  /// Returns the bytes that the node holds alone from now on, because a write replaces the value at a location in it.
  ///
  /// - Parameters:
  ///   - isPriority: whether the write replaces only the priority there.
  ///   - isList: whether the node is a list of selected children, whose own pages are not shared with other versions.
  ///   - bytesMax: the bytes up to which the replaced value is measured.
  /// - Complexity: O(depth × log n), and O(children) of the replaced value.
  public mutating func count(
    _ path: Path, isPriority: Bool, in node: Node, isList: Bool, atMost bytesMax: Int
  ) -> Int {
    var node = node
    var bytes = 0
    var isOwnList = isList
    for (depth, key) in path.keys.enumerated() {
      if case .prioritized(let box) = node.storage {
        bytes += add(ObjectIdentifier(box), Prioritized.memoryBytes + box.priority.ownMemory)
        node = box.node
      }
      let child: Node
      switch node.storage {
      case .packed(let packed): return bytes + add(packed.identity, packed.memoryBytes)
      case .branch(let children):
        if !isOwnList { bytes += addPages(of: children, to: key) }
        child = children.node(key)
      case .indexed(let branch):
        child = branch.children.node(key)
        if isOwnList { break }
        bytes += add(ObjectIdentifier(branch), branch.ownMemory)
        bytes += addPages(of: branch.children, to: key)
        let rest = path.keys[(depth + 1)...]
        for index in branch.indexes where index.order.mayChange(rest, isPriority: isPriority) {
          bytes += addPages(of: index, to: key, child)
        }
      default: return bytes
      }
      node = child
      isOwnList = false
    }
    if isPriority {
      guard case .prioritized(let box) = node.storage else { return bytes }
      return bytes + add(ObjectIdentifier(box), Prioritized.memoryBytes + box.priority.ownMemory)
    }
    return node.isAbsent ? bytes : bytes + node.heldBytes(atMost: bytesMax)
  }

  private mutating func add(_ object: ObjectIdentifier, _ bytes: Int) -> Int {
    counted.insert(object).inserted ? bytes + ReplacedMemory.entryBytes : 0
  }

  private mutating func addPages<Element>(
    of tree: SortedTree<Element>, to key: Element.SortKey
  ) -> Int {
    var bytes = 0
    var page = tree.root
    while true {
      bytes += add(page.identity, page.ownMemory)
      guard case .inner(let inner) = page else { return bytes }
      page = inner.withEntries { $0[inner.childIndex(of: key)].page }
    }
  }

  /// Adds the pages from which a child's position is removed, and a page for its next position, which is not known.
  private mutating func addPages(of index: OrderIndex, to key: Key, _ child: Node) -> Int {
    var bytes = index.positions.root.fullPageBytes
    if !child.isAbsent {
      let position = Position(value: index.order.value(of: child), key: key)
      bytes += addPages(of: index.positions, to: position)
    }
    if let keys = index.keys { bytes += addPages(of: keys, to: key) }
    return bytes
  }
}

extension Order {
  /// Whether a write below a child may change the order value of the child.
  ///
  /// - Parameter rest: the keys of the path from the child to the location of the write.
  fileprivate func mayChange(_ rest: ArraySlice<Key>, isPriority: Bool) -> Bool {
    switch self {
    case .key: false
    case .value: rest.isEmpty
    case .priority: rest.isEmpty
    case .child(let path): zip(rest, path.keys).allSatisfy { $0 == $1 }
    }
  }
}
