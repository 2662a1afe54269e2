internal import Synchronization

/// The passes to the console, and the logins that began with them.
///
/// A pass is a token for one use within five minutes. It gives a login token for twelve hours. Both have 256 random
/// bits. The table keeps only their digests, in memory. If there are too many, it forgets the oldest.
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
    var logins = RecencyTable<TokenDigest, Int64>(capacity: AdministratorPasses.countMax)
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
    tables.withLock { $0.passes.set(expires, for: pass.digest) }
    return Grant(token: pass.text, expires: expires)
  }

  /// Uses up a pass and begins a login, or finds the login of a login token.
  ///
  /// - Returns: nil if the text is not a valid pass or login token.
  public func redeem(_ text: String) -> Grant? {
    guard let token = SessionToken(text) else { return nil }
    let login = SessionToken.make(random: environment.random)
    let now = environment.now()
    return tables.withLock { tables in
      if let expires = tables.logins[token.digest] {
        guard now < expires else { return nil }
        tables.logins.touch(token.digest)
        return Grant(token: text, expires: expires)
      }
      guard let end = tables.passes[token.digest] else { return nil }
      tables.passes.remove(token.digest)
      guard now < end else { return nil }
      let expires = now + Self.loginMilliseconds
      tables.logins.set(expires, for: login.digest)
      return Grant(token: login.text, expires: expires)
    }
  }

  /// Forgets a pass or a login token.
  ///
  /// - Returns: whether the text was a pass or a login token.
  public func end(_ text: String) -> Bool {
    guard let token = SessionToken(text) else { return false }
    return tables.withLock { tables in
      let isKnown = tables.passes[token.digest] != nil || tables.logins[token.digest] != nil
      tables.passes.remove(token.digest)
      tables.logins.remove(token.digest)
      return isKnown
    }
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
