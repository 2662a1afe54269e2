/// A value that the server puts in when it applies a write.
public enum ServerValue: Sendable, Equatable {
  /// Milliseconds since 1970, by the server's clock: `{".sv":"timestamp"}`.
  case timestamp
  /// The number that stands there plus this one; this one on anything but a number:
  /// `{".sv":{"increment":n}}`.
  case increment(Node)
  /// A value that is known, but belongs to a place that is not (the priority of a server value).
  case constant(Node)

  /// The value to put in.
  ///
  /// - Parameters:
  ///   - old: what stands there before the write.
  ///   - milliseconds: the time now, since 1970.
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
      // A sum beyond all doubles is held to the largest one: the tree has no infinity.
      let sum = min(max(base + more, -.greatestFiniteMagnitude), .greatestFiniteMagnitude)
      return Node(sum) ?? delta
    }
  }
}

/// A server value and its place in the value that was sent.
public struct PlacedServerValue: Sendable, Equatable {
  /// Below the location that is written.
  public var path: Path
  /// Whether it is the priority of what stands there.
  public var isPriority: Bool
  /// What to put there.
  public var value: ServerValue

  /// A server value at a place.
  public init(path: Path, isPriority: Bool, value: ServerValue) {
    self.path = path
    self.isPriority = isPriority
    self.value = value
  }
}
