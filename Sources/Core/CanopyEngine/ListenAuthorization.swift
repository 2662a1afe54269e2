public import CanopyTree

/// Decides whether a listener may listen.
public struct ListenAuthorization: Sendable {
  /// The subject of a decision: the caller and the data that they ask for.
  ///
  /// Authorizations with the same subject give the same verdict for the same root and time. So one evaluation
  /// serves all listeners with that subject.
  public struct Subject: Hashable, Sendable {
    let caller: ObjectIdentifier?
    let path: Path
    /// The query, if it is not the one for all children.
    private var query: QueryBox?
    /// Whether the subject is that of all queries.
    private var isOfAllQueries = false

    /// Creates a subject.
    ///
    /// - Parameters:
    ///   - caller: the login; nil for all clients without one.
    ///   - listening: the target; its form is ignored.
    public init(caller: ObjectIdentifier?, _ listening: Listening) {
      self.caller = caller
      path = listening.path
      query = listening.query == .all ? nil : QueryBox(listening.query)
    }

    /// The subject of a verdict that does not depend on the query.
    var ofAllQueries: Subject {
      var subject = self
      subject.query = nil
      subject.isOfAllQueries = true
      return subject
    }

    /// A query in an object of its own. It is large, and few listeners have one.
    private final class QueryBox: Hashable, Sendable {
      let query: Query

      init(_ query: Query) { self.query = query }

      static func == (first: QueryBox, second: QueryBox) -> Bool { first.query == second.query }

      func hash(into hasher: inout Hasher) { hasher.combine(query) }
    }
  }

  /// The group that is authorized again together: see `Engine.reauthorize`.
  public var group: ObjectIdentifier?
  /// The subject; nil if no other authorization has the same.
  public var subject: Subject?
  /// Returns the verdict for a root and a time in milliseconds since 1970 if it takes at most `stepsLeft` steps of the
  /// rules, and reduces them by those that it takes. Returns nil if it takes more, and never with `Int.max`.
  public var authorizeBriefly: Briefly

  /// Returns a verdict if it takes few steps.
  public typealias Briefly =
    @Sendable (_ root: Node, _ time: Int64, _ stepsLeft: inout Int) -> ReadVerdict?

  /// Creates an authorization.
  public init(
    group: ObjectIdentifier? = nil, subject: Subject? = nil,
    authorizeBriefly: @escaping Briefly
  ) {
    self.group = group
    self.subject = subject
    self.authorizeBriefly = authorizeBriefly
  }

  /// Creates an authorization whose verdicts take few steps.
  public init(
    group: ObjectIdentifier? = nil, subject: Subject? = nil,
    authorize: @escaping @Sendable (_ root: Node, _ time: Int64) -> ReadVerdict
  ) {
    self.init(group: group, subject: subject) { root, time, _ in authorize(root, time) }
  }

  /// Returns the verdict, however many steps it takes. The rules have a bound of their own, with which they decide.
  public func authorize(_ root: Node, _ time: Int64) -> ReadVerdict {
    var stepsLeft = Int.max
    return authorizeBriefly(root, time, &stepsLeft) ?? ReadVerdict(isAllowed: false)
  }
}
