/// A value that the server resolves when it applies a write.
public enum ServerValue: Sendable, Equatable {
  /// The server's time in milliseconds since 1970: `{".sv":"timestamp"}`.
  case timestamp
  /// The old number plus this one, or this one if the old value is not a number:
  /// `{".sv":{"increment":n}}`.
  case increment(Node)
  /// A known value at a location that is not known yet: the priority of a server value.
  case constant(Node)

  /// Returns the resolved value.
  ///
  /// - Parameters:
  ///   - old: the node before the write.
  ///   - milliseconds: the current time since 1970.
  func resolve(old: Node, at milliseconds: Int64) -> Node {
    switch self {
    case .timestamp: return Node(milliseconds)
    case .constant(let node): return node
    case .increment(let delta):
      guard let base = old.doubleValue, let more = delta.doubleValue else { return delta }
      if let base = old.integerValue, let more = delta.integerValue {
        let (sum, overflow) = base.addingReportingOverflow(more)
        if !overflow { return Node(sum) }
      }
      // Clamp a sum beyond all doubles to the largest one: the tree has no infinity.
      let sum = min(max(base + more, -.greatestFiniteMagnitude), .greatestFiniteMagnitude)
      return Node(sum) ?? delta
    }
  }
}

/// A server value and its location in the value that a client sent.
public struct LocatedServerValue: Sendable, Equatable {
  /// The path below the location that is written.
  public var path: Path
  /// Whether the server value is the priority of the node at the path.
  public var isPriority: Bool
  /// The server value.
  public var value: ServerValue

  /// Creates a server value at a path.
  public init(path: Path, isPriority: Bool, value: ServerValue) {
    self.path = path
    self.isPriority = isPriority
    self.value = value
  }
}

extension Write {
  /// Checks the size of the values that contain server values. The writer resolves and encodes them.
  ///
  /// - Complexity: O(assignments), and O(`Limits.serverValueBytesMax`).
  /// - Throws: `TreeError.tooLarge` if together they have more than `Limits.serverValueBytesMax`.
  public func checkServerValues() throws(TreeError) {
    var budget = Limits.serverValueBytesMax
    for index in assignments.indices where !serverValues(at: index).isEmpty {
      guard !assignments[index].value.fits(budget: &budget) else { continue }
      throw .tooLarge(
        "the values of a write that contain server values may have at most \(Limits.serverValueBytesMax) bytes of JSON "
          + "together; write the server values as other locations of an update")
    }
  }
}
