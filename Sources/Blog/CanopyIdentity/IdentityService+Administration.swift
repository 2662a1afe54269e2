internal import CanopyAccounts
internal import CanopyTree

/// Requests of an administrator, as the Admin libraries make them to an emulator.
extension IdentityService {
  /// The maximum number of accounts in a response.
  private static let pageMax: Int64 = 1_000

  func administration(_ name: String, _ request: IdentityRequest) async throws -> JSONValue {
    if name.hasSameBytes(as: "batchGet") {
      try request.require("GET")
      return try await page(request)
    }
    try request.require("POST")
    let body = try await RequestBody(of: request)
    switch name {
    case "": return try await create(body)
    case "lookup": return try await find(body)
    case "update": return try await set(body)
    case "delete": return try await remove(body)
    case "batchDelete": return try await removeAll(body)
    case "query": return try await query(body)
    case "sendOobCode": return try await makeCode(body)
    case "batchCreate", "createSessionCookie": throw IdentityError.operationNotAllowed
    default: throw IdentityError.unknownPath
    }
  }

  private func create(_ body: RequestBody) async throws -> JSONValue {
    var draft = AccountDraft()
    draft.uid = try body.text("localId")
    if let uid = draft.uid, !Self.isValid(uid: uid) {
      throw ClaimsProblem.invalidUID
    }
    draft.email = try body.text("email")
    draft.password = try body.text("password")
    draft.isDisabled = try body.flag("disabled") ?? false
    draft.details.displayName = try body.displayName()
    draft.details.photoURL = try body.photoURL()
    draft.details.isEmailVerified = try body.flag("emailVerified") ?? false
    let account = try await accounts.createAccount(draft, from: nil)
    var members: JSONMembers = [
      ("kind", .text("identitytoolkit#SignupNewUserResponse")), ("localId", .text(account.uid)),
    ]
    if !account.email.isEmpty { members.append(("email", .text(account.email))) }
    if let name = account.details.displayName { members.append(("displayName", .text(name))) }
    return .object(members)
  }

  private func find(_ body: RequestBody) async throws -> JSONValue {
    var found: [Account] = []
    var selectors: [AccountSelector] = []
    if let token = try body.text("idToken") {
      selectors.append(.uid(try await verify(token, in: body.turns).uid))
    }
    selectors += (try body.texts("localId", countMax: 100) ?? []).map { .uid($0) }
    selectors += (try body.texts("email", countMax: 100) ?? []).map { .email($0) }
    for selector in selectors {
      guard let account = try await account(selector),
        !found.contains(where: { $0.uid.hasSameBytes(as: account.uid) })
      else { continue }
      found.append(account)
    }
    let kind: JSONMembers = [("kind", .text("identitytoolkit#GetAccountInfoResponse"))]
    guard !found.isEmpty else { return .object(kind) }
    return .object(kind + [("users", .array(found.map(description)))])
  }

  /// Returns an account, or nil if it does not exist or its sign-up has not finished.
  private func account(_ selector: AccountSelector) async throws -> Account? {
    do {
      let account = try await accounts.account(selector)
      return account.isPending ? nil : account
    } catch AccountError.notFound {
      return nil
    }
  }

  private func set(_ body: RequestBody) async throws -> JSONValue {
    guard let uid = try body.text("localId") else { throw IdentityError.missingLocalID }
    var changes = try body.profileChanges()
    changes.email = try body.text("email").map { .set($0) } ?? changes.email
    changes.password = try body.text("password").map { .set($0) } ?? changes.password
    changes.isEmailVerified = try body.flag("emailVerified")
    changes.isDisabled = try body.flag("disableUser")
    if let claims = try body.text("customAttributes") {
      let members = try Self.checkedClaims(claims).members
      changes.claims = members?.isEmpty ?? true ? .remove : .set(claims)
    }
    // The library sends the present time: the user signs out everywhere.
    changes.endsLogins = try body.integer("validSince") != nil
    return answer(try await change(uid, changes, from: nil), [])
  }

  private func remove(_ body: RequestBody) async throws -> JSONValue {
    guard let uid = try body.text("localId") else { throw IdentityError.missingLocalID }
    try await reportingUncertainEnd { try await accounts.deleteAccount(uid: uid) }
    await reportEndOfLogins(of: uid)
    return .object([("kind", .text("identitytoolkit#DeleteAccountResponse"))])
  }

  private func removeAll(_ body: RequestBody) async throws -> JSONValue {
    let force = try body.flag("force") ?? false
    var errors: [JSONValue] = []
    for (index, uid) in (try body.texts("localIds") ?? []).enumerated() {
      guard let account = try await account(.uid(uid)) else { continue }
      guard force || account.isDisabled else {
        errors.append(
          .object([
            ("index", .number(Int64(index))), ("localId", .text(uid)),
            ("message", .text("NOT_DISABLED : Disable the account before batch deletion.")),
          ]))
        continue
      }
      do {
        try await reportingUncertainEnd { try await accounts.deleteAccount(uid: uid) }
      } catch AccountError.notFound { continue }
      await reportEndOfLogins(of: uid)
    }
    return .object([("errors", .array(errors))])
  }

  private func page(_ request: IdentityRequest) async throws -> JSONValue {
    let limit = min(max(1, request.item("maxResults").flatMap { Int64($0) } ?? 20), Self.pageMax)
    var after: String?
    if let token = request.item("nextPageToken"), !token.isEmpty {
      guard let bytes = Base64.decode(token, as: .url),
        let text = String(validating: bytes, as: UTF8.self)
      else { throw IdentityError.invalidPageToken }
      after = text
    }
    let accounts = try await accounts.accounts(after: after, limit: Int(limit))
    var members: JSONMembers = [
      ("kind", .text("identitytoolkit#DownloadAccountResponse")),
      ("users", .array(accounts.filter { !$0.isPending }.map(description))),
    ]
    if accounts.count == Int(limit), let last = accounts.last {
      let token = Base64.encode(Array(last.emailNormalized.utf8), as: .url)
      members.append(("nextPageToken", .text(token)))
    }
    return .object(members)
  }

  /// Finds accounts by e-mail address or uid, or returns a part of all. O(offset + limit).
  private func query(_ body: RequestBody) async throws -> JSONValue {
    let limit = min(max(0, try body.integer("limit") ?? 500), 500)
    var offset = max(0, try body.integer("offset") ?? 0)
    var found: [Account] = []
    let expressions = body.objects("expression").prefix(100)
    if !expressions.isEmpty {
      for expression in expressions {
        let selector: AccountSelector? =
          expression["email"]?.string.map { .email($0) }
          ?? expression["userId"]?.string.map { .uid($0) }
        if let selector, let account = try await account(selector) { found.append(account) }
      }
    } else {
      var after: String?
      while found.count < Int(limit) {
        let page = try await accounts.accounts(after: after, limit: Int(Self.pageMax))
        guard let last = page.last else { break }
        after = last.emailNormalized
        for account in page where !account.isPending && found.count < Int(limit) {
          if offset > 0 { offset -= 1 } else { found.append(account) }
        }
      }
    }
    return .object([
      ("recordsCount", .text(String(found.count))),
      ("userInfo", .array(found.map(description))),
    ])
  }
}
