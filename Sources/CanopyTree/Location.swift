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

  /// The location that `text` spells.
  ///
  /// - Throws: `TreeError.invalidPath`.
  public init(_ text: String) throws(TreeError) {
    let suffix = ".priority"
    if text == suffix || text.hasSuffix("/" + suffix) {
      path = try Path(String(text.dropLast(suffix.count)))
      isPriority = true
    } else {
      path = try Path(text)
      isPriority = false
    }
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
