internal import CanopyTree

/// An identity token, decoded. The signature is not verified: the server has just sent the token.
public struct AuthTokenResult: Sendable {
  /// The token.
  public let token: String
  /// The time from which the token is invalid.
  public let expirationDate: Date
  /// The time of the sign-in.
  public let authDate: Date
  /// The time at which the server issued the token.
  public let issuedAtDate: Date
  /// The method of the sign-in: `password`, `custom` or `anonymous`.
  public let signInProvider: String
  private let payload: Data

  /// All claims of the token, with those that an administrator has set.
  public var claims: [String: Any] {
    (try? JSONSerialization.jsonObject(with: payload)) as? [String: Any] ?? [:]
  }

  /// Decodes a token; nil if it is not one.
  package init?(_ token: String) {
    guard let claims = IdentityClaims(token), let expiry = claims.time("exp"),
      let login = claims.time("auth_time"), let issued = claims.time("iat")
    else { return nil }
    self.token = token
    expirationDate = expiry
    authDate = login
    issuedAtDate = issued
    signInProvider = claims.provider
    payload = claims.payload
  }
}

/// The claims of an identity token that the library uses.
struct IdentityClaims {
  let payload: Data
  private let value: JSONValue

  /// Reads the claims of a token; nil if it is not one.
  init?(_ token: String) {
    let parts = token.utf8.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
    guard parts.count == 3 else { return nil }
    var text = parts[1].map { byte in
      switch byte {
      case UInt8(ascii: "-"): UInt8(ascii: "+")
      case UInt8(ascii: "_"): UInt8(ascii: "/")
      default: byte
      }
    }
    text += [UInt8](repeating: UInt8(ascii: "="), count: (4 - text.count % 4) % 4)
    guard let payload = Data(base64Encoded: Data(text)),
      let value = JSONValue(reading: [UInt8](payload))
    else { return nil }
    self.payload = payload
    self.value = value
  }

  var uid: String? { value["sub"]?.string ?? value["user_id"]?.string }
  var email: String? { value["email"]?.string }
  var name: String? { value["name"]?.string }
  var isEmailVerified: Bool { value["email_verified"] == .leaf(true) }
  var provider: String { value["firebase"]?["sign_in_provider"]?.string ?? "" }

  func time(_ name: String) -> Date? {
    guard case .leaf(let node)? = value[name], let seconds = node.integerValue else { return nil }
    return Date(timeIntervalSince1970: TimeInterval(seconds))
  }
}
