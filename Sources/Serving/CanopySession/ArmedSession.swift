internal import CanopyAccounts
internal import CanopyEngine
internal import CanopyRules
internal import CanopyTree

/// The session in which on-disconnect writes were armed. It exists as long as any of them waits.
///
/// A write is made only if its session was not revoked before. So the registry must reach the session
/// when its tokens are revoked, even if another user has logged in on the connection since. It keeps the
/// session until the last reference to this object is released.
final class ArmedSession: Sendable {
  let session: UserSession
  private let registry: SessionRegistry

  /// Makes the registry keep a session.
  init(_ session: UserSession, in registry: SessionRegistry) {
    self.session = session
    self.registry = registry
    registry.keep(session)
  }

  deinit {
    registry.release(session)
  }
}

/// The on-disconnect writes of a connection, and their store.
struct ArmedWriteKeeper: Sendable {
  let writes: [ArmedWrite]
  let store: any DisconnectStore

  /// Makes the store keep the writes of a session for the session that succeeds it. The caller of each write stays the
  /// same.
  ///
  /// A write of another login on the same connection stays with that login.
  func move(from session: UserSession, to next: UserSession) async throws {
    var identities: [DisconnectWriteID: String] = [:]
    for write in writes where write.session?.session.sharesLineage(with: session) == true {
      identities[write.id] = KeptCaller(write.caller, session: next).text
    }
    guard !identities.isEmpty else { return }
    try await store.setDisconnectIdentities(identities)
  }

  /// Removes the writes of a session. Returns those that stay.
  func remove(of session: UserSession) async throws -> [ArmedWrite] {
    func isOfSession(_ write: ArmedWrite) -> Bool {
      write.session?.session.sharesLineage(with: session) == true
    }
    let ended = writes.filter(isOfSession)
    guard !ended.isEmpty else { return writes }
    _ = try await store.changeDisconnectWrites(
      adding: nil, to: nil, exceptions: [:], removing: ended.map(\.id))
    return writes.filter { !isOfSession($0) }
  }
}

/// The caller of an on-disconnect write, as the store keeps it with the write.
///
/// The text is `administrator`; `null` for an anonymous caller; or a JSON object with `auth` and
/// `session`, the digest of the session token. For a login by an identity token, and in writes of an earlier version, it
/// is the JSON of `auth` alone; `auth.token` has the claims of an identity token.
package struct KeptCaller: Sendable {
  /// The caller as rules know it; nil for the administrator.
  var caller: RuleCaller?
  /// The digest of the session's token, if there was a session and it is known.
  var session: TokenDigest?

  private static let administrator = "administrator"
  private static let authKey: Key = "auth"
  private static let sessionKey: Key = "session"
  private static let uidKey: Key = "uid"
  private static let tokenKey: Key = "token"
  private static let loginTimeKey: Key = "auth_time"
  private static let issueTimeKey: Key = "iat"
  private static let expiryKey: Key = "exp"

  init(_ caller: RuleCaller?, session: UserSession?) {
    self.caller = caller
    self.session = session.flatMap { TokenDigest(token: $0.token) }
  }

  /// Reads the text.
  ///
  /// - Throws: `TreeError` if it is malformed.
  package init(_ text: String) throws {
    if text == KeptCaller.administrator { return }
    var text = text
    let node = try text.withUTF8 { bytes in
      try WriteValue(json: UnsafeRawBufferPointer(bytes), limits: .none).node
    }
    guard let digest = node.child(KeptCaller.sessionKey).stringValue else {
      caller = RuleCaller(auth: node, now: 0)
      return
    }
    guard let digest = TokenDigest(text: digest) else {
      throw TreeError.invalidData("the session of an on-disconnect write is malformed")
    }
    caller = RuleCaller(auth: node.child(KeptCaller.authKey), now: 0)
    session = digest
  }

  package var text: String {
    guard let caller else { return KeptCaller.administrator }
    var output = JSONOutput()
    guard let session else {
      output.append(caller.auth ?? .absent)
      return output.text
    }
    output.object {
      $0.member("auth", caller.auth ?? .absent)
      $0.member("session", session.text)
    }
    return output.text
  }

  /// The account of the caller; nil for the administrator and for an anonymous caller.
  var uid: String? { caller?.auth?.child(KeptCaller.uidKey).stringValue }

  /// The time of the login in seconds since 1970; nil without an identity token.
  var loginTime: Int64? { claim(KeptCaller.loginTimeKey) ?? claim(KeptCaller.issueTimeKey) }

  /// The time at which the identity token expires, in seconds since 1970; nil without one.
  var expiry: Int64? { claim(KeptCaller.expiryKey) }

  private func claim(_ key: Key) -> Int64? {
    caller?.auth?.child(KeptCaller.tokenKey).child(key).integerValue
  }
}
