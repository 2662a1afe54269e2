internal import CanopyAccounts
internal import CanopyEngine
internal import CanopyRules
internal import CanopySocial
internal import CanopyTree
internal import CanopyWire
internal import Logging

/// What the rules say of requests to the tree. The administrator is not bound by them.
extension LineService {
  /// Whether rules let a caller read; nothing is said of why not.
  ///
  /// - Throws: `WireError`, also for a query by something of which the rules declare no index: it would
  ///   go through all children, whoever asks.
  func checkRead(
    _ path: Path, _ query: Query, in root: Node, as identity: Identity
  ) throws(WireError) {
    guard let caller = identity.caller(at: now()) else { return }
    let rules = rules.current.rules
    guard rules.mayRead(path, query, in: root, as: caller) else { throw .denied }
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

  /// What judges the writes of a connection.
  func writeJudge(as identity: Identity) -> (@Sendable (ProposedWrite) -> Bool)? {
    if case .administrator = identity { return nil }
    return { [rules] write in
      guard let caller = identity.caller(at: write.time) else { return true }
      return rules.current.allows(write, as: caller)
    }
  }

  /// What judges a listener.
  func listenJudge(_ listening: Listening, as identity: Identity) -> ListenJudge? {
    var group: ObjectIdentifier?
    switch identity {
    case .administrator: return nil
    case .user(let session): group = ObjectIdentifier(session)
    case .anonymous: break
    }
    return ListenJudge(group: group) { [rules] root, time in
      guard let caller = identity.caller(at: time) else { return ListenVerdict(isAllowed: true) }
      let verdict = rules.current.rules.judgeRead(
        listening.path, listening.query, in: root, as: caller)
      return ListenVerdict(
        isAllowed: verdict.isAllowed, places: verdict.places, dependsOnTime: verdict.dependsOnTime)
    }
  }

  /// Answers RULES without a text.
  func tellRules(to output: inout JSONOutput) {
    let version = rules.current
    Reply.success(to: &output) { output in
      output.append("{\"builtIn\":")
      output.append(Node(version.isBuiltIn))
      output.append(",\"text\":")
      output.append(string: version.text)
      output.append("}")
    }
  }

  /// Carries out RULES with a text.
  func setRules(_ text: String?) async throws -> Response {
    do {
      let sequence = try await rules.replace(by: text, in: engine)
      logger.notice(
        "the rules have been replaced",
        metadata: ["builtIn": "\(text == nil)", "seq": "\(sequence)"])
      return Response { output in
        output.append("{\"seq\":")
        output.append(sequence)
        output.append("}")
      }
    } catch let error as RulesError {
      let shown = error.problems.prefix(3).map(\.description).joined(separator: "; ")
      let more = error.problems.count - 3 + error.omitted
      throw WireError(.invalidData, shown + (more > 0 ? "; and \(more) more" : ""))
    } catch let error as RulesFileError {
      logger.error("the rules cannot be kept", metadata: ["error": "\(error.sentence)"])
      throw WireError(.unavailable, "the rules are as they were: " + error.sentence)
    }
  }

  /// Carries out EXPLAIN: what the rules would say now, and why.
  func explain(_ request: ExplainRequest) async throws -> Response {
    let caller = RuleCaller(auth: try await auth(request.who), now: now())
    let rules = rules.current.rules
    let root = engine.root
    let explanation: Explanation
    switch request.operation {
    case .read(let path, let query):
      explanation = rules.explainRead(path, query, in: root, as: caller)
    case .set(let location, let value):
      explanation = explain(try Write.set(location, value), rules, root, caller)
    case .update(let path, let changes):
      let write = try Write.update(path, changes.map { ($0.location, $0.value) })
      explanation = explain(write, rules, root, caller)
    }
    let response = Response { $0.append(explanation) }
    guard response.line.count <= limits.replyBytesMax else {
      throw WireError(
        .tooLarge, "the explanation is larger than a reply may be; ask about a smaller write")
    }
    return response
  }

  private func explain(
    _ write: Write, _ rules: RuleSet, _ root: Node, _ caller: RuleCaller
  ) -> Explanation {
    let (assignments, after) = write.outcome(in: root, at: caller.now)
    return rules.explainWrite(assignments.map(\.location), before: root, after: after, as: caller)
  }

  private func auth(_ who: ExplainRequest.Caller) async throws -> Node? {
    switch who {
    case .nobody: return nil
    case .auth(let node): return node
    case .user(let reference):
      let uid = try find(reference, as: .administrator, in: engine.root)
      let email = try? await accounts.account(.uid(uid.text)).email
      return UserSession.auth(uid: uid, email: email)
    }
  }
}

extension RulesKeeper.Version {
  /// Whether the rules allow a write.
  func allows(_ write: ProposedWrite, as caller: RuleCaller) -> Bool {
    rules.judge(write.assignments, before: write.before, after: write.after, as: caller).isAllowed
  }
}

extension Write {
  /// What a write would come to, and the root after it.
  func outcome(in root: Node, at time: Int64) -> (assignments: [Assignment], after: Node) {
    let assignments = resolved(in: root, at: time)
    var tree = Tree(root: root)
    tree.apply(assignments)
    return (assignments, tree.root)
  }
}

extension Order {
  /// How `.indexOn` names it.
  fileprivate var ruleName: String {
    switch self {
    case .key: ".key"
    case .value: ".value"
    case .priority: ".priority"
    case .child(let path): path.text
    }
  }
}

extension JSONOutput {
  fileprivate mutating func append(_ explanation: Explanation) {
    append("{\"allowed\":")
    append(Node(explanation.verdict.isAllowed))
    if case .denied(let denial) = explanation.verdict {
      append(",\"reason\":")
      append(string: denial.sentence)
    }
    append(",\"steps\":[")
    for (index, step) in explanation.steps.enumerated() {
      append(index > 0 ? ",{\"rule\":" : "{\"rule\":")
      append(string: step.rule)
      append(",\"line\":")
      append(Int64(step.line))
      append(",\"at\":")
      append(string: step.location)
      append(",\"outcome\":")
      append(string: step.outcome.sentence)
      append(",\"parts\":[")
      for (index, part) in step.parts.enumerated() {
        append(index > 0 ? ",[" : "[")
        append(string: part.text)
        append(",")
        append(string: part.value)
        append("]")
      }
      append("]}")
    }
    append("]}")
  }
}
