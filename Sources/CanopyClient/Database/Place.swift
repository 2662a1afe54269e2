internal import CanopyTree

/// What a reference refers to.
enum Place: Sendable {
  /// A location in the tree.
  case tree(Path)
  /// What the client knows of its connection: a path below `/.info`.
  case info(Path)
  /// Nothing: somewhere on the way something was asked for that cannot be. Every operation fails with
  /// this error.
  case none(DatabaseError)

  /// The place that a path spells.
  init(_ text: String) {
    self = Place.tree(.root).child(text)
  }

  /// The place at a path below.
  func child(_ text: String) -> Place {
    if case .tree(let path) = self, path.isRoot {
      let slashes = text.utf8.prefix { $0 == UInt8(ascii: "/") }
      let rest = text.droppingBytes(slashes.count)
      if rest == ".info" || rest.hasBytePrefix(".info/") {
        return Place.info(.root).child(rest.droppingBytes(".info".utf8.count))
      }
    }
    do throws(TreeError) {
      let below = try Path(text)
      switch self {
      case .tree(let path):
        // Checked, as a path may not grow past its bound.
        return .tree(try Path(path.keys + below.keys))
      case .info(let path): return .info(try Path(path.keys + below.keys))
      case .none: return self
      }
    } catch {
      return .none(DatabaseError(error))
    }
  }

  /// The keys from the root down.
  var keys: [Key] {
    switch self {
    case .tree(let path): path.keys
    case .info(let path): path.keys
    case .none: []
    }
  }

  /// The place as text, with a leading `/`.
  var text: String {
    switch self {
    case .tree(let path): path.description
    case .info(let path): path.isRoot ? "/.info" : "/.info\(path.description)"
    case .none: ""
    }
  }
}
