internal import Synchronization

/// The passes to the console, and the logins that began with them.
///
/// A pass is a token for one use within five minutes. It gives a login token for twelve hours. Both have 256 random
/// bits. The table keeps only their digests, in memory. If there are too many, it forgets the oldest, and its login ends.
///
/// Safe to use from any thread.
public final class AdministratorPasses: Sendable {
  /// The milliseconds for which a pass is valid.
  public static let passMilliseconds: Int64 = 300_000
  /// The milliseconds for which a login is valid.
  public static let loginMilliseconds: Int64 = 43_200_000
  /// The most passes, and the most logins.
  static let countMax = 64

  /// A token and the time at which it expires. A secret.
  public struct Grant: Sendable, Equatable {
    /// The token: 43 characters of base64url.
    public let token: String
    /// The time, in milliseconds since 1970.
    public let expires: Int64
  }

  private struct Tables {
    var passes = RecencyTable<TokenDigest, Int64>(capacity: AdministratorPasses.countMax)
    var logins = RecencyTable<TokenDigest, AdministratorLogin>(
      capacity: AdministratorPasses.countMax)
  }

  private let environment: AccountEnvironment
  private let tables = Mutex(Tables())

  /// Creates empty tables.
  public init(environment: AccountEnvironment) {
    self.environment = environment
  }

  /// Creates a pass.
  public func make() -> Grant {
    let pass = SessionToken.make(random: environment.random)
    let expires = environment.now() + Self.passMilliseconds
    tables.withLock { _ = $0.passes.set(expires, for: pass.digest) }
    return Grant(token: pass.text, expires: expires)
  }

  /// Uses up a pass and begins a login, or finds the login of a login token.
  ///
  /// - Returns: nil if the text is not a valid pass or login token.
  public func redeem(_ text: String) -> Grant? {
    guard let token = SessionToken(text) else { return nil }
    let login = SessionToken.make(random: environment.random)
    let now = environment.now()
    let (grant, forgotten) = tables.withLock { tables -> (Grant?, AdministratorLogin?) in
      if let login = tables.logins[token.digest] {
        guard login.isValid(at: now) else { return (nil, nil) }
        tables.logins.touch(token.digest)
        return (Grant(token: text, expires: login.expires), nil)
      }
      guard let end = tables.passes[token.digest] else { return (nil, nil) }
      tables.passes.remove(token.digest)
      guard now < end else { return (nil, nil) }
      let expires = now + Self.loginMilliseconds
      let forgotten = tables.logins.set(
        AdministratorLogin(login.digest, expires: expires), for: login.digest)
      return (Grant(token: login.text, expires: expires), forgotten)
    }
    // Without its token it could not be revoked any more.
    forgotten?.revoke()
    return grant
  }

  /// Returns the login of a login token; nil for another text.
  public func login(of text: String) -> AdministratorLogin? {
    guard let token = SessionToken(text) else { return nil }
    return tables.withLock { $0.logins[token.digest] }
  }

  /// Forgets the token of a login, and ends the login on its connections.
  public func end(_ login: AdministratorLogin) {
    tables.withLock { $0.logins.remove(login.digest) }
    login.revoke()
  }

  /// Forgets a pass or a login token, and ends the login on its connections.
  ///
  /// - Returns: whether the text was a pass or a login token.
  public func end(_ text: String) -> Bool {
    guard let token = SessionToken(text) else { return false }
    let (hasPass, login) = tables.withLock { tables in
      let found = (tables.passes[token.digest] != nil, tables.logins[token.digest])
      tables.passes.remove(token.digest)
      tables.logins.remove(token.digest)
      return found
    }
    login?.revoke()
    return hasPass || login != nil
  }
}

extension AdministratorPasses.Grant: CustomStringConvertible, CustomDebugStringConvertible,
  CustomReflectable
{
  /// The name of the type, without the token.
  public var description: String { "Grant(<redacted>)" }

  /// The same as ``description``.
  public var debugDescription: String { description }

  /// A mirror without children.
  public var customMirror: Mirror { Mirror(self, children: []) }
}
