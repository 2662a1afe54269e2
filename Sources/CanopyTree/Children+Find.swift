extension Children {
  /// Elements up to which a page is gone through from its beginning: the fields of a record.
  private static var scanMax: Int { 8 }

  /// The node with this key, or absent. O(log n).
  ///
  /// As `find`, without a copy of the key; and where a short key is looked for among few, whose order
  /// takes longer to find out than their equality, without comparing which comes first.
  func node(_ key: Key) -> Node {
    withLeaf(of: key) { leaf in
      leaf.withElements { elements in
        guard elements.count <= Self.scanMax, case .short(let high, let low) = key.form else {
          let (i, isFound) = leaf.search(key)
          return isFound ? elements[i].node : .absent
        }
        for i in 0..<elements.count {
          if case .short(let a, let b) = elements[i].key.form, a == high, b == low {
            return elements[i].node
          }
        }
        return .absent
      }
    }
  }
}
