public import CanopyAccounts
internal import CanopyEngine
public import CanopySocial
public import CanopyTree
public import CanopyWire

/// A page of the data of a user: the account and its sessions, the posts, the comments, and the ids of the posts with
/// the user's star.
///
/// It has no secrets, no claims of custom sessions, no on-disconnect writes, and no data outside the blog.
public struct UserExport: Sendable {
  /// The page as the reply to `EXPORT` has it.
  public let json: ReplyJSON
  /// The cursor of the next page; nil at the end.
  public let after: String?

  /// Reads a page.
  ///
  /// - Parameters:
  ///   - username: returns the user name in the tree; nil if there is none.
  ///   - contributions: returns what the user has added to the blog, from a position.
  /// - Throws: `WireError` for a cursor that is not one; `AccountError.notFound`; errors of `contributions`.
  public init(
    _ page: ExportPage, of uid: Key, accounts: AccountService, username: () -> String?,
    contributions: (Contributions.Position) async throws -> Contributions
  ) async throws {
    var position = Contributions.Position.posts(after: nil)
    if let after = page.after {
      guard let given = Contributions.Position(after) else {
        throw WireError(.badRequest, "after must be that of the reply before")
      }
      position = given
    }
    var members: [(String, ReplyJSON)] = []
    if page.after == nil {
      let account = try await accounts.account(.uid(uid.text))
      let sessions = try await accounts.sessions(uid: uid.text, limit: 1_000)
      members.append(("account", ReplyJSON(exported: account, sessions, uid, username())))
    }
    let found = try await contributions(position)
    after = found.next?.text
    json = .object(members + found.members)
  }
}

extension ReplyJSON {
  /// Creates the JSON of an account with its sessions, without secrets.
  fileprivate init(
    exported account: Account, _ sessions: [StoredSession], _ uid: CanopyTree.Key,
    _ username: String?
  ) {
    let details = account.details
    func text(_ text: String?) -> ReplyJSON { text.map { .text($0) } ?? .null }
    self = [
      "uid": .key(uid), "username": text(username), "email": .text(account.email),
      "provider": .text(account.provider), "verified": .bool(details.isEmailVerified),
      "displayName": text(details.displayName), "photoURL": text(details.photoURL),
      "claims": text(details.claims), "createdAt": .number(account.createdAt),
      "lastLoginAt": details.lastLoginAt.map { .number($0) } ?? .null,
      "sessions": .array(
        sessions.map { ["begun": .number($0.begun), "expires": .number($0.expiresAt)] }),
    ]
  }

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

/// The export of a user's data.
extension Operations {
  /// Returns a page of the account and the blog data of a user. The blog is in the default namespace.
  func export(
    _ page: ExportPage, of uid: Key, from network: RemoteNetwork
  ) async throws -> Reply {
    let engine = (home ?? self).engine
    let export = try await UserExport(
      page, of: uid, accounts: accounts, username: { Users.username(of: uid, in: engine.root) },
      contributions: { position in
        // With the tree at the turn: a call that waits must not hold a version.
        try await beside(turns(of: network)) {
          Contributions(of: uid, from: position, limit: page.limit, in: engine.root)
        }
      })
    return try bounded(export.json, "ask for fewer entries")
  }
}
