/// Counts the memory of trees, and the differences that changes make.
///
///     var count = MemoryCount()
///     count.add(root)                                 // O(size)
///     count.addDifference(from: root, to: changed)    // O(log n) for each location that differs
///     count.bytes                                     // the memory of `changed`
///
/// A value that stands in several locations counts in each of them. Otherwise the numbers are those of `NodeMemory`.
/// They depend on the pages alone, so the differences of all changes lead to the number of a new count.
public struct MemoryCount: Sendable {
  /// The bytes that were counted.
  public private(set) var bytes = 0
  /// The nodes that were visited as added or removed ones.
  public private(set) var steps = 0
  private var stepsLeft: Int
  private var rest: [(node: Node, sign: Int)] = []
  /// Whether removed branches are kept for `growth`.
  private var keepsRemoved = false

  /// Creates a count.
  ///
  /// - Parameter stepsMax: the children of added and removed nodes that are counted at once. Further nodes are kept, and
  ///   counted by `finish`.
  public init(stepsMax: Int = .max) {
    stepsLeft = stepsMax
  }

  /// Whether everything is counted.
  public var isComplete: Bool { rest.isEmpty }

  /// Counts the nodes that were kept. O(size)
  public mutating func finish() {
    stepsLeft = .max
    while let (node, sign) = rest.popLast() { add(node, sign) }
  }

  /// Adds the memory of a node.
  public mutating func add(_ node: Node) { add(node, 1) }

  /// Adds one of several parts of the memory of a node, to count them at the same time. Each part has its share of the
  /// children of each child.
  ///
  /// - Precondition: `part` is at least 0 and less than `parts`. The number of steps has no bound.
  public mutating func add(_ node: Node, part: Int, of parts: Int) {
    guard let pages = node.pages else { return part == 0 ? add(node) : () }
    if part == 0 { bytes += node.ownMemory }
    pages.forEach { child in
      if part == 0 { bytes += child.key.ownMemory + child.node.ownMemory }
      child.node.pages?.forEach(inPart: part, of: parts) { add($0, 1) }
      return true
    }
  }

  /// Returns the bytes that a new version of a tree has besides those of the old one. If that is 0 or less, it is not
  /// smaller than the exact number.
  ///
  /// - Complexity: O(log n) for each location that differs, and O(added nodes). Of a branch that only the old version
  ///   has, no more is counted than makes up for the added nodes.
  public static func growth(from old: Node, to new: Node) -> Int {
    var count = MemoryCount()
    count.keepsRemoved = true
    count.addDifference(from: old, to: new)
    while count.bytes > 0, let (node, sign) = count.rest.popLast() {
      count.bytes += sign * node.ownMemory
      node.pages?.forEach { child in
        WorkCounter.touch()
        count.add(child, sign)
        return count.bytes > 0
      }
    }
    return count.bytes
  }

  private mutating func add(_ node: Node, _ sign: Int) {
    let pages = node.pages
    if keepsRemoved, sign < 0, pages != nil { return rest.append((node, sign)) }
    let steps = 1 + (pages?.count ?? 0)
    guard steps <= stepsLeft else { return rest.append((node, sign)) }
    stepsLeft -= steps
    self.steps += 1
    WorkCounter.touch()
    bytes += sign * node.ownMemory
    pages?.forEach { child in
      add(child, sign)
      return true
    }
  }

  private mutating func add(_ child: Child, _ sign: Int) {
    bytes += sign * child.key.ownMemory
    add(child.node, sign)
  }

  /// Adds the memory that a new version of a node has besides that of the old one; less if it is smaller. Parts that both
  /// share are skipped.
  public mutating func addDifference(from old: Node, to new: Node) {
    if old.isSameObject(as: new) { return }
    guard let before = old.pages, let after = new.pages else {
      add(old, -1)
      return add(new, 1)
    }
    bytes += new.boxMemory - old.boxMemory
    let pages = Children.memoryDifference(from: before, to: after) { old, new in
      switch (old, new) {
      case (let old?, let new?): addDifference(from: old.node, to: new.node)
      case (let old?, nil): add(old, -1)
      case (nil, let new?): add(new, 1)
      case (nil, nil): break
      }
    }
    bytes += pages
    let (indexes, others) = (old.indexes, new.indexes)
    if indexes.count == others.count, zip(indexes, others).allSatisfy({ $0.order == $1.order }) {
      for (index, other) in zip(indexes, others) {
        bytes += OrderIndex.memoryDifference(from: index, to: other)
      }
    } else {
      bytes += others.reduce(0) { $0 + $1.memoryBytes } - indexes.reduce(0) { $0 + $1.memoryBytes }
    }
  }
}

extension Node {
  /// The children, if they have pages.
  fileprivate var pages: Children? {
    switch storage {
    case .branch(let children): children
    case .indexed(let box): box.children
    case .prioritized(let box): box.node.pages
    default: nil
    }
  }

  /// The bytes of the objects around the pages of the children and of the indexes.
  fileprivate var boxMemory: Int {
    switch storage {
    case .indexed(let box): box.ownMemory
    case .prioritized(let box):
      Prioritized.memoryBytes + box.priority.ownMemory + box.node.boxMemory
    default: 0
    }
  }

  /// Whether both are the same object, with the same indexes.
  fileprivate func isSameObject(as other: Node) -> Bool {
    switch (storage, other.storage) {
    case (.branch(let a), .branch(let b)): a.isIdentical(to: b)
    case (.packed(let a), .packed(let b)): a.identity == b.identity
    case (.indexed(let a), .indexed(let b)): a === b
    case (.prioritized(let a), .prioritized(let b)): a === b
    default: false
    }
  }
}

extension OrderIndex {
  /// Returns the memory that a new version of an index has besides that of the old one. O(log n) for each position that
  /// differs.
  fileprivate static func memoryDifference(from old: OrderIndex, to new: OrderIndex) -> Int {
    var bytes = 0
    func text(_ position: Position?) -> Int {
      position?.value.indexedTextBytes(in: new.order) ?? 0
    }
    let pages = SortedTree.memoryDifference(from: old.positions, to: new.positions) { old, new in
      bytes += text(new) - text(old)
    }
    bytes += pages
    guard let keys = old.keys, let others = new.keys else { return bytes }
    return bytes + SortedTree.memoryDifference(from: keys, to: others) { _, _ in }
  }
}
