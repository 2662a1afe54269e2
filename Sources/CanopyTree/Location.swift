/// Where a write puts something: a path, or the priority of what stands there (`/path/.priority`).
public struct Location: Hashable, Sendable {
  /// The node.
  public var path: Path
  /// Whether its priority is meant.
  public var isPriority: Bool

  /// A location.
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

  /// Reads a location from bytes that are known to be valid UTF-8.
  ///
  /// - Throws: `TreeError.invalidPath`.
  init(utf8 bytes: UnsafeRawBufferPointer) throws(TreeError) {
    let pathBytes = Location.pathBytes(ofPriority: bytes)
    isPriority = pathBytes != nil
    path = try Path(utf8: pathBytes ?? bytes)
  }

  /// Returns the bytes of the path before a last part `.priority`; nil if the last part is another.
  ///
  /// Works on bytes: a character at the end of a key may join with the slash after it.
  static func pathBytes(ofPriority bytes: UnsafeRawBufferPointer) -> UnsafeRawBufferPointer? {
    let name: StaticString = ".priority"
    let start = bytes.count - name.utf8CodeUnitCount
    // Mostly the last byte tells.
    guard start >= 0, bytes.last == UInt8(ascii: "y"),
      start == 0 || bytes[start - 1] == UInt8(ascii: "/"),
      UnsafeRawBufferPointer(rebasing: bytes[start...]).hasSameBytes(
        as: UnsafeRawBufferPointer(start: name.utf8Start, count: name.utf8CodeUnitCount))
    else { return nil }
    return UnsafeRawBufferPointer(rebasing: bytes[..<start])
  }

  /// The keys joined by `/`, without a leading one.
  public var text: String {
    guard isPriority else { return path.text }
    return path.isRoot ? ".priority" : path.text + "/.priority"
  }
}

extension Location: Comparable {
  /// Whether `a` comes before `b`: by path, a node before its priority, both before what is below.
  public static func < (a: Location, b: Location) -> Bool {
    a.path != b.path ? a.path < b.path : !a.isPriority && b.isPriority
  }
}

extension Location {
  /// Whether the location that comes next in order is the same one or below it.
  public func overlaps(next: Location) -> Bool {
    self == next || (!isPriority && next.path.hasPrefix(path))
  }
}
