public import CanopyTree

/// The verdicts about one version of the tree, each asked for once.
///
/// Listeners with different queries share a verdict if it does not depend on the query. So a caller with many queries of
/// one path costs one verdict.
public struct SharedVerdicts: Sendable {
  /// The authorization is kept, so that no other caller gets the identity of one that is gone.
  private var verdicts:
    [ListenAuthorization.Subject: (verdict: ReadVerdict, of: ListenAuthorization)] = [:]

  /// The callers and paths of which a verdict takes more steps than were left. They are not tried again.
  private var undecided: Set<ListenAuthorization.Subject> = []

  /// Creates an empty list.
  public init() {}

  /// Returns the verdict of an authorization, however many steps it takes.
  mutating func verdict(
    of authorization: ListenAuthorization, _ root: Node, _ time: Int64
  ) -> ReadVerdict {
    if let known = known(authorization) { return known }
    let verdict = authorization.authorize(root, time)
    keep(verdict, of: authorization)
    return verdict
  }

  /// Returns the verdict of an authorization if it is known, or takes few steps; else nil.
  ///
  /// - Parameter stepsLeft: the most steps. It is reduced by those that were taken, and none is left after nil.
  mutating func verdict(
    of authorization: ListenAuthorization, _ root: Node, _ time: Int64, stepsLeft: inout Int
  ) -> ReadVerdict? {
    if let known = known(authorization) { return known }
    let subject = authorization.subject?.ofAllQueries
    let isUndecided = subject.map(undecided.contains) ?? false
    guard !isUndecided, let verdict = authorization.authorizeBriefly(root, time, &stepsLeft)
    else {
      if let subject { undecided.insert(subject) }
      stepsLeft = 0
      return nil
    }
    keep(verdict, of: authorization)
    return verdict
  }

  /// Returns the verdict of a check if it is known, or takes at most some steps; else nil.
  ///
  /// - Parameter change: the commit, which must be the same in all calls.
  public mutating func verdict(
    of check: ListenCheck, after change: CommittedChange, stepsMax: Int
  ) -> ReadVerdict? {
    guard let authorization = check.authorization else { return ReadVerdict(isAllowed: false) }
    var stepsLeft = stepsMax
    return verdict(of: authorization, change.after, change.time, stepsLeft: &stepsLeft)
  }

  /// Keeps the verdict of a check for the others with the same subject.
  public mutating func keep(_ verdict: ReadVerdict, of check: ListenCheck) {
    if let authorization = check.authorization { keep(verdict, of: authorization) }
  }

  /// Forgets all verdicts.
  public mutating func removeAll() {
    verdicts = [:]
    undecided = []
  }

  /// Returns the verdict of an authorization if it is known.
  func known(_ authorization: ListenAuthorization) -> ReadVerdict? {
    guard !verdicts.isEmpty, let subject = authorization.subject else { return nil }
    return (verdicts[subject] ?? verdicts[subject.ofAllQueries])?.verdict
  }

  private mutating func keep(_ verdict: ReadVerdict, of authorization: ListenAuthorization) {
    guard let subject = authorization.subject else { return }
    verdicts[verdict.dependsOnQuery ? subject : subject.ofAllQueries] = (verdict, authorization)
  }
}
