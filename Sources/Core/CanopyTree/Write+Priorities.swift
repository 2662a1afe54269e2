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

extension Node {
  /// Checks the length of a priority.
  ///
  /// - Throws: `TreeError.tooLarge` beyond `bytesMax`.
  func checkPriority(bytesMax: Int) throws(TreeError) {
    guard case .string(let text) = value, text.utf8.count > bytesMax else { return }
    throw .tooLarge("a priority may have at most \(bytesMax) bytes of UTF-8")
  }
}
