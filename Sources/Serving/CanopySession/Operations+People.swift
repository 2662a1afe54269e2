internal import CanopyAccounts
internal import CanopySocial
internal import CanopyTree
internal import CanopyWire

/// Requests of the administrator about accounts. All namespaces have the accounts of the default one.
extension Operations {
  /// Returns the account that a request names.
  ///
  /// - Throws: `AccountError.notFound`; `SocialError.notFound`.
  func account(_ reference: AccountReference) async throws -> Account {
    switch reference {
    case .uid(let uid): return try await accounts.account(.uid(uid))
    case .username(let name):
      return try await accounts.account(.uid(try Users.find(username: name, in: profiles).text))
    case .address(let text):
      do {
        return try await accounts.account(.email(text))
      } catch AccountError.notFound, AccountError.invalidEmail {
        return try await accounts.account(.uid(text))
      }
    }
  }

  /// Returns a page of the accounts, or the accounts that a search finds.
  func users(_ page: UsersPage) async throws -> Reply {
    guard let prefix = page.find else {
      var found = try await accounts.accounts(after: page.after, limit: page.limit + 1)
      let hasMore = found.count > page.limit
      if hasMore { found.removeLast() }
      return list(found, after: hasMore ? found.last?.emailNormalized : nil)
    }
    var found: [Account] = []
    for uid in Users.search(prefix: prefix, limit: page.limit, in: profiles) {
      // A profile may be without an account.
      do { found.append(try await accounts.account(.uid(uid.text))) } catch AccountError.notFound {}
    }
    var uids = Set(found.map { ByteString($0.uid) })
    let byAddress = try await accounts.accounts(
      addressPrefix: prefix.asciiLowercased, limit: page.limit)
    found += byAddress.filter { uids.insert(ByteString($0.uid)).inserted }
    return list(Array(found.prefix(page.limit)), after: nil)
  }

  private func list(_ accounts: [Account], after: String?) -> Reply {
    .json([
      "users": .array(accounts.map(description)),
      "after": after.map { .text($0) } ?? .null,
    ])
  }

  /// Returns an account for the administrator, without its password hash.
  func description(of account: Account) -> ReplyJSON {
    let uid = try? Key(account.uid)
    let username = uid.flatMap { Users.username(of: $0, in: profiles) } ?? account.username
    return [
      "uid": .text(account.uid), "username": .text(username), "email": .text(account.email),
      "provider": .text(account.provider), "verified": .bool(account.details.isEmailVerified),
      "disabled": .bool(account.isDisabled), "pending": .bool(account.isPending),
      "createdAt": .number(account.createdAt),
      "lastLoginAt": account.details.lastLoginAt.map { .number($0) } ?? .null,
    ]
  }

  /// Changes an account, and returns it.
  ///
  /// - Parameter endsLogins: whether the change ends all logins.
  func change(
    _ reference: AccountReference, endsLogins: Bool = true,
    _ body: (_ uid: String) async throws -> Void
  ) async throws -> Reply {
    let uid = try await account(reference).uid
    try await revokingIfUncertain { try await body(uid) }
    if endsLogins, let uid = try? Key(uid) { await reauthorize(sessions.revokeAll(uid)) }
    return .json(description(of: try await accounts.account(.uid(uid))))
  }

  /// Creates an account with a profile.
  func addUser(email: String, password: String, username: String) async throws -> Reply {
    try Texts.checkUsername(username)
    let account = try await accounts.createAccount(
      email: email, password: password, username: username, claim: claim(of: username))
    return .json(description(of: account))
  }

  /// Makes a code with which the user sets a new password.
  ///
  /// - Throws: `AccountError.disabled`, because such a user cannot log in with the password; `WireError` for an account
  ///   without an address, whose user cannot either.
  func makeResetCode(of reference: AccountReference) async throws -> Reply {
    let account = try await account(reference)
    guard !account.isDisabled else { throw AccountError.disabled }
    guard !account.email.isEmpty else {
      throw WireError(
        .invalidData, reason: .missingEmail,
        "the account has no e-mail address, so that its user cannot log in with a password")
    }
    let code = try await accounts.issueCode(
      for: account.email, .resetPassword, from: nil, isBounded: false)
    // The account has changed in this moment, or its sign-up has not finished.
    guard let code else { throw AccountError.notFound }
    return .json([
      "uid": .text(account.uid), "email": .text(code.record.email), "code": .text(code.text),
      "expires": .number(code.record.expiresAt),
    ])
  }

  /// Ends all sessions of an account.
  func endSessions(of reference: AccountReference) async throws -> Reply {
    try await change(reference) { uid in
      var changes = AccountChanges()
      changes.endsLogins = true
      _ = try await accounts.update(uid, changes, from: nil)
    }
  }

  /// Returns the sessions of an account, with the number of connections that use each.
  func storedSessions(of reference: AccountReference, limit: Int) async throws -> Reply {
    let uid = try await account(reference).uid
    let stored = try await accounts.sessions(uid: uid, limit: limit)
    var connections: [TokenDigest: Int64] = [:]
    if let key = try? Key(uid) {
      for token in sessions.tokens(of: key) {
        if let digest = TokenDigest(token: token) { connections[digest, default: 0] += 1 }
      }
    }
    return .json(
      .array(
        stored.map { session in
          [
            "begun": .number(session.begun), "expires": .number(session.expiresAt),
            "custom": .bool(session.isCustom),
            "connections": .number(connections[session.digest] ?? 0),
          ]
        }))
  }
}
