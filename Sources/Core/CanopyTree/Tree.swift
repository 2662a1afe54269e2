/// One version of the whole database: the root node and its index plan.
///
/// A value: a version that a reader holds never changes.
public struct Tree: Sendable {
  /// The root node.
  public private(set) var root: Node
  /// The indexes that every version keeps.
  public private(set) var indexPlan: IndexPlan
  /// The most indexes that one location may keep, or more.
  public private(set) var ordersMax: Int
  /// The bytes that all calls of `apply` that count memory have added so far to the memory of the tree, or more. The
  /// memory that they freed is not taken off.
  ///
  /// A single call may add a page for one key. The number holds for the sum of many calls.
  public private(set) var addedMemoryMax = 0
  /// The bytes by which branches have grown so far because `apply` has unpacked them. The values that were assigned are
  /// not among them. A branch that several locations share counts once.
  public private(set) var unpackedBytes = 0

  /// Creates a tree.
  ///
  /// - Complexity: O(size of the subtrees that the plan covers).
  public init(root: Node = .absent, indexPlan: IndexPlan = IndexPlan()) {
    self.root = root
    self.indexPlan = indexPlan
    ordersMax = indexPlan.ordersMax
    indexPlan.matches.attach(&self.root)
  }

  /// Adds an index to the plan and builds it.
  ///
  /// - Complexity: O(n log n) for the children at matching locations.
  public mutating func keepIndex(_ order: Order, at pattern: [Key?]) {
    indexPlan.declare(order, at: pattern)
    ordersMax = indexPlan.ordersMax
    indexPlan.matches.attach(&root)
  }

  /// Applies assignments.
  ///
  /// - Parameters:
  ///   - write: the write from which they result, if its large values may have indexes already.
  ///   - countsMemory: whether `addedMemoryMax` is to have the memory of the values. Leave it out for values that the tree
  ///     had before, which may be very large.
  /// - Precondition: no location overlaps another.
  /// - Returns: equivalent assignments that lead to the same tree also when a run of commits is
  ///   applied a second time. See `Assignment`.
  /// - Complexity: O(depth × log siblings) for each, whatever the size of the subtrees around it;
  ///   and O(size) for an assigned node that needs indexes or whose memory is counted, unless it is one of the indexed
  ///   values of the write.
  @discardableResult
  public mutating func apply(
    _ assignments: [Assignment], of write: Write? = nil, countsMemory: Bool = false
  ) -> [Assignment] {
    guard !assignments.isEmpty else { return [] }
    let indexed = write?.indexedValues.flatMap { $0.plan == indexPlan ? $0 : nil }
    let sorted = assignments.sortedByLocation()
    assert(
      zip(sorted, sorted.dropFirst()).allSatisfy { !$0.location.overlaps(next: $1.location) },
      "two assignments overlap")
    let (changes, passesPriority) = root.withoutVainRemovals(sorted)
    var application = Application(
      changes, indexed: indexed, plan: indexPlan.matches, ordersMax: ordersMax,
      countsMemory: countsMemory)
    if !changes.isEmpty { application.apply(changes.indices, to: &root, depth: 0) }
    addedMemoryMax += application.addedMemoryMax
    unpackedBytes += application.unpackedBytes
    return passesPriority || application.touchesPriorities ? idempotent(sorted) : sorted
  }

  /// Returns equivalent assignments that do not depend on the tree before them. Call after applying
  /// them.
  ///
  /// A branch loses its priority with its last child and keeps it otherwise. The result depends on
  /// the other children, and a second application may find children that were added later. The
  /// returned assignments therefore state the result: a removed branch is removed at its uppermost
  /// empty location, and a remaining priority is assigned.
  private func idempotent(_ assignments: [Assignment]) -> [Assignment] {
    var result: [Assignment] = []
    result.reserveCapacity(assignments.count)
    var previous: Path?
    for assignment in assignments {
      let path = assignment.location.path
      // The result has the nodes that are also on the previous path.
      let known = previous?.sharedCount(with: path) ?? -1
      var node = root
      var depth = 0
      while depth < path.count, !node.isAbsent {
        if depth > known, !node.priority.isAbsent {
          result.append(Assignment(Location(path.prefix(depth), isPriority: true), node.priority))
        }
        node = node.child(path.keys[depth])
        depth += 1
      }
      if !node.isAbsent {
        result.append(assignment)
      } else if depth > known {
        result.append(Assignment(path.prefix(depth), .absent))
      }
      previous = path
    }
    return result
  }

  /// Whether at most `countMax` nodes above the locations of some assignments have a priority. The commit of the
  /// assignments has the priority of each of these nodes.
  ///
  /// Call it before applying the assignments, which should be ordered by location. Otherwise a node may count several
  /// times.
  ///
  /// - Complexity: O(assignments) if their paths have no more than `countMax` keys together, which is usual. Otherwise
  ///   O(depth × log siblings) for each assignment until the bound is passed.
  public func hasPriorities(above assignments: [Assignment], atMost countMax: Int) -> Bool {
    guard assignments.reduce(0, { $0 + $1.location.path.count }) > countMax else { return true }
    var count = 0
    var previous: Path?
    for assignment in assignments {
      let path = assignment.location.path
      let known = previous?.sharedCount(with: path) ?? -1
      var node = root
      for (depth, key) in path.keys.enumerated() {
        if node.isAbsent { break }
        if depth > known, !node.priority.isAbsent { count += 1 }
        node = node.child(key)
      }
      if count > countMax { return false }
      previous = path
    }
    return true
  }
}

extension [Assignment] {
  /// Returns the assignments ordered by location. They mostly are already.
  func sortedByLocation() -> [Assignment] {
    for i in indices.dropFirst() where !(self[i - 1].location < self[i].location) {
      return sorted { $0.location < $1.location }
    }
    return self
  }
}

/// The application of one commit's assignments.
///
/// A closure that changes a page copies what it captures at each level of the page. So the closures here capture only
/// numbers and this value, by its address: the assignments and the index plan stay here.
private struct Application {
  /// All assignments, ordered by location.
  let assignments: [Assignment]

  /// The values that have their indexes.
  let indexed: IndexedValues?

  /// The levels of the index plan that match the nodes on the way to the node that is being changed. Below the last one,
  /// no level matches.
  private var plans: [IndexPlan.Matches]

  /// The most indexes of one location.
  private let ordersMax: Int
  /// Whether the memory of the values is counted.
  private let countsMemory: Bool

  /// The bytes that are added to the memory of the tree, or more. See `Tree.addedMemoryMax`.
  private(set) var addedMemoryMax = 0
  /// See `Tree.unpackedBytes`.
  private(set) var unpackedBytes = 0

  /// The results for subtrees that may stand in more than one place.
  ///
  /// If a commit changes two copies that share their memory in the same way (a star on a post in
  /// `/posts` and in `/user-posts`), the copies share it afterwards too. The key is the identity of
  /// the root page or of the packed branch. No reference is held, which is safe: each location is
  /// visited once, so every identity looked up belongs to an object that existed when the commit
  /// began.
  private var changed: [ObjectIdentifier: Changed] = [:]
  /// The first of these results, which needs no dictionary: most commits look one up.
  private var firstChanged: (identity: ObjectIdentifier, result: Changed)?

  /// The result for a subtree, and the assignments that led to it.
  private struct Changed {
    let group: Range<Int>
    let depth: Int
    let node: Node
    let addedMemoryMax: Int
  }

  /// Whether the node that is being changed is inside a packed branch. Such a node is temporary, so
  /// its address may be that of an earlier one in the same commit.
  private var isInPackedBranch = false

  /// Whether a priority was assigned, or a node with a priority was changed.
  private(set) var touchesPriorities = false

  init(
    _ assignments: [Assignment], indexed: IndexedValues?, plan: IndexPlan.Matches, ordersMax: Int,
    countsMemory: Bool
  ) {
    self.assignments = assignments
    self.indexed = indexed
    self.ordersMax = ordersMax
    self.countsMemory = countsMemory
    plans = [plan]
  }

  /// Applies assignments at and below a node.
  ///
  /// - Parameters:
  ///   - group: the indices of the assignments.
  ///   - depth: the number of keys that lead to `node`.
  mutating func apply(_ group: Range<Int>, to node: inout Node, depth: Int) {
    var rest = group
    var priority: Node?
    let oldPriority = node.priority
    if !oldPriority.isAbsent { touchesPriorities = true }
    if node.isAbsent, depth > 0 {
      addKey(assignments[group.lowerBound].location.path.keys[depth - 1], depth: depth - 1)
    }
    if let first = rest.first, assignments[first].location.path.count == depth {
      guard assignments[first].location.isPriority else {
        node = assignments[first].value
        if depth < plans.count, indexed?.holds(assignments[first]) != true {
          plans[depth].attach(&node)
        }
        addMemory(of: node, depth: depth)
        return
      }
      priority = assignments[first].value
      addedMemoryMax += Prioritized.memoryBytes
      addMemory(of: assignments[first].value, depth: depth)
      touchesPriorities = true
      rest.removeFirst()
    }
    if priority == nil, depth >= plans.count, case .packed(let packed) = node.storage,
      let result = packed.assigning(assignments, group, depth: depth)
    {
      addedMemoryMax += max(0, result.ownMemory - packed.memoryBytes)
      if ordersMax > 0, countsMemory {
        for assignment in assignments[group] {
          addIndexedTexts(of: memory(of: assignment.value), depth: assignment.location.path.count)
        }
      }
      node = result
      return
    }
    let wasInPackedBranch = isInPackedBranch
    let (packedBytes, unpackedBefore) = (node.packed?.memoryBytes, unpackedBytes)
    if packedBytes != nil { isInPackedBranch = true }
    defer { isInPackedBranch = wasInPackedBranch }
    while let first = rest.first {
      let key = assignments[first].location.path.keys[depth]
      let end = assignments.endOfKey(at: depth, in: rest)
      rest = end..<rest.upperBound
      let hasPlan = enterPlan(of: key, depth: depth)
      node.modifyChild(key) { applyOnce(first..<end, to: &$0, depth: depth + 1) }
      // The child may have moved in each index, and each move may begin a page. An index by priority has its keys as well.
      for index in node.indexes {
        addedMemoryMax += (index.keys == nil ? 1 : 2) * Application.indexPageBytesMax
      }
      if hasPlan { plans.removeLast() }
    }
    if let packedBytes, node.packed == nil {
      addedMemoryMax += Application.memoryOfPackedByteMax * packedBytes
      unpackedBytes += node.unpackedMemory(besides: assignments[group], depth: depth)
      // The text of a branch inside another one is part of the other's.
      if !wasInPackedBranch { unpackedBytes = max(unpackedBefore, unpackedBytes - packedBytes) }
    }
    if depth < plans.count { plans[depth].attachHere(&node) }
    if let priority {
      node = node.withPriority(priority)
    } else if !oldPriority.isAbsent, node.priority.isAbsent {
      // One assignment removed the last child and a later one added another. Together they keep the
      // priority, in either sequence.
      node = node.withPriority(oldPriority)
    }
  }

  /// The bytes of the pages of a branch for each byte that it took while it was packed.
  private static let memoryOfPackedByteMax = 64

  /// Counts the memory of a new key: at most a page of one child, or its share of pages that are half full, and the same
  /// in each index.
  private mutating func addKey(_ key: Key, depth: Int) {
    let indexes = depth < plans.count ? ordersMax : 0
    addedMemoryMax += key.ownMemory + 320 + (384 + key.ownMemory) * indexes
  }

  /// The bytes of the largest page of an index, or more.
  private static let indexPageBytesMax = 1_792

  /// Counts the memory of a new value, which has its indexes. A text in it may also stand in the indexes above it.
  private mutating func addMemory(of value: Node, depth: Int) {
    guard countsMemory else { return }
    let bytes = memory(of: value)
    addedMemoryMax += bytes
    addIndexedTexts(of: bytes, depth: depth)
  }

  /// Returns the memory of a value with its indexes. O(1) for a value that was prepared, else O(size): the writer encodes
  /// such a value as well, which takes longer.
  private func memory(of value: Node) -> Int {
    if let bytes = indexed?.memory(of: value) { return bytes }
    var count = MemoryCount()
    count.add(value)
    return count.bytes
  }

  /// Counts the texts of a value of some bytes in the indexes above it: at most one text in each of them.
  private mutating func addIndexedTexts(of bytes: Int, depth: Int) {
    guard ordersMax > 0 else { return }
    addedMemoryMax += ordersMax * min(bytes, max(1, depth) * Application.indexedTextBytesMax)
  }

  /// The most bytes of a text in an index: those that are compared, the rest of a character, and those of the object.
  private static let indexedTextBytesMax =
    NodeMemory.allocated(NodeMemory.arrayBytes + OrderValue.comparedBytesMax + 32)

  /// Appends the levels of the plan that match a child of the node at a depth. Returns whether there are any.
  private mutating func enterPlan(of key: Key, depth: Int) -> Bool {
    guard depth < plans.count, let plan = plans[depth].child(key) else { return false }
    assert(depth == plans.count - 1, "a level of the plan was not left")
    plans.append(plan)
    return true
  }

  private mutating func applyOnce(_ group: Range<Int>, to node: inout Node, depth: Int) {
    // A single assignment shares nothing, and a node with a plan of its own may have other indexes elsewhere.
    guard assignments.count > 1, depth >= plans.count, !isInPackedBranch,
      let identity = node.identity
    else { return apply(group, to: &node, depth: depth) }
    let earlier =
      firstChanged?.identity == identity
      ? firstChanged?.result : changed.isEmpty ? nil : changed[identity]
    if let earlier, isSame(earlier.group, earlier.depth, group, depth) {
      node = earlier.node
      addedMemoryMax += earlier.addedMemoryMax
      return
    }
    let before = addedMemoryMax
    apply(group, to: &node, depth: depth)
    let result = Changed(
      group: group, depth: depth, node: node, addedMemoryMax: addedMemoryMax - before)
    if firstChanged == nil || firstChanged?.identity == identity {
      firstChanged = (identity, result)
    } else {
      changed[identity] = result
    }
  }

  private func isSame(_ a: Range<Int>, _ depthA: Int, _ b: Range<Int>, _ depthB: Int) -> Bool {
    a.count == b.count
      && zip(assignments[a], assignments[b]).allSatisfy { a, b in
        a.location.isPriority == b.location.isPriority
          && a.location.path.keys[depthA...] == b.location.path.keys[depthB...]
          && a.value.isIdentical(to: b.value)
      }
  }
}
