extension Write {
  /// Checks the lengths of the priorities that are locations of the write. Those within its values were checked when the
  /// values were read.
  ///
  /// - Throws: `TreeError.tooLarge` beyond `Limits.priorityBytesMax`.
  public func checkPriorities(_ limits: Limits) throws(TreeError) {
    for assignment in assignments where assignment.location.isPriority {
      try assignment.value.checkPriority(bytesMax: limits.priorityBytesMax)
    }
  }
}

extension [Assignment] {
  /// Returns the bytes of the priorities that follow from other assignments, as `Tree.apply` returns them, with their
  /// locations. O(assignments)
  public func priorityBytes(besides others: [Assignment]) -> Int {
    Swift.max(0, priorityBytes - others.priorityBytes)
  }

  private var priorityBytes: Int {
    reduce(0) { bytes, assignment in
      guard assignment.location.isPriority else { return bytes }
      let path = assignment.location.path.keys.reduce(0) { $0 + $1.utf8Count + 1 }
      return bytes + path + Assignment.priorityBytes
        + (assignment.value.stringValue?.utf8.count ?? 0)
    }
  }
}

extension Assignment {
  /// The bytes of `"/.priority":` and of a priority that is a number, or a little more.
  fileprivate static let priorityBytes = 32
}

extension Node {
  /// Checks the length of a priority.
  ///
  /// - Throws: `TreeError.tooLarge` beyond `bytesMax`.
  func checkPriority(bytesMax: Int) throws(TreeError) {
    guard case .string(let text) = value, text.utf8.count > bytesMax else { return }
    throw .tooLarge("a priority may have at most \(bytesMax) bytes of UTF-8")
  }
}
