internal import CanopyAccounts
internal import CanopyIdentity
internal import CanopyTesting
internal import CanopyTree
internal import Synchronization

/// The identity requests of Auth clients.
extension FuzzedDecoder {
  /// A request: a line with its method and its target, a line with its credential, and its body. `$ID` and `$REFRESH`
  /// stand for the tokens of a user.
  static let identity = FuzzedDecoder(
    name: "identity",
    sources: [
      "Blog/CanopyIdentity/IdentityService+Respond.swift",
      "Blog/CanopyIdentity/IdentityService+Account.swift",
      "Blog/CanopyIdentity/IdentityService+Administration.swift",
      "Blog/CanopyIdentity/IdentityService+SignIn.swift",
      "Blog/CanopyIdentity/IdentityService+Session.swift",
      "Blog/CanopyIdentity/IdentityService+Codes.swift",
      "Blog/CanopyIdentity/IdentityService+Tokens.swift",
      "Blog/CanopyIdentity/IdentityService+Verify.swift",
      "Blog/CanopyIdentity/RequestBody.swift", "Blog/CanopyIdentity/JSONValue+Members.swift",
      "Blog/CanopyIdentity/JSONWebToken.swift",
    ],
    suspendingCheck: { input in try await IdentityCheck(input).run() })
}

/// A service with one user, and a request.
private struct IdentityCheck {
  /// Signing keys take long to create.
  private static let keys = Task {
    let folder = try TemporaryFolder()
    let keys = try await IdentityKeys.loadOrCreate(in: folder.path, environment: environment(1))
    withExtendedLifetime(folder) {}
    return keys
  }
  private static let statuses: Set = [200, 400, 401, 403, 404, 405, 409, 413, 429, 503]

  private let input: [UInt8]

  init(_ input: [UInt8]) { self.input = input }

  private static func environment(_ seed: UInt64) -> AccountEnvironment {
    let random = SeededBytes(seed: seed)
    return AccountEnvironment(now: { 1_700_000_000_000 }, random: { random($0) })
  }

  /// Returns whether the request is carried out.
  func run() async throws -> Bool {
    let environment = Self.environment(2)
    var accountSettings = AccountSettings()
    accountSettings.hashParameters = .cheapest
    var settings = IdentitySettings()
    settings.isEmulator = input.count.isMultiple(of: 2)
    let failures = LogOfFailures()
    let service = IdentityService(
      accounts: AccountService(
        store: InMemoryAccountStore(), hasher: PasswordHasher(), settings: accountSettings,
        environment: environment), keys: try await Self.keys.value, settings: settings,
      environment: environment, failed: { failures.add("\($0)") })
    let user = await service.respond(to: Self.signUp)
    let tokens = try JSONValue(json: String(decoding: user.body, as: UTF8.self))
    guard let id = tokens["idToken"]?.string, let refresh = tokens["refreshToken"]?.string else {
      throw Finding(description: "the user cannot sign up")
    }
    let request = request(id, refresh)
    if let credential = request.authorization { try await check(credential, service) }
    let response = await service.respond(to: request)
    try expect(Self.statuses.contains(response.status), "the status is \(response.status)")
    try expect(
      (try? response.body.withUnsafeBytes { try JSONValue(json: $0) }) != nil,
      "the response is not JSON: \(response.body.shown)")
    try expect((response.status == 200) == (response.refusal == nil), "the refusal is wrong")
    try expect(failures.isEmpty, "a request makes the service fail: \(failures.first)")
    return response.status == 200
  }

  private static let signUp = IdentityRequest(
    method: "POST", path: "/identitytoolkit.googleapis.com/v1/accounts:signUp",
    body: Array(#"{"email":"a@example.org","password":"engine of 1843"}"#.utf8),
    address: "192.0.2.1")

  private func request(_ id: String, _ refresh: String) -> IdentityRequest {
    let lines = input.split(
      separator: UInt8(ascii: "\n"), maxSplits: 2, omittingEmptySubsequences: false
    ).map { line in
      String(decoding: line, as: UTF8.self).replacing("$ID", with: id)
        .replacing("$REFRESH", with: refresh)
    }
    let words = (lines.first ?? "").split(separator: " ", maxSplits: 1).map(String.init)
    let target = (words.count > 1 ? words[1] : "").split(
      separator: "?", maxSplits: 1, omittingEmptySubsequences: false)
    let items = (target.count > 1 ? target[1] : "").split(separator: "&").map { item in
      let pair = item.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
      return (name: String(pair[0]), value: pair.count > 1 ? String(pair[1]) : "")
    }
    return IdentityRequest(
      method: words.first ?? "", path: String(target.first ?? ""), query: items,
      authorization: lines.count > 1 && !lines[1].isEmpty ? lines[1] : nil,
      body: Array((lines.count > 2 ? lines[2] : "").utf8), address: "192.0.2.1")
  }

  /// Checks that a credential is accepted or refused with an error of its own.
  private func check(_ credential: String, _ service: IdentityService) async throws {
    let prefix = "Bearer "
    guard credential.hasPrefix(prefix) else { return }
    do {
      _ = try await service.identify(String(credential.dropFirst(prefix.count)))
    } catch is IdentityProblem {} catch is AccountError {}
  }
}

/// The errors of a service that are not those of a client. One input at a time uses it.
private final class LogOfFailures: Sendable {
  private let failures = Mutex<[String]>([])

  var isEmpty: Bool { failures.withLock { $0.isEmpty } }
  var first: String { failures.withLock { $0.first ?? "" } }

  func add(_ failure: String) { failures.withLock { $0.append(failure) } }
}
