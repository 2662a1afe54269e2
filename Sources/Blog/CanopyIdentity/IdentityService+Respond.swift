internal import CanopyAccounts
internal import CanopyTree

extension IdentityService {
  /// Whether a path belongs to this service.
  ///
  /// - Parameter path: the path after the host.
  public static func isIdentityPath(_ path: String) -> Bool {
    Route(path: path) != nil
      || ["/identitytoolkit.googleapis.com/", "/securetoken.googleapis.com/"]
        .contains { path.hasBytePrefix($0) }
  }

  /// Returns the response to a request. Never throws: an error is a response too.
  public func respond(to request: IdentityRequest) async -> IdentityResponse {
    do {
      return IdentityResponse(try await result(of: request))
    } catch {
      let known = IdentityError(error)
      // The client of a request that was cancelled is gone. That is not a fault.
      if known.isFailure, !(error is CancellationError) { report(failure: error) }
      return known.response
    }
  }

  private func result(of request: IdentityRequest) async throws -> JSONValue {
    guard let route = Route(path: request.path) else { throw IdentityError.unknownPath }
    guard request.body.count <= settings.bodyBytesMax else { throw IdentityError.tooLarge }
    switch route {
    case .keys:
      try request.require("GET")
      return keys.published(now: environment.now())
    case .token:
      try request.require("POST")
      return try await token(request)
    case .account(let name):
      try request.require("POST")
      return try await account(name, try await RequestBody(of: request), request)
    case .administration(let name):
      try requireAdministrator(request)
      return try await administration(name, request)
    case .codes:
      try requireEmulator(request)
      try request.require("GET")
      return codes.json
    }
  }

  private func account(
    _ name: String, _ body: RequestBody, _ request: IdentityRequest
  ) async throws -> JSONValue {
    try requireSignatures(body, request)
    return switch name {
    case "signUp": try await signUp(body, request)
    case "signInWithPassword": try await signInWithPassword(body, request)
    case "signInWithCustomToken": try await signInWithCustomToken(body, request)
    case "lookup": try await lookUp(body)
    case "update": try await update(body, request)
    case "delete": try await delete(body)
    case "sendOobCode": try await sendCode(body, request)
    case "resetPassword": try await resetPassword(body, request)
    case "createAuthUri", "signInWithIdp", "signInWithPhoneNumber", "sendVerificationCode",
      "signInWithEmailLink", "issueSamlResponse", "signInWithGameCenter":
      throw IdentityError.operationNotAllowed
    default: throw IdentityError.unknownPath
    }
  }

  /// - Throws: ``IdentityError`` unless the request is the administrator's of an emulator.
  private func requireAdministrator(_ request: IdentityRequest) throws {
    guard settings.isEmulator, !request.isForeign, let authorization = request.authorization,
      authorization.asciiLowercased.hasSameBytes(as: "bearer owner")
    else { throw IdentityError.notAdministrator }
  }

  private func requireEmulator(_ request: IdentityRequest) throws {
    guard settings.isEmulator else { throw IdentityError.unknownPath }
    guard !request.isForeign else { throw IdentityError.notAdministrator }
  }

  /// - Throws: ``IdentityProblem`` if a foreign page sends a token without a signature.
  private func requireSignatures(_ body: RequestBody, _ request: IdentityRequest) throws {
    guard request.isForeign else { return }
    if let token = try body.text("idToken"), Self.lacksSignature(token) {
      throw IdentityProblem.invalid
    }
    if let token = try body.text("token"), Self.lacksSignature(token) {
      throw IdentityProblem.invalidCustomToken
    }
  }
}

/// A path of this service.
enum Route: Equatable {
  /// A request of a client about its account, by the name after the colon.
  case account(String)
  /// The exchange of a refresh token.
  case token
  /// A request of an administrator, by the name after the colon; empty for the creation of an account.
  case administration(String)
  /// The public keys.
  case keys
  /// The codes that were made last.
  case codes

  /// Creates the route of a path; nil if it belongs to none.
  init?(path: String) {
    var parts = path.utf8.split(separator: UInt8(ascii: "/")).map {
      String(decoding: $0, as: UTF8.self)
    }
    switch parts.first {
    case "identitytoolkit.googleapis.com", "securetoken.googleapis.com", "www.googleapis.com":
      parts.removeFirst()
    case ".well-known", "v1", "emulator", "robot", "service_accounts": break
    default: return nil
    }
    let colon = UInt8(ascii: ":")
    let last = (parts.last ?? "").utf8.split(
      separator: colon, maxSplits: 1, omittingEmptySubsequences: false)
    let name = last.count == 2 ? String(decoding: last[1], as: UTF8.self) : nil
    if let name, let stem = last.first {
      parts.removeLast()
      parts.append(String(decoding: stem, as: UTF8.self))
      parts.append(name)
    }
    switch (parts.count, parts.first) {
    case (3, "v1") where parts[1] == "accounts" && name != nil: self = .account(parts[2])
    case (2, "v1") where parts[1] == "token": self = .token
    case (4, "v1") where parts[1] == "projects" && parts[3] == "accounts":
      self = .administration("")
    case (5, "v1") where parts[1] == "projects" && parts[3] == "accounts" && name != nil:
      self = .administration(parts[4])
    case (2, ".well-known") where parts[1] == "jwks.json": self = .keys
    case (5, "service_accounts") where parts[2] == "jwk": self = .keys
    case (4, "service_accounts") where parts[2] == "jwk": self = .keys
    case (5, "robot") where parts[3] == "jwk": self = .keys
    case (5, "emulator") where parts[2] == "projects" && parts[4] == "oobCodes": self = .codes
    default: return nil
    }
  }
}

extension IdentityRequest {
  /// - Throws: ``IdentityError`` for another method.
  func require(_ method: String) throws {
    guard self.method.hasSameBytes(as: method) else { throw IdentityError.wrongMethod }
  }

  /// Returns the first item of the query with a name.
  func item(_ name: String) -> String? {
    query.first { $0.name.hasSameBytes(as: name) }?.value
  }
}
