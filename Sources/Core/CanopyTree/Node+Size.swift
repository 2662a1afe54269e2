/// The bytes of some values.
public struct ValueBytes: Sendable, Equatable {
  /// The bytes of their JSON, or a little more.
  public var json: Int
  /// The bytes of the memory that holds them, or a little more.
  public var memory: Int

  /// Creates the bytes of values.
  public init(json: Int = 0, memory: Int = 0) {
    (self.json, self.memory) = (json, memory)
  }

  /// Adds the bytes of other values.
  public static func += (bytes: inout ValueBytes, other: ValueBytes) {
    bytes.json += other.json
    bytes.memory += other.memory
  }

  /// Whether one reply or event may hold the values: they take half of the budget for the memory at most, or no more
  /// than their JSON. A client that does not read may soon be the only holder of their version. So each reply is
  /// charged with all of its memory, and a larger one would end its connection.
  public func mayBeHeld(_ limits: Limits) -> Bool {
    memory <= max(json, limits.memoryMax / 2)
  }
}

/// A bound on the JSON of values. It counts the memory of the values that are taken from it, with the same walk.
public struct ByteBudget: Sendable {
  private let bytesMax: Int
  /// The bytes of JSON that are left; below zero if a value did not fit.
  public var rest: Int
  /// The bytes of the memory of the values that were taken.
  public var memory = 0

  /// Creates a budget.
  ///
  /// - Parameter bytesMax: the bytes of JSON.
  public init(_ bytesMax: Int) {
    self.bytesMax = bytesMax
    rest = bytesMax
  }

  /// The bytes of the values that were taken.
  public var used: ValueBytes { ValueBytes(json: bytesMax - rest, memory: memory) }

  /// Takes the key of a member, and its place in an array of members.
  public mutating func takeMember(_ key: Key) {
    // `"key":value,`
    rest -= key.utf8Count + 4
    memory += ByteBudget.memberBytes + key.ownMemory
  }

  /// Takes the location of an assignment in an event, and its place in an array.
  public mutating func take(_ location: Location) {
    // `"path":value,`
    rest -= location.path.keys.reduce(4) { $0 + $1.utf8Count + 1 }
    memory += ByteBudget.assignmentBytes
    // The path, and its text twice while an event is sent.
    for key in location.path.keys {
      memory += MemoryLayout<Key>.stride + key.ownMemory + 2 * (key.utf8Count + 1)
    }
  }

  /// The bytes of a key and a node in an array, which grows by doubling.
  private static let memberBytes = 2 * MemoryLayout<(key: Key, node: Node)>.stride
  /// The bytes of an assignment in an array, of the array of its path, and of its parts while its event is sent.
  private static let assignmentBytes = 400
}

extension Node {
  /// Whether the node's JSON certainly fits into `bytes`. A quick estimate.
  ///
  /// - Complexity: O(bytes), however large the node is.
  public func fits(bytes: Int) -> Bool {
    var budget = bytes
    return fits(budget: &budget)
  }

  /// Whether the node fits into the rest of a budget of bytes, which is reduced. If the last of
  /// several nodes fits, all fit.
  public func fits(budget: inout Int) -> Bool {
    var bytes = ByteBudget(budget)
    defer { budget = bytes.rest }
    return fits(budget: &bytes)
  }

  /// Whether the node fits into the rest of a budget, from which it is taken. If the last of several nodes fits, all
  /// fit.
  public func fits(budget: inout ByteBudget) -> Bool {
    budget.rest > 0 && spend(&budget)
  }

  /// The bytes of memory that the node holds, or a little more: an estimate up to a bound.
  ///
  /// - Complexity: O(children), but O(1) for a record and for a string.
  public func heldBytes(atMost bytesMax: Int) -> Int {
    // The node and its place.
    var budget = bytesMax - 64
    hold(&budget)
    return bytesMax - max(0, budget)
  }

  private func hold(_ budget: inout Int) {
    let hasPages = isBranch && !isPacked
    // Each child has a position in a page, so the pages of a branch with too many are not looked at.
    guard budget > 0, !hasPages || childCount <= budget / MemoryLayout<Child>.stride else {
      budget = 0
      return
    }
    budget -= ownMemory
    guard hasPages else { return }
    forEachChild { key, child in
      budget -= key.ownMemory
      child.hold(&budget)
      return budget > 0
    }
  }

  private func spend(_ budget: inout ByteBudget) -> Bool {
    switch value {
    case .absent, .bool: budget.rest -= 5
    case .integer, .double: budget.rest -= 24
    case .string(let text):
      budget.rest -= 2
      if budget.rest < text.utf8.count { return false }
      budget.rest -= text.withUTF8Bytes(JSONScan.escapedCount)
    case .branch:
      if let packed {
        // And the members that a priority adds, without its own value.
        budget.rest -= packed.byteCount + 13
        break
      }
      // `"k":v,` has at least six bytes.
      if childCount > budget.rest / 6 { return false }
      budget.rest -= 2
      var fits = true
      forEachChild { key, child in
        budget.rest -= key.utf8Count + 4
        budget.memory += key.ownMemory
        fits = budget.rest > 0 && child.spend(&budget)
        return fits
      }
      if !fits { return false }
    }
    budget.memory += ownMemory
    if case .prioritized(let box) = storage { return box.priority.spendPriority(&budget) }
    return budget.rest > 0
  }

  /// Takes the JSON of a priority. Its memory is that of the node that has it.
  private func spendPriority(_ budget: inout ByteBudget) -> Bool {
    let memory = budget.memory
    defer { budget.memory = memory }
    // `{".value":v,".priority":p}`
    budget.rest -= 24
    return budget.rest > 0 && spend(&budget)
  }
}
