/// One version of the whole database: the root node, and the plan of the indexes that it keeps.
///
/// A value: a version that a reader holds never changes.
public struct Tree: Sendable {
  /// The root.
  public private(set) var root: Node
  /// The indexes that every version keeps.
  public private(set) var indexPlan: IndexPlan

  /// A tree with these contents. O(what the plan covers).
  public init(root: Node = .absent, indexPlan: IndexPlan = IndexPlan()) {
    self.root = root
    self.indexPlan = indexPlan
    indexPlan.matches.attach(&self.root)
  }

  /// Keeps one more index from now on. O(n log n) for the children at the places that match.
  public mutating func keepIndex(_ order: Order, at pattern: [Key?]) {
    indexPlan.declare(order, at: pattern)
    indexPlan.matches.attach(&root)
  }

  /// Carries out assignments that do not overlap.
  ///
  /// O(depth × log siblings) for each, whatever the sizes of the subtrees around it; and O(size) for
  /// an assigned node in which the plan wants indexes.
  ///
  /// - Returns: assignments that come to the same, and that lead to the same tree also when a run of
  ///   commits is applied a second time. See `Assignment`.
  @discardableResult
  public mutating func apply(_ assignments: [Assignment]) -> [Assignment] {
    guard !assignments.isEmpty else { return [] }
    var application = Application(isMulti: assignments.count > 1)
    let sorted = assignments.sortedByLocation()
    application.apply(sorted[...], to: &root, depth: 0, plan: indexPlan.matches)
    return application.touchesPriorities ? repeatable(sorted) : sorted
  }

  /// The assignments made independent of what stood there before, after they were applied.
  ///
  /// A branch loses its priority with its last child and keeps it otherwise. Which of the two it is
  /// depends on the children there are, and a second application may find children that were only
  /// added later. So the outcome is written down: what has vanished, as removed from the uppermost
  /// place that is empty now; what has a priority, with that priority.
  private func repeatable(_ assignments: [Assignment]) -> [Assignment] {
    var result: [Location: Node] = [:]
    for assignment in assignments {
      let path = assignment.location.path
      var node = root
      var depth = 0
      while depth < path.count, !node.isAbsent {
        if !node.priority.isAbsent {
          result[Location(path.prefix(depth), isPriority: true)] = node.priority
        }
        node = node.child(path.keys[depth])
        depth += 1
      }
      if node.isAbsent {
        result[Location(path.prefix(depth))] = .absent
      } else {
        result[assignment.location] = assignment.value
      }
    }
    return result.map { Assignment($0, $1) }.sortedByLocation()
  }
}

extension [Assignment] {
  /// In the order of their locations, in which they mostly are already.
  func sortedByLocation() -> [Assignment] {
    let isSorted = zip(self, dropFirst()).allSatisfy { $0.location < $1.location }
    return isSorted ? self : sorted { $0.location < $1.location }
  }
}

/// The carrying out of one commit's assignments.
private struct Application {
  /// Whether there is more than one assignment, so that subtrees may be shared.
  let isMulti: Bool

  /// What came of changing a subtree that stands in more than one place.
  ///
  /// When a commit does the same to two copies that share their memory (a star on a post in `/posts`
  /// and in `/user-posts`), the copies share it afterwards as well. A subtree is known by its identity:
  /// that of its root page, or of its record. That is safe though no reference is held: each place is
  /// visited once, so every identity looked up is that of what already existed when the commit began.
  private var changed: [ObjectIdentifier: (group: ArraySlice<Assignment>, depth: Int, node: Node)] =
    [:]

  /// Whether the node that is being changed is in a record. Such a node is made for the moment, so its
  /// address may have been another's in the same commit.
  private var isInRecord = false

  /// Whether a priority was assigned, or a node that had one was changed.
  private(set) var touchesPriorities = false

  init(isMulti: Bool) {
    self.isMulti = isMulti
  }

  /// - Parameters:
  ///   - group: the assignments at and below `node`, in order.
  ///   - depth: the number of keys that lead to `node`.
  mutating func apply(
    _ group: ArraySlice<Assignment>, to node: inout Node, depth: Int, plan: IndexPlan.Matches?
  ) {
    var rest = group
    var priority: Node?
    let oldPriority = node.priority
    if !oldPriority.isAbsent { touchesPriorities = true }
    if let first = rest.first, first.location.path.count == depth {
      guard first.location.isPriority else {
        node = first.value
        plan?.attach(&node)
        return
      }
      priority = first.value
      touchesPriorities = true
      rest.removeFirst()
    }
    let wasInRecord = isInRecord
    if node.record != nil { isInRecord = true }
    defer { isInRecord = wasInRecord }
    while let key = rest.first?.location.path.keys[depth] {
      let end = rest.firstIndex { $0.location.path.keys[depth] != key } ?? rest.endIndex
      let below = rest[..<end]
      rest = rest[end...]
      node.modifyChild(key) {
        applyOnce(below, to: &$0, depth: depth + 1, plan: plan?.child(key))
      }
    }
    plan?.attachHere(&node)
    if let priority {
      node = node.withPriority(priority)
    } else if !oldPriority.isAbsent, node.priority.isAbsent {
      // One assignment took the last child and a later one brought another: as a whole they keep
      // the priority, whichever comes first.
      node = node.withPriority(oldPriority)
    }
  }

  private mutating func applyOnce(
    _ group: ArraySlice<Assignment>, to node: inout Node, depth: Int, plan: IndexPlan.Matches?
  ) {
    guard isMulti, plan == nil, !isInRecord, let identity = node.identity else {
      return apply(group, to: &node, depth: depth, plan: plan)
    }
    if let earlier = changed[identity],
      Application.isSame(earlier.group, earlier.depth, group, depth)
    {
      node = earlier.node
      return
    }
    apply(group, to: &node, depth: depth, plan: plan)
    changed[identity] = (group, depth, node)
  }

  private static func isSame(
    _ a: ArraySlice<Assignment>, _ depthA: Int, _ b: ArraySlice<Assignment>, _ depthB: Int
  ) -> Bool {
    a.count == b.count
      && zip(a, b).allSatisfy { a, b in
        a.location.isPriority == b.location.isPriority
          && a.location.path.keys[depthA...] == b.location.path.keys[depthB...]
          && a.value.isIdentical(to: b.value)
      }
  }
}
