// CanopyIdentity owns the identity requests of Firebase's Auth clients, and the tokens that they get. It must not know
// sockets, HTTP servers, SQL or posts. A front end passes each request to an `IdentityService` and sends its response.

public import CanopyAccounts
internal import CanopyTree

/// Answers the identity requests of Firebase's Auth clients (Identity Platform's REST interface), and verifies the
/// identity tokens that it issues.
///
///     let keys = try await IdentityKeys.loadOrCreate(in: folder)
///     let service = IdentityService(accounts: accounts, keys: keys)
///     let response = await service.respond(to: request)
///     let identity = try await service.verify(token)   // in rules: auth = identity.auth
///
/// A refresh token is a session token of ``CanopyAccounts/AccountService``, so the limits of logins, the expiry of sessions
/// and their revocation apply. An identity token is a JWT that is valid for an hour. It is refused earlier if the account
/// is disabled or deleted, or if its logins have ended.
///
/// Safe to use from any task. The errors are those of the original. Data of clients never stops the process.
public final class IdentityService: Sendable {
  let accounts: AccountService
  let keys: IdentityKeys
  let settings: IdentitySettings
  let environment: AccountEnvironment
  let verified: VerifiedTokens
  /// The codes of e-mails that were made last, for the emulator.
  let codes: RecentCodes
  let waitingCodes = WaitingCodes()
  private let deliver: @Sendable (IssuedCode) -> Void
  private let loginsEnded: @Sendable (_ uid: String) async -> Void
  private let failed: @Sendable (any Error) -> Void

  /// Creates a service.
  ///
  /// - Parameters:
  ///   - accounts: the accounts.
  ///   - keys: the keys that sign identity tokens.
  ///   - settings: the project, the durations and whether this is an emulator.
  ///   - environment: the clock, which must be that of `accounts`, and the random source.
  ///   - deliver: receives each code of an e-mail, for the administrator's log of codes. No mail is sent.
  ///   - loginsEnded: called after each request that has ended the logins of a user, so that open connections of the user
  ///     end their sessions. The response waits for it.
  ///   - failed: receives each error that is not the client's, such as one of the store, for the log.
  public init(
    accounts: AccountService,
    keys: IdentityKeys,
    settings: IdentitySettings = IdentitySettings(),
    environment: AccountEnvironment = .live,
    deliver: @escaping @Sendable (IssuedCode) -> Void = { _ in },
    loginsEnded: @escaping @Sendable (_ uid: String) async -> Void = { _ in },
    failed: @escaping @Sendable (any Error) -> Void = { _ in }
  ) {
    self.accounts = accounts
    self.keys = keys
    self.settings = settings
    self.environment = environment
    self.deliver = deliver
    self.loginsEnded = loginsEnded
    self.failed = failed
    verified = VerifiedTokens(
      capacity: settings.verifiedTokensMax, bytesMax: settings.verifiedTokenBytesMax)
    codes = RecentCodes()
  }

  /// The maximum size of a request's body, in bytes.
  public var bodyBytesMax: Int { settings.bodyBytesMax }

  /// Whether unsigned tokens are accepted, whose users need not have an account.
  public var acceptsUnsignedTokens: Bool { settings.isEmulator }

  /// Reports a new code.
  func report(_ code: IssuedCode) {
    if settings.isEmulator { codes.add(code) }
    deliver(code)
  }

  /// Reports that the logins of a user have ended.
  func reportEndOfLogins(of uid: String) async {
    await loginsEnded(uid)
  }

  /// Returns the result of a step that may end the logins of a user. If it is uncertain whether the step has ended them,
  /// reports that they have.
  func reportingUncertainEnd<Result>(_ step: () async throws -> Result) async throws -> Result {
    do {
      return try await step()
    } catch let error as UncertainChange {
      await reportEndOfLogins(of: error.uid)
      throw error
    }
  }

  /// Reports an error for the log, unless the request was cancelled.
  func report(failure error: any Error) {
    if !(error is CancellationError), !Task.isCancelled { failed(error) }
  }
}

/// The settings of an ``IdentityService``.
public struct IdentitySettings: Sendable, Equatable {
  /// The project: the audience of identity tokens. An Admin library must have the same.
  public var project = "canopy"
  /// Whether unsigned tokens and the administrator's credential `owner` are accepted. Only for a server that loopback
  /// alone can reach.
  public var isEmulator = false
  /// The lifetime of an identity token, in milliseconds: an hour.
  public var tokenLifetimeMilliseconds: Int64 = 60 * 60 * 1_000
  /// The time after a login in which a client may change the password or the e-mail address or delete the account, in
  /// milliseconds: five minutes.
  public var recentLoginMilliseconds: Int64 = 5 * 60 * 1_000
  /// The maximum size of a request's body, in bytes.
  public var bodyBytesMax = 64 * 1024
  /// The maximum number of verified tokens in memory, whose signatures need not be verified again.
  public var verifiedTokensMax = 20_000
  /// The maximum number of bytes that they may take, by an upper estimate.
  public var verifiedTokenBytesMax = 32 * 1024 * 1024
  /// The time, in milliseconds, by which the clock may have been set back since a token was issued: five minutes. An
  /// identity token or a custom token of a later time is refused until the clock reaches it.
  public var clockToleranceMilliseconds: Int64 = 5 * 60 * 1_000

  /// Creates the default settings.
  public init() {}

  /// The issuer of identity tokens.
  var issuer: String { "https://securetoken.google.com/" + project }
}

/// A request of an Auth client, without HTTP.
public struct IdentityRequest: Sendable {
  /// The method: `GET`, `POST` and so on.
  public var method: String
  /// The path after the host, such as `/identitytoolkit.googleapis.com/v1/accounts:signUp`, without the query.
  public var path: String
  /// The items of the query, decoded.
  public var query: [(name: String, value: String)]
  /// The header `Authorization`; nil if there is none.
  public var authorization: String?
  /// The body.
  public var body: [UInt8]
  /// The address of the client, by which attempts are limited.
  public var address: String
  /// Whether a web page of a foreign site may have made the request. An emulator then accepts no credentials that
  /// everybody knows.
  public var isForeign: Bool
  /// Whether a web page of a foreign site has made the request. The exemption of this machine from limits is then void: the
  /// browser of a person may run any page.
  public var isOfForeignPage: Bool
  /// Admit the request to decode its body and to verify signatures.
  public var turns: ComputingTurns

  /// Creates a request with the given parts.
  public init(
    method: String, path: String, query: [(name: String, value: String)] = [],
    authorization: String? = nil, body: [UInt8] = [], address: String,
    isForeign: Bool = false, isOfForeignPage: Bool = false, turns: ComputingTurns = .immediate
  ) {
    self.method = method
    self.path = path
    self.query = query
    self.authorization = authorization
    self.body = body
    self.address = address
    self.isForeign = isForeign
    self.isOfForeignPage = isOfForeignPage
    self.turns = turns
  }

  /// The network of the client.
  var network: RemoteNetwork {
    let network = RemoteNetwork(address)
    return isOfForeignPage && network.isThisMachine ? .foreignPage : network
  }
}

/// A response to an Auth client, without HTTP.
public struct IdentityResponse: Sendable, Equatable {
  /// The reasons for which a request is refused.
  public enum Refusal: Sendable {
    /// The request has an error.
    case invalid
    /// The credentials, the token or the code are not valid.
    case unauthenticated
    /// The client may not do it.
    case denied
    /// There is no such account, or no such address.
    case notFound
    /// Another account has the address or the uid.
    case conflict
    /// The client has made too many attempts.
    case rateLimited
    /// The request is too large.
    case tooLarge
    /// The accounts cannot be read or written now.
    case unavailable
  }

  /// The status, such as 200.
  public let status: Int
  /// The media type of the body.
  public let contentType: String
  /// The body: JSON.
  public let body: [UInt8]
  /// The reason for which the request was refused; nil if it was carried out.
  public let refusal: Refusal?

  init(_ value: JSONValue, status: Int = 200, refusal: Refusal? = nil) {
    self.status = status
    self.refusal = refusal
    contentType = "application/json; charset=UTF-8"
    body = value.jsonBytes
  }
}
