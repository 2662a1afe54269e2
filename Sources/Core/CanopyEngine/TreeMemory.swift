internal import CanopyTree

/// The memory of the tree of an engine, with a bound that the writes of users must not exceed.
///
/// The engine asks before it accepts a commit, so the bound holds for the tree as it is then. Far from the bound it counts
/// the most that a commit can add: the memory of its values, as if it replaced nothing. The memory of large values is
/// counted before the engine gets them. Near the bound it measures what the commit adds, less what it replaces.
///
/// The methods are called on the engine's thread.
public protocol TreeMemory: AnyObject, Sendable {
  /// Whether commits are to be measured soon. Then the engine keeps the tree before each commit.
  var isNearBound: Bool { get }

  /// Takes back the bytes that were admitted since the last call and not published. The engine calls it before a batch,
  /// and when a batch has failed.
  func beginBatch()

  /// Counts a commit that adds at most some bytes, unless that may be too much. Then it is to be measured.
  func admit(atMost bytes: Int) -> Bool

  /// Counts the measured bytes that a commit adds; less than 0 if the tree gets smaller.
  ///
  /// - Parameter isBounded: whether the commit must not exceed the bound.
  /// - Returns: whether the commit may be made.
  func admit(_ bytes: Int, isBounded: Bool) -> Bool
}

/// The bytes that a commit adds to the memory of a tree.
public enum TreeGrowth: Sendable {
  /// The measured bytes. Of a commit that makes the tree smaller, they may be more than the exact number.
  case measured(Int)
  /// The most bytes that the commit can add.
  case atMost(Int)
}

/// A reference that does not keep its memory alive.
struct WeakTreeMemory: Sendable {
  weak let memory: (any TreeMemory)?
}

extension Batch {
  /// Counts what a commit adds to the memory of the tree, when it has been applied.
  ///
  /// - Parameters:
  ///   - assignments: those of the write. A removal is always admitted.
  ///   - added: `addedMemoryMax` of the tree before the commit.
  ///   - before: the tree before the commit; nil to undo the commit in a copy.
  /// - Throws: `EngineError.treeFull`; then nothing was counted.
  func growth(
    of assignments: [Assignment], since added: Int, isBounded: Bool = false, from before: Tree?,
    _ beforeImage: [Assignment]
  ) throws(EngineError) -> TreeGrowth? {
    guard let memory else { return nil }
    // A removal may give the rest of a packed branch pages of its own.
    let isRemoval = assignments.allSatisfy(\.value.isAbsent)
    let bytesMax = tree.addedMemoryMax - added
    if memory.admit(atMost: bytesMax) { return .atMost(bytesMax) }
    var old = before ?? tree
    if before == nil { old.apply(beforeImage) }
    let bytes = MemoryCount.growth(from: old.root, to: tree.root)
    guard memory.admit(bytes, isBounded: isBounded && !isRemoval) else { throw .treeFull }
    return .measured(bytes)
  }
}
