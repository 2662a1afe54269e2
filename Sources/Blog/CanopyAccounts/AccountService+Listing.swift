/// Lists of accounts and sessions for administrators.
extension AccountService {
  /// Returns the accounts whose normalized e-mail addresses begin with a text, in the order of the addresses.
  ///
  /// - Parameters:
  ///   - prefix: the beginning of the addresses, in lower case.
  ///   - limit: the maximum number of accounts, clamped to 1 to 1,000.
  public func accounts(addressPrefix prefix: String, limit: Int) async throws -> [Account] {
    let limit = min(max(1, limit), 1_000)
    var found: [Account] = []
    if let account = try await store.account(emailNormalized: prefix) { found.append(account) }
    found += try await store.accounts(after: prefix, limit: limit)
    return Array(
      found.prefix { $0.emailNormalized.utf8.starts(with: prefix.utf8) }.prefix(limit))
  }

  /// Returns the sessions of an account that have not expired, newest first.
  ///
  /// - Parameter limit: the maximum number of sessions, clamped to 1 to 1,000.
  public func sessions(uid: String, limit: Int) async throws -> [StoredSession] {
    let now = environment.now()
    return try await store.tokens(uid: uid, limit: min(max(1, limit), 1_000))
      .filter { now < $0.expiresAt }
      .map { record in
        StoredSession(
          digest: record.digest,
          begun: record.expiresAt.subtractingSaturated(settings.tokenLifetimeMilliseconds),
          expiresAt: record.expiresAt, isCustom: record.customClaims != nil)
      }
  }
}

/// A session as the store has it, without its token.
public struct StoredSession: Sendable, Equatable {
  /// The digest of the token, to find the connections that use it. Not for clients.
  public let digest: TokenDigest
  /// The time of the login in milliseconds since 1970, computed from the end by the present lifetime of tokens.
  public let begun: Int64
  /// The end in milliseconds since 1970.
  public let expiresAt: Int64
  /// Whether a custom token began it.
  public let isCustom: Bool
}
