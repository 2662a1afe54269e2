import CanopyAccounts
import CanopyTesting
import CanopyTree
import Synchronization
import Testing

@testable import CanopyIdentity

/// A service whose clock, random source and store the test controls.
struct IdentityFixture {
  let clock: ManualClock
  let folder: TemporaryFolder
  let accounts: AccountService
  let keys: IdentityKeys
  let service: IdentityService
  let codes: Collected<IssuedCode>
  /// The users whose logins have ended, as the service has reported them.
  let ended: Collected<String>
  /// The errors that the service has reported for the log.
  let failures: Collected<any Error>

  static let email = "ada@example.org"
  static let password = "engine of 1843"
  static let address = "192.0.2.1"

  init(
    isEmulator: Bool = false, store: any AccountStore = InMemoryAccountStore(),
    folder: TemporaryFolder? = nil, clock: ManualClock = ManualClock(), seed: UInt64 = 1,
    _ change: (inout AccountSettings) -> Void = { _ in }
  ) async throws {
    let folder = try folder ?? TemporaryFolder()
    let random = SeededBytes(seed: seed)
    let environment = AccountEnvironment(now: { clock.now }, random: { random($0) })
    var settings = AccountSettings()
    settings.hashParameters = .cheapest
    change(&settings)
    let accounts = AccountService(
      store: store, hasher: PasswordHasher(), settings: settings, environment: environment)
    let keys = try await IdentityKeys.loadOrCreate(in: folder.path, environment: environment)
    let (codes, ended) = (Collected<IssuedCode>(), Collected<String>())
    let failures = Collected<any Error>()
    var identity = IdentitySettings()
    identity.project = "blog"
    identity.isEmulator = isEmulator
    service = IdentityService(
      accounts: accounts, keys: keys, settings: identity, environment: environment,
      deliver: { codes.add($0) }, loginsEnded: { ended.add($0) }, failed: { failures.add($0) })
    (self.clock, self.folder, self.accounts, self.keys) = (clock, folder, accounts, keys)
    (self.codes, self.ended, self.failures) = (codes, ended, failures)
  }
}

/// The values that a closure has received.
final class Collected<Element: Sendable>: Sendable {
  private let elements = Mutex<[Element]>([])

  func add(_ element: Element) { elements.withLock { $0.append(element) } }

  var all: [Element] { elements.withLock { $0 } }
}

/// A response, decoded.
struct Answer {
  let status: Int
  let json: JSONValue

  init(_ response: IdentityResponse) throws {
    status = response.status
    #expect(response.contentType == "application/json; charset=UTF-8")
    json = try #require(JSONValue(bytes: response.body))
  }

  subscript(_ name: String) -> String? { json[name]?.string }

  /// Returns a text that must be there.
  func text(_ name: String) throws -> String { try #require(self[name]) }

  /// The word of an error; nil for a success.
  var word: String? { json["error"]?["message"]?.string }
}

extension IdentityFixture {
  /// Makes a request about an account.
  func call(
    _ name: String, _ body: String, from address: String = Self.address
  ) async throws -> Answer {
    try await request(
      "POST", "/identitytoolkit.googleapis.com/v1/accounts:\(name)", body: body, from: address)
  }

  func request(
    _ method: String, _ path: String, query: [(name: String, value: String)] = [],
    body: String = "", authorization: String? = nil, from address: String = Self.address,
    isForeign: Bool = false
  ) async throws -> Answer {
    try Answer(
      await service.respond(
        to: IdentityRequest(
          method: method, path: path, query: query, authorization: authorization,
          body: Array(body.utf8), address: address, isForeign: isForeign)))
  }

  /// Makes a request of the administrator of an emulator.
  func administrator(_ name: String, _ body: String) async throws -> Answer {
    try await request(
      "POST", "/identitytoolkit.googleapis.com/v1/projects/blog/accounts\(name)", body: body,
      authorization: "Bearer owner")
  }

  @discardableResult
  func signUp(email: String = Self.email) async throws -> Answer {
    let answer = try await call(
      "signUp",
      #"{"email":"\#(email)","password":"\#(Self.password)","returnSecureToken":true}"#)
    try #require(answer.status == 200, "\(answer.word ?? "")")
    return answer
  }

  func signIn(
    _ password: String = Self.password, email: String = Self.email,
    from address: String = Self.address
  ) async throws -> Answer {
    try await call(
      "signInWithPassword",
      #"{"email":"\#(email)","password":"\#(password)","returnSecureToken":true}"#, from: address)
  }

  func refresh(_ token: String) async throws -> Answer {
    try await request(
      "POST", "/securetoken.googleapis.com/v1/token",
      body: "grant_type=refresh_token&refresh_token=\(token)")
  }

  /// Returns the reason why a token is refused; nil if it is valid.
  func problem(_ token: String?) async throws -> IdentityProblem? {
    let token = try #require(token)
    do {
      _ = try await service.verify(token)
      return nil
    } catch let problem as IdentityProblem { return problem }
  }

  /// Returns an unsigned token, as test libraries make them.
  static func unsigned(_ claims: String, algorithm: String = "none") -> String {
    Base64.encode(Array(#"{"alg":"\#(algorithm)","typ":"JWT"}"#.utf8), as: .url) + "."
      + Base64.encode(Array(claims.utf8), as: .url) + "."
  }
}
