extension Node {
  /// Whether the node's JSON surely fits into so many bytes. A quick estimate that looks at no more
  /// than it must: O(bytes) at most, however large the node is.
  public func fits(bytes: Int) -> Bool {
    var budget = bytes
    return fits(budget: &budget)
  }

  /// Whether it fits into what is left of a budget of bytes, which is less afterwards. Of several nodes
  /// all fit if the last does.
  public func fits(budget: inout Int) -> Bool {
    budget > 0 && spend(&budget)
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
      if let record {
        // And what a priority adds, but for its own bytes.
        budget -= record.byteCount + 13
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
