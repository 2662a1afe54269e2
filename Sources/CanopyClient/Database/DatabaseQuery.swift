internal import CanopyTree
internal import Synchronization

// Unchecked, because it is not final: all its properties, and those of its one subclass, are constants of
// Sendable types.
/// A location and which of its children are wanted, in which order: what can be observed and read.
///
/// A value in all but name: it never changes, and every method that narrows it down returns another one.
/// A combination that means nothing is found out when the query is used, which then fails with an error
/// of the code `invalidQuery`.
public class DatabaseQuery: @unchecked Sendable {
  /// The database.
  public let database: Database
  let place: Place
  private let options: QueryOptions

  init(_ database: Database, _ place: Place, _ options: QueryOptions = QueryOptions()) {
    self.database = database
    self.place = place
    self.options = options
  }

  /// The location.
  public var ref: DatabaseReference { reference }

  var reference: DatabaseReference {
    (self as? DatabaseReference) ?? DatabaseReference(database, place)
  }

  /// What is asked for.
  ///
  /// - Throws: why it cannot be.
  func spec() throws(DatabaseError) -> QuerySpec {
    switch place {
    case .none(let error): throw error
    case .info: throw DatabaseError(.invalidPath, "/.info can only be observed as a value")
    case .tree(let path): return QuerySpec(path, try options.query())
    }
  }

  private func adding(_ name: String, _ value: Any?, key: String?? = nil) -> DatabaseQuery {
    DatabaseQuery(database, place, options.adding(name, value, key: key))
  }

  // MARK: Order

  /// By what stands at a key, or a path, below each child.
  public func queryOrdered(byChild key: String) -> DatabaseQuery {
    // The names with a `$` are orders of their own.
    adding("orderBy", key.hasBytePrefix("$") ? "" : key)
  }

  /// By key.
  public func queryOrderedByKey() -> DatabaseQuery { adding("orderBy", "$key") }

  /// By the children's values.
  public func queryOrderedByValue() -> DatabaseQuery { adding("orderBy", "$value") }

  /// By priority, which is the order of a query that names none.
  public func queryOrderedByPriority() -> DatabaseQuery { adding("orderBy", "$priority") }

  // MARK: Range

  /// From a value on; by key, from a key on.
  public func queryStarting(atValue value: Any?) -> DatabaseQuery { adding("startAt", value) }

  /// From a value on, and of the children with just this value from a key on.
  public func queryStarting(atValue value: Any?, childKey: String?) -> DatabaseQuery {
    adding("startAt", value, key: .some(childKey))
  }

  /// After a value; by key, after a key.
  public func queryStarting(afterValue value: Any?) -> DatabaseQuery { adding("startAfter", value) }

  /// After a value, and of the children with just this value after a key.
  public func queryStarting(afterValue value: Any?, childKey: String?) -> DatabaseQuery {
    adding("startAfter", value, key: .some(childKey))
  }

  /// Up to a value; by key, up to a key.
  public func queryEnding(atValue value: Any?) -> DatabaseQuery { adding("endAt", value) }

  /// Up to a value, and of the children with just this value up to a key.
  public func queryEnding(atValue value: Any?, childKey: String?) -> DatabaseQuery {
    adding("endAt", value, key: .some(childKey))
  }

  /// Before a value; by key, before a key.
  public func queryEnding(beforeValue value: Any?) -> DatabaseQuery { adding("endBefore", value) }

  /// Before a value, and of the children with just this value before a key.
  public func queryEnding(beforeValue value: Any?, childKey: String?) -> DatabaseQuery {
    adding("endBefore", value, key: .some(childKey))
  }

  /// Only children with this value; by key, only the child with this key.
  public func queryEqual(toValue value: Any?) -> DatabaseQuery { adding("equalTo", value) }

  /// Only the child with this value and this key.
  public func queryEqual(toValue value: Any?, childKey: String?) -> DatabaseQuery {
    adding("equalTo", value, key: .some(childKey))
  }

  // MARK: Limit

  /// The first so many.
  public func queryLimited(toFirst limit: UInt) -> DatabaseQuery {
    adding("limitToFirst", NSNumber(value: limit))
  }

  /// The last so many: of a list with keys of `childByAutoId()`, the newest.
  public func queryLimited(toLast limit: UInt) -> DatabaseQuery {
    adding("limitToLast", NSNumber(value: limit))
  }
}

/// The parts of a query, gathered as they are named and checked together when it is used.
struct QueryOptions: Sendable {
  private var members: [(name: String, value: JSONValue)] = []
  private var problem: DatabaseError?

  init() {}

  /// These and one more; each part can be given once.
  func adding(_ name: String, _ value: Any?, key: String??) -> QueryOptions {
    var result = self
    do throws(DatabaseError) {
      if members.contains(where: { $0.name == name }) {
        let what = name == "orderBy" ? "order" : name
        throw DatabaseError(.invalidQuery, "a query can have only one \(what)")
      }
      let write = try AnyValue.write(value)
      guard write.serverValues.isEmpty else {
        throw DatabaseError(.invalidQuery, "\(name) may not be a server value")
      }
      var part: JSONValue = write.node.isAbsent ? .null : .leaf(write.node)
      if case .some(.some(let key)) = key { part = .array([part, .leaf(Node(key))]) }
      result.members.append((name, part))
    } catch {
      result.problem = problem ?? DatabaseError(.invalidQuery, error.sentence)
    }
    return result
  }

  /// - Throws: `DatabaseError` of the code `invalidQuery`, which says which part is wrong.
  func query() throws(DatabaseError) -> Query {
    if let problem { throw problem }
    guard !members.isEmpty else { return .all }
    return try DatabaseError.wrap { () throws(TreeError) in
      try Query(options: .object(members))
    }
  }
}
