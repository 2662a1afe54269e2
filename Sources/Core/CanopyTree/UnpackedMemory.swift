/// The memory of branches that commits unpack.
///
/// A small value may make much memory of a packed branch: the text `{"a":1,"b":1}` with 300 such members has 2 KB, and
/// takes 13 KB as pages. A new key that a packed branch cannot hold, such as `0`, gives it these pages.
extension Node {
  /// Returns the memory of a branch that a commit has unpacked: its pages, its keys, and the children without pages. The
  /// values that the commit has assigned to children are left out, and so are children with pages: they were unpacked
  /// or assigned by the same commit.
  ///
  /// - Parameters:
  ///   - assignments: those below the branch.
  ///   - depth: the number of keys that lead to the branch.
  /// - Complexity: O(children + assignments).
  func unpackedMemory(besides assignments: ArraySlice<Assignment>, depth: Int) -> Int {
    guard isBranch, !isPacked else { return 0 }
    var bytes = ownMemory
    forEachChild { key, child in
      bytes += key.ownMemory + child.memoryWithoutPages
      return true
    }
    for assignment in assignments where !assignment.location.isPriority {
      guard let key = assignment.location.path.keys.last, !assignment.value.isAbsent,
        assignment.location.path.count == depth + 1
      else { continue }
      bytes -= key.ownMemory + assignment.value.memoryWithoutPages
    }
    return bytes
  }

  /// The memory of the node; 0 if it is a branch with pages. O(1)
  private var memoryWithoutPages: Int { isBranch && !isPacked ? 0 : ownMemory }
}
