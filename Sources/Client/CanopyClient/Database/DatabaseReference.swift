internal import CanopyTree

/// A location in a database, for writing, observing and navigating.
///
/// Cheap to create, and immutable. An invalid path (a key with one of `. $ # [ ]`, more than 32
/// keys) also gives a reference. Every operation on it, and on references derived from it, fails
/// with an error of the code `invalidPath` through its completion, cancel function or `throws`;
/// Firebase raises an exception instead.
///
/// `@unchecked Sendable`: it adds no property to `DatabaseQuery`, whose properties are constants.
public final class DatabaseReference: DatabaseQuery, @unchecked Sendable {
  init(_ database: Database, _ target: ReferenceTarget) {
    super.init(database, target)
  }

  // MARK: Location

  /// The last key; nil for the root.
  public var key: String? { target.keys.last?.text }

  /// The parent location; nil for the root.
  public var parent: DatabaseReference? {
    switch target {
    case .tree(let path): path.parent.map { DatabaseReference(database, .tree($0)) }
    case .info(let path): path.parent.map { DatabaseReference(database, .info($0)) }
    case .none: nil
    }
  }

  /// The root.
  public var root: DatabaseReference { database.reference() }

  /// The URL of the location, percent-encoded; `Database.reference(fromURL:)` returns the location
  /// again.
  public var url: String {
    let endpoint = database.repository.endpoint
    return endpoint.text + URLPath.encoded(target.text) + endpoint.querySuffix
  }

  /// Returns the location at a path below.
  public func child(_ pathString: String) -> DatabaseReference {
    DatabaseReference(database, target.child(pathString))
  }

  func child(_ key: Key) -> DatabaseReference {
    switch target {
    case .tree(let path): DatabaseReference(database, .tree(path.child(key)))
    case .info(let path): DatabaseReference(database, .info(path.child(key)))
    case .none: self
    }
  }

  /// Returns a child with a new key that sorts after all earlier ones, for adding to a list. Writes
  /// nothing.
  public func childByAutoId() -> DatabaseReference {
    child(database.nextKey().text)
  }

  /// Returns the path, if the location can be written.
  ///
  /// - Throws: `DatabaseError` if it cannot.
  func writablePath() throws(DatabaseError) -> Path {
    switch target {
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
    a.database === b.database && a.target.keys == b.target.keys
      && a.target.text.hasSameBytes(as: b.target.text)
  }

  /// Hashes the location.
  public func hash(into hasher: inout Hasher) {
    hasher.combine(target.text)
  }
}
