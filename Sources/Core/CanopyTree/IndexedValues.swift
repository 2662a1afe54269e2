/// The large values of a write that have their indexes already, for one index plan, and the bytes of their memory.
struct IndexedValues: Sendable {
  let plan: IndexPlan
  fileprivate(set) var values: [Location: Node] = [:]
  /// The bytes of the values with their indexes, by the objects that hold them. `values` keeps these objects alive.
  private var memory: [ObjectIdentifier: Int] = [:]

  init(plan: IndexPlan) {
    self.plan = plan
  }

  /// Adds a value, and counts its memory. O(size)
  fileprivate mutating func add(_ value: Node, at location: Location) {
    values[location] = value
    guard let object = value.object, memory[object] == nil else { return }
    var count = MemoryCount()
    count.add(value)
    memory[object] = count.bytes
  }

  /// Returns the bytes of the memory of a value with its indexes; nil if they are not known. O(1)
  func memory(of value: Node) -> Int? { value.object.flatMap { memory[$0] } }

  /// Adds a value of another write, and its bytes.
  fileprivate mutating func add(_ value: Node, at location: Location, of other: IndexedValues) {
    values[location] = value
    if let object = value.object { memory[object] = other.memory[object] }
  }

  /// Adds the values of a later write, unless they have the indexes of another plan.
  mutating func add(_ later: IndexedValues) {
    guard later.plan == plan else { return }
    // A value that is replaced here may be freed, and its object may become another one.
    for (location, value) in later.values {
      if let old = values[location]?.object { memory[old] = nil }
      add(value, at: location, of: later)
    }
  }

  /// Takes over a value in which server values were set, with the indexes of the branches that they began. Does nothing if
  /// the value had no indexes before.
  ///
  /// - Parameters:
  ///   - paths: the paths of the server values.
  ///   - assignment: the location with its value, to which these indexes are added.
  /// - Complexity: O(depth × log n) for each path.
  mutating func set(_ paths: [Path], in assignment: inout Assignment) {
    let location = assignment.location
    guard let before = values[location] else { return }
    if let level = plan.matches(at: location.path) {
      for path in paths { level.attach(&assignment.value, along: path.keys[...]) }
    }
    values[location] = assignment.value
    guard let object = before.object, let bytes = memory.removeValue(forKey: object),
      let new = assignment.value.object
    else { return }
    memory[new] = max(0, bytes + MemoryCount.growth(from: before, to: assignment.value))
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

  /// The object that holds this version of a branch, with its indexes and its priority; nil for a leaf.
  fileprivate var object: ObjectIdentifier? {
    switch storage {
    case .branch(let children): children.identity
    case .packed(let packed): packed.identity
    case .indexed(let box): ObjectIdentifier(box)
    case .prioritized(let box): ObjectIdentifier(box)
    case .absent, .bool, .integer, .double, .string: nil
    }
  }
}

extension Write {
  /// Adds the indexes of a plan to the values, makes equal values one, and counts their memory, if together they have more
  /// bytes of JSON than the bound. So the writer need neither sort their children nor visit them. Call it before `encodeValues` and before the
  /// write is given to the engine, on a thread that may be held.
  ///
  /// If the engine has another plan when it makes the write, it adds the indexes and counts the memory itself.
  ///
  /// - Complexity: O(size), and O(n log n) for n children of the values at the patterns of the plan.
  public mutating func addIndexes(of plan: IndexPlan, over bytesMax: Int) {
    var budget = bytesMax
    guard !assignments.allSatisfy({ $0.value.fits(budget: &budget) }) else { return }
    var indexed = IndexedValues(plan: plan)
    for index in assignments.indices where assignments[index].value.isBranch {
      let location = assignments[index].location
      plan.matches(at: location.path)?.attach(&assignments[index].value)
    }
    // Values with other indexes stay two values.
    budget = .max
    assignments.shareEqualValues(budget: &budget) { plan.hasSameIndexes(at: $0, $1) }
    for assignment in assignments where assignment.value.isBranch {
      indexed.add(assignment.value, at: assignment.location)
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
    moved.add(assignment.value, at: location, of: indexed)
    return moved
  }
}

extension [Assignment] {
  /// Replaces equal branches at locations with the same last key by one node. A post that a client writes to two locations
  /// is parsed twice, but then kept and journaled once.
  ///
  /// - Parameters:
  ///   - budget: the bytes of JSON that are compared, which is reduced. Values beyond it stay as they are.
  ///   - mayShare: whether the values at two paths may be one.
  /// - Complexity: O(assignments), and O(bytes) up to the budget.
  mutating func shareEqualValues(budget: inout Int, _ mayShare: (Path, Path) -> Bool) {
    var seen: [Key: Int] = [:]
    for index in indices where self[index].value.isBranch {
      let path = self[index].location.path
      guard let key = path.last, let earlier = seen.updateValue(index, forKey: key) else {
        continue
      }
      let (first, value) = (self[earlier].value, self[index].value)
      guard !first.isIdentical(to: value), mayShare(self[earlier].location.path, path),
        value.fits(budget: &budget), first == value
      else { continue }
      self[index].value = first
    }
  }
}
