internal import CanopyAccounts
internal import CanopyEngine
internal import CanopySocial
internal import CanopyTree
internal import CanopyWire

/// The export of a user's own data.
extension Operations {
  /// Returns a page of everything that the server has about the caller: the account and its sessions, the posts, the
  /// comments, and the ids of the posts with the caller's star.
  ///
  /// - Throws: `WireError` without a login, or for a cursor that is not one.
  func export(
    _ page: ExportPage, as identity: Identity, from network: RemoteNetwork
  ) async throws -> Session.Completion {
    let uid = try user(identity)
    var position = Contributions.Position.posts(after: nil)
    if let after = page.after {
      guard let given = Contributions.Position(after) else {
        throw WireError(.badRequest, "after must be that of the reply before")
      }
      position = given
    }
    var members: [(String, ReplyJSON)] = []
    if page.after == nil { members.append(("account", try await exported(uid))) }
    // With the tree at the turn: a call that waits must not hold a version.
    members += try await beside(turns(of: network)) { [engine, position] in
      Contributions(of: uid, from: position, limit: page.limit, in: engine.root).members
    }
    return Session.Completion(try bounded(.object(members), "ask for fewer entries"))
  }

  /// Returns an account with its sessions, without secrets.
  private func exported(_ uid: Key) async throws -> ReplyJSON {
    let account = try await accounts.account(.uid(uid.text))
    let sessions = try await accounts.sessions(uid: uid.text, limit: 1_000)
    let details = account.details
    func text(_ text: String?) -> ReplyJSON { text.map { .text($0) } ?? .null }
    return [
      "uid": .key(uid), "username": text(Users.username(of: uid, in: engine.root)),
      "email": .text(account.email), "provider": .text(account.provider),
      "verified": .bool(details.isEmailVerified), "displayName": text(details.displayName),
      "photoURL": text(details.photoURL), "claims": text(details.claims),
      "createdAt": .number(account.createdAt),
      "lastLoginAt": details.lastLoginAt.map { .number($0) } ?? .null,
      "sessions": .array(
        sessions.map { ["begun": .number($0.begun), "expires": .number($0.expiresAt)] }),
    ]
  }
}

extension Contributions {
  /// The members of the reply.
  fileprivate var members: [(String, ReplyJSON)] {
    [
      ("posts", .array(posts.map { ReplyJSON(exported: $0.node, [("id", .key($0.id))]) })),
      (
        "comments",
        .array(
          comments.map {
            ReplyJSON(exported: $0.node, [("id", .key($0.id)), ("post", .key($0.post))])
          })
      ),
      ("stars", .array(stars.map { .key($0) })),
      ("after", next.map { .text($0.text) } ?? .null),
    ]
  }
}

extension ReplyJSON {
  /// Creates the JSON of a post or comment: its members that are texts or numbers, after some others. The stars of other
  /// users are left out.
  fileprivate init(exported node: Node, _ members: [(String, ReplyJSON)]) {
    var members = members
    node.forEachChild { key, child in
      if let text = child.stringValue {
        members.append((key.text, .text(text)))
      } else if let number = child.integerValue {
        members.append((key.text, .number(number)))
      }
      return true
    }
    self = .object(members)
  }
}
