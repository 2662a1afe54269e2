internal import CanopyAccounts
internal import CanopyEngine
internal import CanopyMetrics
internal import CanopyRules
internal import CanopySocial
internal import CanopyTree
public import CanopyWire
internal import Logging

/// Requests of the administrator about the server.
extension Operations {
  /// Carries out a request of the administrator.
  ///
  /// - Parameters:
  ///   - client: the number of the connection of the request; nil for one without a number.
  ///   - address: the remote address of the connection, for the log.
  public func administration(
    _ request: AdministrationRequest, as identity: Identity, on client: Int64? = nil,
    from address: String = ""
  ) async -> Session.Completion {
    do {
      try requireAdministrator(identity)
      let reply = try await perform(request, on: client, from: address)
      if let (action, metadata) = AdministratorAction.line(of: request, reply) {
        log(action, metadata, client, address)
      }
      return Session.Completion(reply)
    } catch {
      var known = storeError(error)
      if let error = error as? UncertainChange {
        known = WireError(.unavailable, error.administratorSentence)
      }
      return Session.Completion(known)
    }
  }

  private func perform(
    _ request: AdministrationRequest, on client: Int64?, from address: String
  ) async throws -> Reply {
    switch request {
    case .setRules(let text): try await setRules(text)
    case .checkRules(let text): try await checkRules(text)
    case .explain(let request): try await explain(request)
    case .users(let page): try await users(page)
    case .user(let reference): .json(description(of: try await account(reference)))
    case .setDisabled(let isDisabled, let reference):
      try await change(reference, endsLogins: isDisabled) {
        try await accounts.setDisabled(isDisabled, .uid($0))
      }
    case .setPassword(let new, let reference):
      try await change(reference) { try await accounts.setPassword(new, .uid($0)) }
    case .sessions(let reference, let limit): try await storedSessions(of: reference, limit: limit)
    case .endSessions(let reference): try await endSessions(of: reference)
    case .addUser(let email, let password, let username):
      try await addUser(email: email, password: password, username: username)
    case .makeResetCode(let reference): try await makeResetCode(of: reference)
    case .deleteUser(let reference, let withPosts):
      try await deleteUser(reference, withPosts: withPosts)
    case .export(let reference, let page):
      try await export(
        page, of: try Key(try await account(reference).uid), from: RemoteNetwork(address))
    case .clients(let after, let limit): try await clients(after: after, limit: limit, for: client)
    case .client(let id, let limit): try await describe(id, listMax: limit, for: client)
    case .endClient(let id): try await end(id, for: client)
    case .metrics: .json(["time": .number(now()), "metrics": ReplyJSON(metrics.current)])
    case .log(let page): try log(page)
    case .logLevel(let level): logLevel(level)
    case .namespaces: try await listNamespaces()
    case .makePass: .json(makePass())
    case .endPass(let token): .json(.bool(passes.end(token)))
    case .makeBackup: .json(try await requireBackups().make())
    case .listBackups: try bounded(try await requireBackups().list(), "list the folder backups")
    }
  }

  /// Checks rules beside the caller's thread, without putting them in force.
  private func checkRules(_ text: String?) async throws -> Reply {
    guard let text else { return .json(ReplyJSON(nil as RulesError?)) }
    let error = try await beside { () -> RulesError? in
      do throws(RulesError) { _ = try RuleSet(text: text) } catch { return error }
      return nil
    }
    return try bounded(ReplyJSON(error), "correct some of the problems first")
  }

  private func requireBackups() throws(WireError) -> any BackupOperations {
    guard let backups else {
      throw WireError(
        .badRequest,
        "this server makes no backups: its data is in PostgreSQL, which has its own tools, such as pg_dump"
      )
    }
    return backups
  }

  /// Sets the level of the log, if there is one, and returns the level.
  private func logLevel(_ level: LogPage.Level?) -> Reply {
    if let level = level.flatMap({ Logger.Level(rawValue: $0.rawValue) }) {
      // Written at the level before or after, whichever shows it.
      let before = logLines.level.current
      logLines.level.set(min(level, before))
      logger.notice(
        "the level of the log is changed", metadata: ["from": "\(before)", "to": "\(level)"])
      logLines.level.set(level)
    }
    return .json(["level": .text(logLines.level.current.rawValue)])
  }

  private func log(_ page: LogPage) throws(WireError) -> Reply {
    let (lines, last) = logLines.page(page)
    let json: ReplyJSON = [
      "lines": .array(
        lines.map { line in
          [
            "number": .number(line.number), "time": .number(line.time),
            "level": .text(line.level.rawValue), "message": .text(line.message),
            "metadata": .object(line.metadata.map { ($0.name, .text($0.value)) }),
          ]
        }),
      "last": .number(last),
    ]
    return try bounded(json, "ask for fewer lines")
  }

  /// Returns a reply with JSON.
  ///
  /// - Throws: `WireError` with a hint if it is larger than a reply may be.
  func bounded(_ json: ReplyJSON, _ hint: String) throws(WireError) -> Reply {
    var output = JSONOutput()
    json.append(to: &output)
    // One byte for the sign of a success, two for the end of the line.
    guard output.count + 3 <= limits.replyBytesMax else {
      throw WireError(.tooLarge, "the answer is larger than a reply may be; \(hint)")
    }
    return .json(json)
  }
}

extension Operations {
  /// Returns the children of a location without the values below them.
  ///
  /// - Complexity: O(log n + limit).
  func keys(_ path: Path, _ page: KeysPage, in root: Node) -> Reply {
    let node = root.at(path)
    var children = node.children(after: page.after, limit: page.limit + 1)
    let hasMore = children.count > page.limit
    if hasMore { children.removeLast() }
    var members: [(String, ReplyJSON)] = [("count", .number(Int64(node.childCount)))]
    if !node.isBranch { members += ReplyJSON.members(ofShort: node) }
    members.append(
      (
        "children",
        .array(
          children.map { key, node in
            .object([("key", .key(key))] + ReplyJSON.members(ofShort: node))
          })
      ))
    members.append(("more", .bool(hasMore)))
    return .json(.object(members))
  }

  /// Returns the costs of a query: the index that it uses, and the number of children.
  ///
  /// - Complexity: O(log n).
  func plan(of query: Query, at path: Path, _ rules: RuleSet, in root: Node) -> ReplyJSON {
    let node = root.at(path)
    let isIndexed = query.isIndexed(in: node)
    let isDeclared =
      switch query.order {
      case .key, .priority: true
      case .child, .value: rules.indexPlan.declares(query.order, at: path)
      }
    return [
      "order": .text(query.order.optionText), "indexed": .bool(isIndexed),
      "declared": .bool(isDeclared), "children": .number(Int64(node.childCount)),
      "matches": isIndexed ? .number(Int64(query.count(in: node))) : .null,
    ]
  }
}

/// The backups of a server, for its administrator.
public protocol BackupOperations: Sendable {
  /// Makes a backup, and describes it when it is complete.
  ///
  /// - Throws: `WireError`, also if another backup is being made.
  func make() async throws -> ReplyJSON

  /// Describes the stored backups, and the progress of the present one.
  ///
  /// - Throws: `WireError` if they cannot be listed.
  func list() async throws -> ReplyJSON
}
