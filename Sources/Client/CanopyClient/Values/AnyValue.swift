package import CanopyTree

/// Conversion between an application's `Any?` and nodes.
package enum AnyValue {
  /// Converts an application's value.
  ///
  /// Accepts nil and `NSNull` (absent), bools, numbers (also `Decimal`), strings, arrays, and
  /// dictionaries with strings as keys, of Swift or of Foundation, nested in each other. In
  /// dictionaries, `.value`, `.priority` and `.sv` have the same meaning as in JSON.
  ///
  /// - Throws: `DatabaseError` with the code `invalidData` for any other value: a number that is
  ///   not finite, an invalid key, a `Date`, an object of the application.
  /// - Complexity: O(size).
  package static func write(_ value: Any?, priority: Any?? = nil) throws(DatabaseError)
    -> WriteValue
  {
    if let priority { return try write(write(value), priority: priority) }
    var output = JSONOutput()
    try append(value, to: &output, depth: 0)
    return try DatabaseError.wrap { () throws(TreeError) in
      try output.withWriteValue()
    }
  }

  /// Returns a value with another priority.
  static func write(
    _ value: WriteValue, priority: Any?
  ) throws(DatabaseError) -> WriteValue {
    let priority = try writePriority(priority)
    var value = value
    value.serverValues.removeAll { $0.path.isRoot && $0.isPriority }
    let isServerValue = priority.serverValues.contains { $0.path.isRoot && !$0.isPriority }
    switch priority.node.value {
    case .absent where isServerValue || priority.serverValues.isEmpty: break
    case .integer, .double, .string: break
    default:
      throw DatabaseError(.invalidData, "a priority must be a number, a string or nil")
    }
    if let placed = priority.serverValues.first {
      let own = LocatedServerValue(path: .root, isPriority: true, value: placed.value)
      return WriteValue(value.node, serverValues: value.serverValues + [own])
    }
    guard value.node.isAbsent, !value.serverValues.isEmpty, !priority.node.isAbsent else {
      return WriteValue(
        value.node.withPriority(priority.node), serverValues: value.serverValues)
    }
    // The node that gets the priority does not exist before the server values are resolved.
    let own = LocatedServerValue(path: .root, isPriority: true, value: .constant(priority.node))
    return WriteValue(value.node, serverValues: value.serverValues + [own])
  }

  /// Converts an application's priority. Unlike a value, an empty collection is not absent.
  static func writePriority(_ priority: Any?) throws(DatabaseError) -> WriteValue {
    let write = try write(priority)
    guard !write.node.isAbsent || !write.serverValues.isEmpty || isAbsent(priority) else {
      throw DatabaseError(.invalidData, "a priority must be a number, a string or nil")
    }
    return write
  }

  private static func isAbsent(_ value: Any?) -> Bool {
    switch value {
    case nil, is NSNull: true
    case let optional as any AnyOptional: isAbsent(optional.wrapped)
    default: false
    }
  }

  /// Converts a node for an application: `NSNull` if absent, `NSNumber` for bools and numbers,
  /// `String`, `[Any]` for a branch whose keys are mostly 0, 1, 2, …, and `[String: Any]` for any
  /// other.
  ///
  /// The values cast to the types in Firebase's samples: `[String: AnyObject]`, `[String: Bool]`,
  /// `NSDictionary`, `Int`, `Double`, `String`.
  ///
  /// - Complexity: O(size).
  package static func value(of node: Node, export: Bool = false) -> Any {
    let plain = plainValue(of: node, export: export)
    guard export, !node.priority.isAbsent else { return plain }
    let priority = plainValue(of: node.priority, export: false)
    guard var members = plain as? [String: Any] else {
      return [".value": plain, ".priority": priority] as [String: Any]
    }
    members[".priority"] = priority
    return members
  }

  /// Converts the priority of a node for an application: to an `NSNumber` or a `String`, or to
  /// `NSNull` when the node has no priority.
  static func priority(of node: Node) -> any Sendable {
    switch node.priority.value {
    case .bool(let value): NSNumber(value: value)
    case .integer(let value): NSNumber(value: value)
    case .double(let value): NSNumber(value: value)
    case .string(let value): value
    case .absent, .branch: NSNull()
    }
  }

  private static func plainValue(of node: Node, export: Bool) -> Any {
    switch node.value {
    case .absent: return NSNull()
    case .bool(let value): return NSNumber(value: value)
    case .integer(let value): return NSNumber(value: value)
    case .double(let value): return NSNumber(value: value)
    case .string(let value): return value
    case .branch:
      if !export, let elements = array(node) { return elements }
      return dictionary(node, export)
    }
  }

  private static func dictionary(_ node: Node, _ export: Bool) -> [String: Any] {
    var members: [String: Any] = [:]
    members.reserveCapacity(node.childCount)
    node.forEachChild { key, child in
      members[key.text] = value(of: child, export: export)
      return true
    }
    return members
  }

  /// Returns the children as an array, if all keys are integers from 0 up and the largest is
  /// smaller than twice their number.
  private static func array(_ node: Node) -> [Any]? {
    var elements: [Any] = []
    let count = node.childCount
    var isArray = true
    node.forEachChild { key, child in
      guard let index = key.integer, index >= 0, Int(index) < 2 * count else {
        isArray = false
        return false
      }
      while elements.count < Int(index) { elements.append(NSNull()) }
      elements.append(value(of: child))
      return true
    }
    return isArray ? elements : nil
  }

  private static func append(
    _ value: Any?, to output: inout JSONOutput, depth: Int
  ) throws(DatabaseError) {
    // Allow more levels than the tree, for `.sv` and `.priority`.
    guard depth <= Limits.depthMax + 2 else { throw tooDeep }
    if let value, type(of: value) is AnyClass { try checkLevels(of: value, depth: depth) }
    switch value {
    case nil: output.append("null")
    // Test collections before classes: testing whether a collection is an object of a class
    // converts all of it.
    case let members as [String: Any]: try append(members, to: &output, depth: depth)
    case let elements as [Any]:
      output.append("[")
      for (index, element) in elements.enumerated() {
        if index > 0 { output.append(",") }
        try append(element, to: &output, depth: depth + 1)
      }
      output.append("]")
    case let members as [AnyHashable: Any]:
      var named: [String: Any] = [:]
      for (key, member) in members {
        guard let name = key.base as? String else {
          throw DatabaseError(
            .invalidData, "the keys of a dictionary must be strings; \(key) is not")
        }
        named[name] = member
      }
      try append(named, to: &output, depth: depth)
    case let text as String: output.append(string: text)
    case let decimal as NSDecimalNumber: try append(decimal.decimalValue, to: &output)
    case let number as NSNumber: try append(number, to: &output)
    case let decimal as Decimal: try append(decimal, to: &output)
    case is NSNull: output.append("null")
    case let optional as any AnyOptional: try append(optional.wrapped, to: &output, depth: depth)
    case let value?:
      throw DatabaseError(
        .invalidData,
        "a value must be nil, a bool, a number, a string, an array or a dictionary, and so must all values "
          + "in it; \(type(of: value)) is none of these")
    }
  }

  private static let tooDeep = DatabaseError(
    .invalidData,
    "a value may have at most \(Limits.depthMax) levels, so a collection must not contain itself")

  /// Refuses a collection of Foundation with too many levels, such as one that contains itself. Foundation converts all
  /// levels at once, so this must come first.
  ///
  /// - Complexity: O(size).
  private static func checkLevels(of object: Any, depth: Int) throws(DatabaseError) {
    guard object is NSDictionary || object is NSArray || object is NSSet else { return }
    guard depth <= Limits.depthMax + 2 else { throw tooDeep }
    // A mirror has the elements as they are stored: not converted.
    for (_, child) in Mirror(reflecting: object).children {
      let pair = child as? (key: NSObject, value: AnyObject)
      try checkLevels(of: pair?.value ?? child, depth: depth + 1)
    }
  }

  private static func append(
    _ members: [String: Any], to output: inout JSONOutput, depth: Int
  ) throws(DatabaseError) {
    output.append("{")
    var isFirst = true
    for (name, member) in members {
      if !isFirst { output.append(",") }
      isFirst = false
      output.append(string: name)
      output.append(":")
      try append(member, to: &output, depth: depth + 1)
    }
    output.append("}")
  }

  private static func append(
    _ number: NSNumber, to output: inout JSONOutput
  ) throws(DatabaseError) {
    // The two bools are distinct objects; any other number of this type is an 8-bit integer.
    if number === yes || number === no {
      output.append(number === yes ? "true" : "false")
      return
    }
    switch UInt8(bitPattern: number.objCType.pointee) {
    case UInt8(ascii: "f"), UInt8(ascii: "d"):
      let value = number.doubleValue
      guard value.isFinite else {
        throw DatabaseError(.invalidData, "a number must be finite; this is \(value)")
      }
      if let integer = Int64(exactly: value) {
        output.append(integer)
      } else {
        output.append(value)
      }
    case UInt8(ascii: "Q") where number.uint64Value > UInt64(Int64.max):
      output.append(Double(number.uint64Value))
    default: output.append(number.int64Value)
    }
  }

  /// Appends the nearest number that the tree can hold.
  private static func append(
    _ decimal: Decimal, to output: inout JSONOutput
  ) throws(DatabaseError) {
    // Parsing the text rounds once; the conversion of Foundation may round several times.
    let text = "\(decimal)"
    if let integer = Int64(text) { return output.append(integer) }
    guard let value = Double(text), value.isFinite else {
      throw DatabaseError(.invalidData, "a number must be finite; this is \(text)")
    }
    output.append(value)
  }

  private static let yes = NSNumber(value: true)
  private static let no = NSNumber(value: false)
}

/// An optional inside an `Any`, as in a dictionary of optionals.
private protocol AnyOptional {
  var wrapped: Any? { get }
}

extension Optional: AnyOptional {
  fileprivate var wrapped: Any? {
    switch self {
    case nil: nil
    case let value?: value
    }
  }
}

extension JSONOutput {
  /// Reads the written JSON as a value to be written.
  fileprivate func withWriteValue() throws(TreeError) -> WriteValue {
    let result: Result<WriteValue, TreeError> = withBytes { bytes in
      do throws(TreeError) { return .success(try WriteValue(json: bytes, limits: Limits())) } catch
      {
        return .failure(error)
      }
    }
    return try result.get()
  }
}
