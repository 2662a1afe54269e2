internal import CanopyAccounts
public import CanopyEngine
internal import CanopyIdentity
internal import CanopyRules
internal import CanopySocial
internal import CanopyTree
internal import CanopyWire
internal import Logging
internal import Synchronization

/// Authorization of requests to the tree by the rules, which do not bind the administrator.
extension Operations {
  /// Checks that the rules allow a read.
  ///
  /// - Throws: `WireError`, without the reason. A query by an order for which the rules declare no index is
  ///   refused as well, because it would go through all children.
  func checkRead(
    _ path: Path, _ query: Query, in root: Node, as identity: Identity
  ) throws(WireError) {
    guard let caller = identity.caller(at: now()) else { return }
    let rules = rules.current.rules
    guard rules.mayRead(path, query, in: root, as: caller) else { throw .denied }
    try checkIndex(of: query, at: path, rules)
  }

  /// The most steps of the rules of one request that are evaluated on the caller's thread: about a tenth of a millisecond.
  /// The rules of the blog take some hundred.
  static let ruleStepsAtOnceMax = 8 * 1024

  /// Checks that the rules allow a read, as far as a few steps of them show that. For a thread that is not to be held.
  ///
  /// - Returns: whether that is decided. If not, `checkRead` decides it, on another thread.
  /// - Throws: `WireError`, as `checkRead` does.
  func checkReadBriefly(
    _ path: Path, _ query: Query, in root: Node, as identity: Identity
  ) throws(WireError) -> Bool {
    guard let caller = identity.caller(at: now()) else { return true }
    let rules = rules.current.rules
    let mayRead = rules.mayRead(
      path, query, in: root, as: caller, stepsMax: Operations.ruleStepsAtOnceMax)
    if mayRead == false { throw .denied }
    try checkIndex(of: query, at: path, rules)
    return mayRead != nil
  }

  private func checkIndex(
    of query: Query, at path: Path, _ rules: RuleSet
  ) throws(WireError) {
    switch query.order {
    case .key, .priority: return
    case .child, .value:
      guard !rules.indexPlan.declares(query.order, at: path) else { return }
      throw WireError(
        .invalidQuery,
        "Index not defined, add \".indexOn\": \"\(query.order.ruleName)\", for path "
          + "\"\(path)\", to the rules")
    }
  }

  /// Returns the policy by which the rules check a write; nil for the administrator, whose locations are each written
  /// separately.
  func writePolicy(as identity: Identity) -> (any WritePolicy)? {
    if case .administrator = identity { return nil }
    return CallerPolicy(operations: self, identity: identity)
  }

  /// Refuses a large write that a few steps of the rules deny whatever the data is, before it takes time of the writer.
  /// If the rules take more steps, the writer decides: the write must not be overtaken by later ones of its connection.
  ///
  /// - Throws: `WireError.denied`, or `tooLarge` as `checkDerivation` does.
  func checkEarlyAndBriefly(_ write: Write, as identity: Identity) throws(WireError) {
    // First, because it costs least.
    try checkDerivation(write, as: identity)
    guard write.isLarge, let caller = identity.caller(at: now()) else { return }
    let isDenied = rules.current.rules.denies(
      write, as: caller, stepsMax: Operations.ruleStepsAtOnceMax)
    if isDenied == true { throw .denied }
  }

  /// Refuses a large write that the rules deny whatever the data is, before it takes time of the writer.
  ///
  /// - Throws: `WireError.denied`, or `tooLarge` as `checkDerivation` does.
  func checkEarly(_ write: Write, as identity: Identity) throws(WireError) {
    // First, because it costs least.
    try checkDerivation(write, as: identity)
    guard write.isLarge, let caller = identity.caller(at: now()) else { return }
    if rules.current.rules.denies(write, before: nil, as: caller) { throw .denied }
  }

  /// Checks the number of locations of a write from which the blog derives data, unless the administrator writes.
  ///
  /// - Throws: `WireError.tooLarge`.
  func checkDerivation(_ write: Write, as identity: Identity) throws(WireError) {
    if case .administrator = identity { return }
    // Looked at first: most writes are small, and this takes no lock.
    guard write.assignments.count > DerivedData.locationsMax else { return }
    try rules.current.checkDerivation(at: write.assignments.lazy.map(\.location))
  }

  /// Refuses a client's write to a path that only the server writes, whatever the rules say: see `Layout.serverPlaces`.
  /// Not called for the administrator.
  ///
  /// - Throws: `WireError` with the location.
  func checkServerPlaces(
    _ assignments: [Assignment], before: Node, after: Node
  ) throws(WireError) {
    // In other namespaces these locations have no meaning.
    guard hasBlog,
      let place = Layout.serverPlace(changedBy: assignments, before: before, after: after)
    else { return }
    throw WireError(
      .permissionDenied,
      "/\(place) belongs to the server: only the administrator may write it, also as a part of /")
  }

  /// Returns the check that the rules allow a listener, or nil for the administrator.
  public func listenAuthorization(_ listening: Listening, as identity: Identity)
    -> ListenAuthorization?
  {
    var group: ObjectIdentifier?
    switch identity {
    case .administrator: return nil
    case .user(let session): group = ObjectIdentifier(session)
    case .anonymous: break
    }
    let subject = ListenAuthorization.Subject(caller: group, listening)
    return ListenAuthorization(group: group, subject: subject) { [rules] root, time, stepsLeft in
      guard let caller = identity.caller(at: time) else { return ReadVerdict(isAllowed: true) }
      return rules.current.rules.authorizeRead(
        listening.path, listening.query, in: root, as: caller, stepsLeft: &stepsLeft)
    }
  }

  /// Replaces the rules.
  func setRules(_ text: String?) async throws -> Reply {
    do {
      let sequence = try await rules.replace(by: text, in: engine)
      logger.notice(
        "the rules have been replaced",
        metadata: ["builtIn": "\(text == nil)", "seq": "\(sequence)"])
      // The built-in rules may be in force again.
      continueUnfinishedWork()
      return .committed(sequence)
    } catch let error as RulesError {
      let shown = error.problems.prefix(3).map(\.description).joined(separator: "; ")
      let more = error.problems.count - 3 + error.omitted
      throw WireError(.invalidData, shown + (more > 0 ? "; and \(more) more" : ""))
    } catch let error as RulesFileError {
      logger.error("the rules cannot be kept", metadata: ["error": "\(error.sentence)"])
      throw WireError(.unavailable, "the rules are as they were: " + error.sentence)
    }
  }

  /// Evaluates the rules for a request without carrying it out.
  func explain(_ request: ExplainRequest) async throws -> Reply {
    let caller = RuleCaller(auth: try await auth(of: request.caller), now: now())
    let rules = rules.current.rules
    let root = engine.root
    switch request.operation {
    case .read(let path, let query):
      return try explained(
        rules.explainRead(path, query, in: root, as: caller),
        query: plan(of: query, at: path, rules, in: root))
    case .set(let location, let value):
      return try explained(explain(try Write.set(location, value), rules, root, caller))
    case .update(let path, let changes):
      let write = try Write.update(path, changes.map { ($0.location, $0.value) })
      return try explained(explain(write, rules, root, caller))
    }
  }

  /// - Parameter query: the costs of a query; nil for a write.
  /// - Throws: `WireError` when the explanation is larger than a reply may be.
  private func explained(
    _ explanation: Explanation, query: ReplyJSON? = nil
  ) throws(WireError) -> Reply {
    try bounded(ReplyJSON(explanation, query: query), "ask about a smaller write")
  }

  private func explain(
    _ write: Write, _ rules: RuleSet, _ root: Node, _ caller: RuleCaller
  ) -> Explanation {
    let (assignments, after, _) = write.outcome(in: root, at: caller.now)
    return rules.explainWrite(assignments.map(\.location), before: root, after: after, as: caller)
  }

  private func auth(of caller: ExplainRequest.Caller) async throws -> Node? {
    switch caller {
    case .anonymous: return nil
    case .auth(let node): return node
    case .user(let reference):
      let uid = try find(reference, as: .administrator, in: profiles)
      let account = try? await accounts.account(.uid(uid.text))
      if let account, let identityService { return identityService.auth(of: account) }
      return UserSession.auth(
        uid: uid, email: account?.email, provider: account?.provider ?? "password")
    }
  }
}

/// The policy by which the rules check the write of a user or of an anonymous client.
///
/// The rules in force when the write is made decide, not those when it was requested.
private struct CallerPolicy: WritePolicy {
  let operations: Operations
  let identity: Identity

  private var rules: RulesKeeper { operations.rules }

  func denies(_ write: Write, before: Node, at time: Int64) -> Bool {
    guard let caller = identity.caller(at: time) else { return false }
    return rules.current.denies(write, before: before, as: caller)
  }

  func allows(_ write: ProposedWrite) -> Bool {
    guard let caller = identity.caller(at: write.time) else { return true }
    return rules.current.allows(write, as: caller)
  }

  func derive(_ write: ProposedWrite) throws -> [Assignment]? {
    try operations.derive(write)
  }
}

extension Operations {
  /// Returns all assignments of the commit of a client's write that the rules allow; nil if nothing follows from the write.
  ///
  /// Only the built-in rules are about the blog: other rules may give its locations another meaning, except for those
  /// of the server.
  ///
  /// - Throws: `WireError` for a write to a location of the server; an error of the blog.
  func derive(_ write: ProposedWrite) throws -> [Assignment]? {
    try checkServerPlaces(write.assignments, before: write.before, after: write.after)
    let version = rules.current
    try version.checkDerivation(at: write.assignments.lazy.map(\.location))
    guard version.isAboutBlog else { return nil }
    var charges: [(uid: Key, entries: Int)] = []
    let assignments = try DerivedData.assignments(following: write) { uid, entries, now in
      // A write that is decided again was charged the first time.
      if write.isRepeat { return nil }
      if let wait = renames.withLock({ $0.wait(uid, now: now) }) { return wait }
      charges.append((uid, entries()))
      return nil
    }
    try storage?.admit(assignments ?? write.assignments, over: write.before)
    // Charged only if nothing has refused the write.
    for charge in charges {
      _ = renames.withLock { $0.take(charge.uid, cost: charge.entries, now: write.time) }
    }
    return assignments
  }
}

extension RulesKeeper.Version {
  /// Whether the rules allow a write.
  func allows(_ write: ProposedWrite, as caller: RuleCaller) -> Bool {
    rules.authorize(write.assignments, before: write.before, after: write.after, as: caller)
      .isAllowed
  }

  /// Whether the rules deny a write for a reason that the written data cannot change.
  func denies(_ write: Write, before: Node, as caller: RuleCaller) -> Bool {
    rules.denies(write, before: before, as: caller)
  }

  /// Checks the number of locations from which the blog derives data. O(1) for a few locations.
  ///
  /// - Throws: `WireError` if there are more than the writer carries out in one go.
  func checkDerivation(at locations: some Collection<Location>) throws(WireError) {
    guard isAboutBlog, DerivedData.isTooLarge(locations) else { return }
    throw WireError(
      .tooLarge,
      "one write may set at most \(DerivedData.locationsMax) locations of posts and comments; split it into "
        + "several")
  }
}

extension Write {
  /// Returns the assignments of a write, the root after it, and the bytes of the priorities that follow from it.
  func outcome(
    in root: Node, at time: Int64
  ) -> (assignments: [Assignment], after: Node, priorityBytes: Int) {
    let assignments = resolved(in: root, at: time)
    var tree = Tree(root: root)
    let journaled = tree.apply(assignments)
    return (assignments, tree.root, journaled.priorityBytes(besides: assignments))
  }
}

extension Order {
  /// The name of the order in `.indexOn`.
  fileprivate var ruleName: String {
    switch self {
    case .key: ".key"
    case .value: ".value"
    case .priority: ".priority"
    case .child(let path): path.text
    }
  }
}

extension ReplyJSON {
  fileprivate init(_ explanation: Explanation, query: ReplyJSON?) {
    var members = [("allowed", ReplyJSON.bool(explanation.verdict.isAllowed))]
    if case .denied(let denial) = explanation.verdict {
      members.append(("reason", .text(denial.sentence)))
    }
    let steps = explanation.steps.map { step -> ReplyJSON in
      [
        "rule": .text(step.rule), "line": .number(Int64(step.line)), "at": .text(step.location),
        "outcome": .text(step.outcome.sentence),
        "parts": .array(step.parts.map { .array([.text($0.text), .text($0.value)]) }),
      ]
    }
    members.append(("steps", .array(steps)))
    if let query { members.append(("query", query)) }
    self = .object(members)
  }
}
