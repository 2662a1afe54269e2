internal import CanopyTree
internal import CanopyWire

/// The bytes for which a write counts: those of its paths and values as JSON, or a little more. The journal has each
/// location of an update with its whole path.
extension WriteRequest {
  /// Returns the bytes, up to a bound, and those of a write of the blog without one: the lengths of texts are known.
  /// O(bound).
  func bytes(atMost bytesMax: Int) -> Int {
    switch self {
    case .blog(let write): write.bytes
    case .push(let path, let value):
      TreeWrite.set(Location(path), value).bytes(atMost: bytesMax)
    case .tree(let write), .once(_, let write): write.bytes(atMost: bytesMax)
    case .undecoded: 0
    }
  }

  /// Whether the write only removes data.
  var isRemoval: Bool {
    switch self {
    case .blog(.delete), .blog(.uncomment): true
    case .blog, .push, .undecoded: false
    case .tree(let write), .once(_, let write): write.isRemoval
    }
  }
}

extension TreeWrite {
  /// Returns the bytes, up to a bound. O(bound).
  func bytes(atMost bytesMax: Int) -> Int {
    var budget = ByteCount(rest: bytesMax)
    switch self {
    case .set(let location, let value), .compareAndSet(let location, _, let value):
      budget.take(location, value)
    case .update(let path, let changes):
      for change in changes where budget.rest > 0 {
        budget.take(path)
        budget.take(change.location, change.value)
      }
    }
    return bytesMax - budget.rest
  }

  var isRemoval: Bool {
    switch self {
    case .set(_, let value), .compareAndSet(_, _, let value): value.isRemoval
    case .update(_, let changes): changes.allSatisfy { $0.value.isRemoval }
    }
  }
}

extension DisconnectRequest {
  /// Whether the write only removes data.
  var isRemoval: Bool {
    switch self {
    case .set(_, let value): value.isRemoval
    case .update(_, let changes): changes.allSatisfy { $0.value.isRemoval }
    case .cancel: true
    }
  }
}

extension WriteValue {
  fileprivate var isRemoval: Bool { node.isAbsent && serverValues.isEmpty }
}

/// The rest of a bound on bytes, from which those of a write are taken.
private struct ByteCount {
  /// At least 0.
  var rest: Int

  /// The bytes of a server value, such as `{".sv":{"increment":1}}`.
  private static let serverValueBytes = 24

  mutating func take(_ path: Path) {
    for key in path.keys { rest = max(0, rest - key.utf8Count - 1) }
  }

  mutating func take(_ location: Location, _ value: WriteValue) {
    take(location.path)
    rest = max(0, rest - value.serverValues.count * ByteCount.serverValueBytes)
    // A string that is too long leaves a rest, although it does not fit.
    rest = value.node.fits(budget: &rest) ? max(0, rest) : 0
  }
}
