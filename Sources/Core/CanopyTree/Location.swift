/// The target of a write: a path, or the priority of the node there (`/path/.priority`).
public struct Location: Hashable, Sendable {
  /// The path of the node.
  public var path: Path
  /// Whether the target is the node's priority.
  public var isPriority: Bool

  /// Creates a location.
  public init(_ path: Path, isPriority: Bool = false) {
    self.path = path
    self.isPriority = isPriority
  }

  /// Reads a location from text.
  ///
  /// - Throws: `TreeError.invalidPath`.
  public init(_ text: String) throws(TreeError) {
    let result = text.withUTF8Bytes { bytes in
      Result { () throws(TreeError) in try Location(utf8: bytes) }
    }
    self = try result.get()
  }

  /// Reads a location from bytes.
  ///
  /// - Precondition: the bytes are valid UTF-8.
  /// - Throws: `TreeError.invalidPath`.
  package init(utf8 bytes: UnsafeRawBufferPointer) throws(TreeError) {
    let pathBytes = Location.pathBytes(ofPriority: bytes)
    isPriority = pathBytes != nil
    path = try Path(utf8: pathBytes ?? bytes)
  }

  /// Returns the bytes before a last part `.priority`; nil if the last part is another.
  ///
  /// Works on bytes: a character at the end of a key may combine with the slash after it.
  static func pathBytes(ofPriority bytes: UnsafeRawBufferPointer) -> UnsafeRawBufferPointer? {
    let name: StaticString = ".priority"
    let start = bytes.count - name.utf8CodeUnitCount
    // The last byte alone rejects most paths.
    guard start >= 0, bytes.last == UInt8(ascii: "y"),
      start == 0 || bytes[start - 1] == UInt8(ascii: "/"),
      UnsafeRawBufferPointer(rebasing: bytes[start...]).hasSameBytes(
        as: UnsafeRawBufferPointer(start: name.utf8Start, count: name.utf8CodeUnitCount))
    else { return nil }
    return UnsafeRawBufferPointer(rebasing: bytes[..<start])
  }

  /// The keys joined by `/`, without a leading slash.
  public var text: String {
    guard isPriority else { return path.text }
    return path.isRoot ? ".priority" : path.text + "/.priority"
  }
}

extension Location: Comparable {
  /// Whether `a` sorts before `b`: by path, a node before its priority, both before the nodes
  /// below.
  public static func < (a: Location, b: Location) -> Bool {
    let (keys, others) = (a.path.keys, b.path.keys)
    let count = min(keys.count, others.count)
    var i = 0
    while i < count, keys[i] == others[i] { i += 1 }
    if i < count { return keys[i] < others[i] }
    return keys.count != others.count
      ? keys.count < others.count : !a.isPriority && b.isPriority
  }
}

extension Location {
  /// Whether `next` is this location or below it.
  ///
  /// - Precondition: `next` does not sort before this location.
  public func overlaps(next: Location) -> Bool {
    assert(!(next < self), "the locations are out of order")
    return self == next || (!isPriority && next.path.hasPrefix(path))
  }
}
