internal import CanopyTree

/// A location in a database: to be written, observed and gone on from.
///
/// Costs nothing to make, and never changes. Where the path is none (a key with one of `. $ # [ ]`, more
/// than 32 keys), the reference is made all the same, and every operation on it, and on what is gone on to
/// from it, fails through its completion, cancel function or `throws` with an error of the code
/// `invalidPath`; the original raises an exception.
public final class DatabaseReference: DatabaseQuery, @unchecked Sendable {
  init(_ database: Database, _ place: Place) {
    super.init(database, place)
  }

  // MARK: Where

  /// The last key; nil for the root.
  public var key: String? { place.keys.last?.text }

  /// The location above; nil for the root.
  public var parent: DatabaseReference? {
    switch place {
    case .tree(let path): path.parent.map { DatabaseReference(database, .tree($0)) }
    case .info(let path): path.parent.map { DatabaseReference(database, .info($0)) }
    case .none: nil
    }
  }

  /// The root.
  public var root: DatabaseReference { database.reference() }

  /// The URL of the location.
  public var url: String { database.repository.endpoint.text + place.text }

  /// The location at a path below.
  public func child(_ pathString: String) -> DatabaseReference {
    DatabaseReference(database, place.child(pathString))
  }

  func child(_ key: Key) -> DatabaseReference {
    switch place {
    case .tree(let path): DatabaseReference(database, .tree(path.child(key)))
    case .info(let path): DatabaseReference(database, .info(path.child(key)))
    case .none: self
    }
  }

  /// A child with a new key that sorts after those made before: for adding to a list. Nothing is written.
  public func childByAutoId() -> DatabaseReference {
    child(database.nextKey().text)
  }

  /// The path of a location that can be written.
  func writablePath() throws(DatabaseError) -> Path {
    switch place {
    case .tree(let path): return path
    case .info: throw DatabaseError(.invalidPath, "/.info cannot be written")
    case .none(let error): throw error
    }
  }
}

extension DatabaseReference: CustomStringConvertible, Hashable {
  /// The URL of the location.
  public var description: String { url }

  /// Whether both are the same location of the same database.
  public static func == (a: DatabaseReference, b: DatabaseReference) -> Bool {
    a.database === b.database && a.place.keys == b.place.keys
      && a.place.text.hasSameBytes(as: b.place.text)
  }

  /// Feeds the location.
  public func hash(into hasher: inout Hasher) {
    hasher.combine(place.text)
  }
}
