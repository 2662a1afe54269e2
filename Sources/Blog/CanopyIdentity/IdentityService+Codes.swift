internal import CanopyAccounts
internal import CanopyTree
internal import Synchronization

/// Codes that prove the access to an e-mail address. No mail is sent: a code goes to the administrator's log of codes.
extension IdentityService {
  func sendCode(_ body: RequestBody, _ request: IdentityRequest) async throws -> JSONValue {
    guard let kind = try body.text("requestType") else { throw IdentityError.missingRequestType }
    let email: String
    guard let purpose = CodePurpose(rawValue: kind) else {
      throw IdentityError.operationNotAllowed
    }
    switch purpose {
    case .resetPassword:
      guard let given = try body.text("email") else { throw IdentityError.missingEmail }
      email = given
    case .verifyEmail:
      let identity = try await identity(in: body)
      email = try await accounts.account(.uid(identity.uid)).email
      guard !email.isEmpty else { throw IdentityError.missingEmail }
    }
    // The response is the same for an address without an account.
    try await sendCode(to: email, purpose, from: request.network)
    return .object([
      ("kind", .text("identitytoolkit#GetOobConfirmationCodeResponse")), ("email", .text(email)),
    ])
  }

  /// Makes a code for the administrator, who gets it in the response.
  func makeCode(_ body: RequestBody) async throws -> JSONValue {
    guard let kind = try body.text("requestType") else { throw IdentityError.missingRequestType }
    guard let email = try body.text("email") else { throw IdentityError.missingEmail }
    guard let purpose = CodePurpose(rawValue: kind) else {
      throw IdentityError.operationNotAllowed
    }
    let code = try await accounts.issueCode(for: email, purpose, from: nil, isBounded: false)
    guard let code else {
      throw IdentityError.emailNotFound
    }
    report(code)
    return .object([
      ("kind", .text("identitytoolkit#GetOobConfirmationCodeResponse")), ("email", .text(email)),
      ("oobCode", .text(code.text)), ("oobLink", .text(RecentCodes.link(code))),
    ])
  }

  func resetPassword(_ body: RequestBody, _ request: IdentityRequest) async throws -> JSONValue {
    guard let code = try body.text("oobCode"), !code.isEmpty else {
      throw IdentityError.missingCode
    }
    let record: CodeRecord
    if let password = try body.text("newPassword"), !password.isEmpty {
      record = try await reportingUncertainEnd {
        try await accounts.resetPassword(code: code, new: password, from: request.network)
      }
      await reportEndOfLogins(of: record.uid)
    } else {
      record = try await accounts.checkCode(code, .resetPassword, from: request.network)
    }
    return .object([
      ("kind", .text("identitytoolkit#ResetPasswordResponse")), ("email", .text(record.email)),
      ("requestType", .text(record.purpose.rawValue)),
    ])
  }
}

/// Counts the codes that wait for the store, up to a bound.
final class WaitingCodes: Sendable {
  static let countMax = 64

  private let count = Mutex(0)

  /// Returns false if as many wait as may.
  func enter() -> Bool {
    count.withLock { count in
      guard count < Self.countMax else { return false }
      count += 1
      return true
    }
  }

  func leave() {
    count.withLock { $0 -= 1 }
  }
}

/// The codes that were made last, newest last, for the test programs of an emulator. At most 100.
final class RecentCodes: Sendable {
  private static let countMax = 100

  private let codes = Mutex<[IssuedCode]>([])

  func add(_ code: IssuedCode) {
    codes.withLock { codes in
      codes.append(code)
      codes.removeFirst(max(0, codes.count - Self.countMax))
    }
  }

  var json: JSONValue {
    let codes = codes.withLock { $0 }
    return .object([
      (
        "oobCodes",
        .array(
          codes.map { code in
            .object([
              ("email", .text(code.record.email)), ("oobCode", .text(code.text)),
              ("requestType", .text(code.record.purpose.rawValue)),
              ("oobLink", .text(RecentCodes.link(code))),
            ])
          })
      )
    ])
  }

  /// Returns the link that an e-mail would contain, without a host.
  static func link(_ code: IssuedCode) -> String {
    let mode =
      switch code.record.purpose {
      case .resetPassword: "resetPassword"
      case .verifyEmail: "verifyEmail"
      }
    return "/emulator/action?mode=\(mode)&oobCode=\(code.text)"
  }
}
