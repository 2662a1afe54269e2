internal import CanopyTree
internal import Synchronization

/// A location with a selection of its children, in an order, for observing and reading.
///
/// Immutable: every method that narrows the query returns a new one. A contradictory combination
/// fails when the query is used, with an error of the code `invalidQuery`.
///
/// `@unchecked Sendable`: all properties are constants of `Sendable` types. The compiler does not check
/// a class that is not final; the only subclass, `DatabaseReference`, adds no property.
public class DatabaseQuery: @unchecked Sendable {
  /// The database.
  public let database: Database
  let target: ReferenceTarget
  private let options: QueryOptions

  init(_ database: Database, _ target: ReferenceTarget, _ options: QueryOptions = QueryOptions()) {
    self.database = database
    self.target = target
    self.options = options
  }

  /// The location.
  public var ref: DatabaseReference { reference }

  var reference: DatabaseReference {
    (self as? DatabaseReference) ?? DatabaseReference(database, target)
  }

  /// Returns the query's specification.
  ///
  /// - Throws: `DatabaseError` if the query is invalid.
  func spec() throws(DatabaseError) -> QuerySpec {
    switch target {
    case .none(let error): throw error
    case .info: throw DatabaseError(.invalidPath, "/.info can only be observed as a value")
    case .tree(let path): return QuerySpec(path, try options.query())
    }
  }

  private func adding(_ name: String, _ value: Any?, key: String?? = nil) -> DatabaseQuery {
    DatabaseQuery(database, target, options.adding(name, value, key: key))
  }

  // MARK: Order

  /// Returns the query ordered by the value at a key, or at a path, below each child.
  public func queryOrdered(byChild key: String) -> DatabaseQuery {
    // The names with `$` have another meaning in the options.
    adding("orderBy", key.hasBytePrefix("$") ? "" : key)
  }

  /// Returns the query ordered by key.
  public func queryOrderedByKey() -> DatabaseQuery { adding("orderBy", "$key") }

  /// Returns the query ordered by value.
  public func queryOrderedByValue() -> DatabaseQuery { adding("orderBy", "$value") }

  /// Returns the query ordered by priority, which is the default.
  public func queryOrderedByPriority() -> DatabaseQuery { adding("orderBy", "$priority") }

  // MARK: Range

  /// Returns the query with a lower bound, inclusive: a value, or in key order a key.
  public func queryStarting(atValue value: Any?) -> DatabaseQuery { adding("startAt", value) }

  /// Returns the query with a lower bound, inclusive: a value, and among the children with that
  /// value a key.
  public func queryStarting(atValue value: Any?, childKey: String?) -> DatabaseQuery {
    adding("startAt", value, key: .some(childKey))
  }

  /// Returns the query with a lower bound, exclusive: a value, or in key order a key.
  public func queryStarting(afterValue value: Any?) -> DatabaseQuery { adding("startAfter", value) }

  /// Returns the query with a lower bound, exclusive: a value, and among the children with that
  /// value a key.
  public func queryStarting(afterValue value: Any?, childKey: String?) -> DatabaseQuery {
    adding("startAfter", value, key: .some(childKey))
  }

  /// Returns the query with an upper bound, inclusive: a value, or in key order a key.
  public func queryEnding(atValue value: Any?) -> DatabaseQuery { adding("endAt", value) }

  /// Returns the query with an upper bound, inclusive: a value, and among the children with that
  /// value a key.
  public func queryEnding(atValue value: Any?, childKey: String?) -> DatabaseQuery {
    adding("endAt", value, key: .some(childKey))
  }

  /// Returns the query with an upper bound, exclusive: a value, or in key order a key.
  public func queryEnding(beforeValue value: Any?) -> DatabaseQuery { adding("endBefore", value) }

  /// Returns the query with an upper bound, exclusive: a value, and among the children with that
  /// value a key.
  public func queryEnding(beforeValue value: Any?, childKey: String?) -> DatabaseQuery {
    adding("endBefore", value, key: .some(childKey))
  }

  /// Returns the query for the children with a value, or in key order for the child with a key.
  public func queryEqual(toValue value: Any?) -> DatabaseQuery { adding("equalTo", value) }

  /// Returns the query for the child with a value and a key.
  public func queryEqual(toValue value: Any?, childKey: String?) -> DatabaseQuery {
    adding("equalTo", value, key: .some(childKey))
  }

  // MARK: Limit

  /// Returns the query limited to the first children. A limit is 1 to 2,147,483,647.
  public func queryLimited(toFirst limit: UInt) -> DatabaseQuery {
    adding("limitToFirst", Self.number(of: limit))
  }

  /// Returns the query limited to the last children: with keys of `childByAutoId()`, the newest.
  public func queryLimited(toLast limit: UInt) -> DatabaseQuery {
    adding("limitToLast", Self.number(of: limit))
  }

  /// Returns the number of a limit. Every limit that is too high becomes the same one, which any integer type can hold.
  private static func number(of limit: UInt) -> NSNumber {
    NSNumber(value: Int64(min(limit, UInt(QueryOptions.limitMax) + 1)))
  }
}

/// The parts of a query, checked together when the query is used.
struct QueryOptions: Sendable {
  private var members: [(name: String, value: JSONValue)] = []
  private var problem: DatabaseError?

  /// The highest limit.
  static let limitMax = Int(Int32.max)

  init() {}

  /// Returns the options with one more part. Each part can be given once.
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
      guard !(value is [Any]), !(value is [AnyHashable: Any]) else {
        throw DatabaseError(.invalidQuery, "\(name) must be a number, a string, a bool or nil")
      }
      var part: JSONValue = write.node.isAbsent ? .null : .leaf(write.node)
      if case .some(.some(let key)) = key { part = .array([part, .leaf(Node(key))]) }
      result.members.append((name, part))
    } catch {
      result.problem = problem ?? DatabaseError(.invalidQuery, error.sentence)
    }
    return result
  }

  /// Returns the query.
  ///
  /// - Throws: `DatabaseError` with the code `invalidQuery`, which says which part is wrong.
  func query() throws(DatabaseError) -> Query {
    if let problem { throw problem }
    guard !members.isEmpty else { return .all }
    let query = try DatabaseError.wrap { () throws(TreeError) in
      try Query(options: .object(members))
    }
    if query.order == .priority,
      query.lower?.value.isBool == true || query.upper?.value.isBool == true
    {
      throw DatabaseError(
        .invalidQuery, "by priority, a bound must be a number, a string or nil, like a priority")
    }
    switch query.limit {
    case .first(let count)?, .last(let count)?:
      guard count <= Self.limitMax else {
        throw DatabaseError(.invalidQuery, "a limit may be at most \(Self.limitMax)")
      }
    case nil: break
    }
    return query
  }
}

extension BoundValue {
  fileprivate var isBool: Bool {
    if case .bool = self { true } else { false }
  }
}
