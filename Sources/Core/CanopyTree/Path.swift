/// A location in the tree: the keys from the root down. `/` is the root.
///
/// The text form separates keys by `/` and ignores leading, trailing and doubled slashes, like the
/// official clients. At most `Limits.depthMax` keys.
public struct Path: Hashable, Sendable {
  /// The keys, outermost first.
  public private(set) var keys: [Key]

  /// The path of the root.
  public static let root = Path(keys: [])

  /// Creates a path of these keys. The result may exceed the depth bound, as that of `child`.
  public init(keys: [Key]) {
    self.keys = keys
  }

  /// Creates a path of these keys.
  ///
  /// - Throws: `TreeError.invalidPath` if there are too many.
  public init(_ keys: some Sequence<Key>) throws(TreeError) {
    self.keys = Array(keys)
    try checkDepth()
  }

  /// Reads a path from text.
  ///
  /// - Throws: `TreeError.invalidPath`, also for an invalid key.
  public init(_ text: String) throws(TreeError) {
    let result = text.withUTF8Bytes { bytes in
      Result { () throws(TreeError) in try Path(utf8: bytes) }
    }
    self = try result.get()
  }

  /// Reads a path from bytes. Stops at the first key that is invalid or one too many.
  ///
  /// - Precondition: the bytes are valid UTF-8.
  /// - Throws: `TreeError.invalidPath`.
  package init(utf8 bytes: UnsafeRawBufferPointer) throws(TreeError) {
    keys = []
    // One allocation of the right size: a waiting write may have thousands of paths.
    let slashes = bytes.reduce(0) { $1 == UInt8(ascii: "/") ? $0 + 1 : $0 }
    if !bytes.isEmpty { keys.reserveCapacity(min(slashes + 1, Limits.depthMax)) }
    var start = 0
    while start < bytes.count {
      var end = start
      while end < bytes.count, bytes[end] != UInt8(ascii: "/") { end += 1 }
      if end > start {
        do throws(TreeError) {
          keys.append(try Key(utf8: UnsafeRawBufferPointer(rebasing: bytes[start..<end])))
        } catch {
          throw .invalidPath("the path is not valid: \(error.sentence)")
        }
        try checkDepth()
      }
      start = end + 1
    }
  }

  private func checkDepth() throws(TreeError) {
    guard keys.count <= Limits.depthMax else {
      throw .invalidPath("a path may have at most \(Limits.depthMax) keys")
    }
  }

  /// The number of keys.
  public var count: Int { keys.count }

  /// Whether the path is the root.
  public var isRoot: Bool { keys.isEmpty }

  /// The last key; nil for the root.
  public var last: Key? { keys.last }

  /// The path without its last key; nil for the root.
  public var parent: Path? { keys.isEmpty ? nil : Path(keys: keys.dropLast()) }

  /// Returns the path of a child. The result may exceed the depth bound; a write there is refused
  /// when it is checked.
  public func child(_ key: Key) -> Path {
    var keys: [Key] = []
    keys.reserveCapacity(self.keys.count + 1)
    keys.append(contentsOf: self.keys)
    keys.append(key)
    return Path(keys: keys)
  }

  /// Returns this path followed by `other`.
  public func appending(_ other: Path) -> Path {
    other.isRoot ? self : Path(keys: keys + other.keys)
  }

  /// Returns the path of the first `count` keys.
  public func prefix(_ count: Int) -> Path {
    Path(keys: Array(keys.prefix(count)))
  }

  /// Returns the part of this path below `ancestor`; nil if this path is not at or below it.
  public func relative(to ancestor: Path) -> Path? {
    hasPrefix(ancestor) ? Path(keys: Array(keys.dropFirst(ancestor.count))) : nil
  }

  /// Whether this path is `ancestor` or below it.
  public func hasPrefix(_ ancestor: Path) -> Bool {
    keys.starts(with: ancestor.keys)
  }

  /// Returns the number of first keys that both paths have in common.
  public func sharedCount(with other: Path) -> Int {
    let others = other.keys
    let countMax = min(keys.count, others.count)
    var count = 0
    while count < countMax, keys[count] == others[count] { count += 1 }
    return count
  }

  /// The keys joined by `/`, without a leading slash. Empty for the root.
  public var text: String {
    var bytes: [UInt8] = []
    for key in keys {
      if !bytes.isEmpty { bytes.append(UInt8(ascii: "/")) }
      key.withUTF8 { bytes.append(contentsOf: $0) }
    }
    return String(decoding: bytes, as: UTF8.self)
  }
}

extension Path: CustomStringConvertible {
  /// The path with a leading `/`.
  public var description: String { "/" + text }
}

extension Path: Comparable {
  /// Whether `a` sorts before `b`, key by key; an ancestor sorts before its descendants.
  public static func < (a: Path, b: Path) -> Bool {
    a.keys.lexicographicallyPrecedes(b.keys)
  }
}
