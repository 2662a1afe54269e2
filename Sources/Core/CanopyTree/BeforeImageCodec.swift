/// The stored form of a commit's before-image. Its locations are usually those of the commit, so
/// usually only the old values are stored: see `Tree.beforeImage`.
///
/// `[v1,v2,…]` in the order of the commit's assignments, or `{"of":…}` with locations of its own.
public enum BeforeImageCodec {
  /// The largest before-image that is kept, in bytes of JSON. Without this bound a large removal
  /// would store all the removed data again.
  public static let bytesMax = 64 * 1024

  /// Replaces the contents of `output` by the encoded before-image.
  ///
  /// - Returns: false if the image is too large; the contents of `output` are then unspecified.
  /// - Complexity: O(bytes kept).
  public static func encode(
    _ image: [Assignment], of assignments: [Assignment], _ output: inout JSONOutput
  ) -> Bool {
    output.removeAll()
    return append(image, of: assignments, to: &output)
  }

  /// Appends the encoded before-image.
  ///
  /// - Returns: false if the image is too large; `output` is then unchanged.
  /// - Complexity: O(bytes kept).
  public static func append(
    _ image: [Assignment], of assignments: [Assignment], to output: inout JSONOutput
  ) -> Bool {
    let start = output.count
    guard write(image, of: assignments, to: &output, countMax: start + bytesMax) else {
      output.truncate(to: start)
      return false
    }
    return true
  }

  private static func write(
    _ image: [Assignment], of assignments: [Assignment], to output: inout JSONOutput, countMax: Int
  ) -> Bool {
    if image.elementsEqual(assignments, by: { $0.location == $1.location }) {
      output.append("[")
      for (index, assignment) in image.enumerated() {
        if index > 0 { output.append(",") }
        // Estimated one by one, so that an image that is too large costs no more than its first values.
        guard assignment.value.fits(bytes: bytesMax) else { return false }
        output.append(assignment.value, style: .export)
        guard output.count <= countMax else { return false }
      }
      output.append("]")
    } else {
      for assignment in image where !assignment.value.fits(bytes: bytesMax) { return false }
      output.append("{\"of\":")
      guard AssignmentCodec.encode(image, to: &output, bytesMax: countMax - output.count) else {
        return false
      }
      output.append("}")
    }
    return output.count <= countMax
  }

  /// Returns the before-image of `assignments`.
  ///
  /// - Throws: `TreeError` if the text is in neither form.
  public static func decode(
    _ bytes: UnsafeRawBufferPointer, of assignments: [Assignment]
  ) throws(TreeError) -> [Assignment] {
    let prefix = "{\"of\":"
    if bytes.starts(with: prefix.utf8) {
      guard bytes.last == UInt8(ascii: "}") else {
        throw .invalidData("a before-image does not end with }")
      }
      let rest = bytes.dropFirst(prefix.utf8.count).dropLast()
      return try AssignmentCodec.decode(UnsafeRawBufferPointer(rebasing: rest))
    }
    var reader = JSONReader(bytes, limits: .none)
    guard reader.peekToken() == UInt8(ascii: "[") else { throw reader.error("expected [") }
    var values: [Node] = []
    try reader.readMembers(close: UInt8(ascii: "]")) { reader throws(TreeError) in
      let value = try reader.readNode()
      guard value.serverValues.isEmpty else {
        throw .invalidData("a before-image may not hold server values")
      }
      values.append(value.node)
    }
    try reader.readEnd()
    guard values.count == assignments.count else {
      throw .invalidData("a before-image has \(values.count) values")
    }
    return zip(assignments, values).map { Assignment($0.location, $1) }
  }
}
