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
    budget > 0 && spend(&budget)
  }

  /// The bytes of memory that the node holds at most, and a little more: an estimate up to a bound.
  ///
  /// - Complexity: O(children), but O(1) for a record and for a string.
  public func heldBytes(atMost bytesMax: Int) -> Int {
    var budget = bytesMax
    hold(&budget)
    return bytesMax - max(0, budget)
  }

  private func hold(_ budget: inout Int) {
    budget -= 64
    guard budget > 0 else { return }
    switch value {
    case .absent, .bool, .integer, .double: break
    case .string(let text): budget -= text.utf8.count
    case .branch:
      if let packed { return budget -= packed.byteCount }
      forEachChild { key, child in
        budget -= key.utf8Count
        child.hold(&budget)
        return budget > 0
      }
    }
  }

  private func spend(_ budget: inout Int) -> Bool {
    switch value {
    case .absent, .bool: budget -= 5
    case .integer, .double: budget -= 24
    case .string(let text):
      budget -= 2
      if budget < text.utf8.count { return false }
      budget -= text.withUTF8Bytes(JSONScan.escapedCount)
    case .branch:
      if let packed {
        // And the members that a priority adds, without its own value.
        budget -= packed.byteCount + 13
        break
      }
      // `"k":v,` has at least six bytes.
      if childCount > budget / 6 { return false }
      budget -= 2
      var fits = true
      forEachChild { key, child in
        budget -= key.utf8Count + 4
        fits = budget > 0 && child.spend(&budget)
        return fits
      }
      return fits
    }
    if !priority.isAbsent { return priority.spend(&budget) }
    return budget > 0
  }
}
