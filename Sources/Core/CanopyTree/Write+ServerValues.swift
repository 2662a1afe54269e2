extension Write {
  /// Checks the sizes of the values that contain server values. O(assignments with server values × the bound)
  ///
  /// - Throws: `TreeError.tooLarge` beyond `Limits.serverValueBytesMax`.
  public func checkServerValues() throws(TreeError) {
    for index in assignments.indices where !serverValues(at: index).isEmpty {
      guard !assignments[index].value.fits(bytes: Limits.serverValueBytesMax) else { continue }
      throw .tooLarge(
        "a value that contains server values may have at most \(Limits.serverValueBytesMax) bytes of JSON; write the "
          + "server values as other locations of an update")
    }
  }
}
