package import CanopyTree

/// The target of a reference.
package enum ReferenceTarget: Sendable {
  /// A location in the tree.
  case tree(Path)
  /// The state of the connection: a path below `/.info`.
  case info(Path)
  /// An invalid target. Every operation fails with this error.
  case none(DatabaseError)

  /// Creates the target at a path.
  package init(_ text: String) {
    self = ReferenceTarget.tree(.root).child(text)
  }

  /// Returns the target at a path below.
  package func child(_ text: String) -> ReferenceTarget {
    if case .tree(let path) = self, path.isRoot {
      let slashes = text.utf8.prefix { $0 == UInt8(ascii: "/") }
      let rest = text.droppingBytes(slashes.count)
      if rest == ".info" || rest.hasBytePrefix(".info/") {
        return ReferenceTarget.info(.root).child(rest.droppingBytes(".info".utf8.count))
      }
    }
    do throws(TreeError) {
      let below = try Path(text)
      switch self {
      case .tree(let path):
        // Use the checked initializer: the path must not exceed its bound.
        return .tree(try Path(path.keys + below.keys))
      case .info(let path): return .info(try Path(path.keys + below.keys))
      case .none: return self
      }
    } catch {
      return .none(DatabaseError(error).inPath(text))
    }
  }

  /// The keys from the root down.
  package var keys: [Key] {
    switch self {
    case .tree(let path): path.keys
    case .info(let path): path.keys
    case .none: []
    }
  }

  /// The path as text, with a leading `/`.
  package var text: String {
    switch self {
    case .tree(let path): path.description
    case .info(let path): path.isRoot ? "/.info" : "/.info\(path.description)"
    case .none: ""
    }
  }
}
