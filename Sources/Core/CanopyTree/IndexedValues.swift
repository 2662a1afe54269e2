/// The large values of a write that have their indexes already, for one index plan.
struct IndexedValues: Sendable {
  let plan: IndexPlan
  fileprivate(set) var values: [Location: Node] = [:]

  /// Adds the values of a later write, unless they have the indexes of another plan.
  mutating func add(_ later: IndexedValues) {
    if later.plan == plan { values.merge(later.values) { $1 } }
  }

  /// Whether an assignment has a value with all indexes of its location. O(1)
  func holds(_ assignment: Assignment) -> Bool {
    guard let value = values[assignment.location] else { return false }
    return value.isSameVersion(as: assignment.value)
  }
}

extension Node {
  /// Whether both are the same version of the same node, with the same indexes.
  fileprivate func isSameVersion(as other: Node) -> Bool {
    if case (.indexed(let a), .indexed(let b)) = (storage, other.storage) { return a === b }
    return hasNoIndexes && other.hasNoIndexes && isIdentical(to: other)
  }

  private var hasNoIndexes: Bool {
    if case .indexed = storage { false } else { true }
  }
}

extension Write {
  /// Adds the indexes of a plan to the values, if together they have more bytes of JSON than the bound. So the writer
  /// need not sort their children. Call it before `encodeValues` and before the write is given to the engine, on a
  /// thread that may be held.
  ///
  /// If the engine has another plan when it makes the write, it adds the indexes itself.
  ///
  /// - Complexity: O(n log n) for n children of the values at the patterns of the plan.
  public mutating func addIndexes(of plan: IndexPlan, over bytesMax: Int) {
    var budget = bytesMax
    guard !assignments.allSatisfy({ $0.value.fits(budget: &budget) }) else { return }
    var indexed = IndexedValues(plan: plan)
    for index in assignments.indices where assignments[index].value.isBranch {
      let location = assignments[index].location
      plan.matches(at: location.path)?.attach(&assignments[index].value)
      // A server value changes the indexes when it is resolved, and may begin a branch that lacks one.
      if serverValues(at: index).isEmpty { indexed.values[location] = assignments[index].value }
    }
    encodedValues = nil
    indexedValues = indexed
  }

  /// Returns the indexed values of this write for the same write of another location; nil if the plan has other indexes
  /// there.
  func indexedValues(movedTo location: Location) -> IndexedValues? {
    guard let indexed = indexedValues, let assignment = assignments.first,
      indexed.holds(assignment),
      indexed.plan.hasSameIndexes(at: assignment.location.path, location.path)
    else { return nil }
    var moved = IndexedValues(plan: indexed.plan)
    moved.values[location] = assignment.value
    return moved
  }
}
