internal import CanopyAccounts
internal import CanopyTree

/// Requests of users about their own accounts.
extension IdentityService {
  func lookUp(_ body: RequestBody) async throws -> JSONValue {
    let identity = try await identity(in: body)
    let account = try await accounts.account(.uid(identity.uid))
    return .object([
      ("kind", .text("identitytoolkit#GetAccountInfoResponse")),
      ("users", .array([description(of: account)])),
    ])
  }

  func update(_ body: RequestBody, _ request: IdentityRequest) async throws -> JSONValue {
    if let code = try body.text("oobCode"), try body.text("idToken") == nil {
      return answer(try await accounts.verifyEmail(code: code, from: request.network), [])
    }
    let identity = try await identity(in: body)
    let changes = try changes(in: body)
    if changes.password != nil || changes.email != nil { try await requireRecentLogin(identity) }
    if changes.password?.isSet == true, changes.email == nil {
      let account = try await accounts.account(.uid(identity.uid))
      guard !account.email.isEmpty else { throw IdentityError.missingEmail }
    }
    let account = try await change(
      identity.uid, changes, loginTime: identity.endableLoginTime, from: request.network)
    var further: JSONMembers = []
    // Without new credentials the client keeps its tokens, as with the original's emulator. Otherwise each change of a
    // name would add a session.
    let isRenewed = changes.password != nil || changes.email != nil
    if isRenewed, try body.flag("returnSecureToken") == true {
      guard let login = try await accounts.login(account) else { throw IdentityError.tokenExpired }
      further = try tokens(for: login)
    }
    return answer(account, further)
  }

  func delete(_ body: RequestBody) async throws -> JSONValue {
    let identity = try await identity(in: body)
    try await requireRecentLogin(identity)
    try await reportingUncertainEnd { try await accounts.deleteAccount(uid: identity.uid) }
    await reportEndOfLogins(of: identity.uid)
    return .object([("kind", .text("identitytoolkit#DeleteAccountResponse"))])
  }

  /// Changes an account, and reports if that may have ended logins.
  ///
  /// - Parameters:
  ///   - uid: the account.
  ///   - changes: the changes.
  ///   - loginTime: the time of the login of the client, if it may have ended; nil for the administrator.
  ///   - network: the network of the client; nil for the administrator.
  func change(
    _ uid: String, _ changes: AccountChanges, loginTime: Int64? = nil,
    from network: RemoteNetwork?
  ) async throws -> Account {
    let account = try await reportingUncertainEnd {
      try await accounts.update(uid, changes, loginTime: loginTime, from: network)
    }
    // First credentials, and the same address again, end no login.
    let mayEnd =
      loginTime.map { account.details.validSince > $0 }
      ?? (changes.password != nil || changes.email != nil || changes.endsLogins)
    if mayEnd || changes.isDisabled == true { await reportEndOfLogins(of: uid) }
    return account
  }

  /// Returns the changes that a client requests.
  private func changes(in body: RequestBody) throws -> AccountChanges {
    var changes = try body.profileChanges()
    if let email = try body.text("email") { changes.email = .set(email) }
    if let password = try body.text("password") {
      guard !password.isEmpty else { throw IdentityError.missingPassword }
      changes.password = .set(password)
    }
    return changes
  }

  /// Returns the response with a changed account.
  func answer(_ account: Account, _ further: JSONMembers) -> JSONValue {
    let details = account.details
    var members: JSONMembers = [
      ("kind", .text("identitytoolkit#SetAccountInfoResponse")),
      ("localId", .text(account.uid)), ("providerUserInfo", .array(providers(of: account))),
      ("emailVerified", .flag(details.isEmailVerified)),
    ]
    if !account.email.isEmpty { members.append(("email", .text(account.email))) }
    if let name = details.displayName { members.append(("displayName", .text(name))) }
    if let photo = details.photoURL { members.append(("photoUrl", .text(photo))) }
    return .object(members + further)
  }

  /// Returns an account as `accounts:lookup` shows it.
  func description(of account: Account) -> JSONValue {
    let details = account.details
    // The first second from which logins count is the one after the revocation. The original names the second of it.
    let validSince = details.validSince > 0 ? details.validSince - 1 : account.createdAt / 1_000
    var members: JSONMembers = [
      ("localId", .text(account.uid)), ("emailVerified", .flag(details.isEmailVerified)),
      ("providerUserInfo", .array(providers(of: account))),
      ("validSince", .text(String(validSince))), ("createdAt", .text(String(account.createdAt))),
      ("disabled", .flag(account.isDisabled)),
    ]
    if !account.email.isEmpty { members.append(("email", .text(account.email))) }
    if let name = details.displayName { members.append(("displayName", .text(name))) }
    if let photo = details.photoURL { members.append(("photoUrl", .text(photo))) }
    if let claims = details.claims { members.append(("customAttributes", .text(claims))) }
    if details.isCustom { members.append(("customAuth", .flag(true))) }
    if let login = details.lastLoginAt {
      members.append(("lastLoginAt", .text(String(login))))
    }
    if let used = [details.lastRefreshAt, details.lastLoginAt].compactMap(\.self).max() {
      members.append(("lastRefreshAt", .text(Timestamp.text(of: used))))
    }
    return .object(members)
  }

  private func providers(of account: Account) -> [JSONValue] {
    guard !account.passwordHash.isEmpty, !account.email.isEmpty else { return [] }
    var members: JSONMembers = [
      ("providerId", .text("password")), ("email", .text(account.email)),
      ("rawId", .text(account.email)), ("federatedId", .text(account.email)),
    ]
    if let name = account.details.displayName { members.append(("displayName", .text(name))) }
    if let photo = account.details.photoURL { members.append(("photoUrl", .text(photo))) }
    return [.object(members)]
  }
}

extension RequestBody {
  /// Returns the changes of the profile, and the attributes and providers to remove.
  func profileChanges() throws -> AccountChanges {
    var changes = AccountChanges()
    changes.displayName = try displayName().map { $0.isEmpty ? .remove : .set($0) }
    changes.photoURL = try photoURL().map { $0.isEmpty ? .remove : .set($0) }
    for attribute in try texts("deleteAttribute") ?? [] {
      switch attribute {
      case "DISPLAY_NAME": changes.displayName = .remove
      case "PHOTO_URL": changes.photoURL = .remove
      case "EMAIL": changes.email = .remove
      case "PASSWORD": changes.password = .remove
      default: throw IdentityError.invalidArgument("the attribute cannot be removed")
      }
    }
    if try texts("deleteProvider")?.contains(where: { $0.hasSameBytes(as: "password") }) == true {
      changes.email = .remove
      changes.password = .remove
    }
    return changes
  }
}

extension AccountChanges.Text {
  /// Whether the text is set and not removed.
  var isSet: Bool { self != .remove }
}

/// A time as text: `2026-11-22T09:15:50.123Z`.
enum Timestamp {
  /// Returns the text of a time, by the proleptic Gregorian calendar. Times before the year 0 and after 9999 give the
  /// nearest year's first day.
  ///
  /// - Parameter milliseconds: the time since 1970.
  static func text(of milliseconds: Int64) -> String {
    let bounded = min(max(milliseconds, -62_167_219_200_000), 253_402_300_799_999)
    let (day, rest) = bounded.floorDivided(by: 86_400_000)
    // Days since 1 March of year 0; eras of 400 years.
    let (era, dayOfEra) = (day + 719_468).floorDivided(by: 146_097)
    let yearOfEra = (dayOfEra - dayOfEra / 1_460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
    let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
    let shifted = (5 * dayOfYear + 2) / 153
    let month = shifted < 10 ? shifted + 3 : shifted - 9
    let year = yearOfEra + era * 400 + (month <= 2 ? 1 : 0)
    func padded(_ number: Int64, _ width: Int) -> String {
      let digits = String(number)
      return String(repeating: "0", count: max(0, width - digits.utf8.count)) + digits
    }
    let date =
      "\(padded(year, 4))-\(padded(month, 2))-\(padded(dayOfYear - (153 * shifted + 2) / 5 + 1, 2))"
    let (seconds, fraction) = rest.floorDivided(by: 1_000)
    let time =
      "\(padded(seconds / 3_600, 2)):\(padded(seconds / 60 % 60, 2)):\(padded(seconds % 60, 2))"
    return "\(date)T\(time).\(padded(fraction, 3))Z"
  }
}

extension Int64 {
  /// Returns the quotient rounded down, and the remainder, which is not negative. Precondition: `divisor` is positive.
  fileprivate func floorDivided(by divisor: Int64) -> (quotient: Int64, remainder: Int64) {
    assert(divisor > 0, "the divisor is not positive")
    let (quotient, remainder) = quotientAndRemainder(dividingBy: divisor)
    return remainder < 0 ? (quotient - 1, remainder + divisor) : (quotient, remainder)
  }
}
