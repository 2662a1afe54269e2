internal import CanopyAccounts
internal import CanopyTree

/// A JSON Web Token in its compact form: header, payload and signature as base64url.
///
/// The decoding is strict: padding, other characters and a payload that is not an object are refused.
package struct JSONWebToken {
  /// The maximum size of a token, in bytes. Longer texts are refused without decoding them.
  package static let bytesMax = 16 * 1024

  /// The algorithm in the header.
  package let algorithm: String
  /// The key id in the header.
  let keyIdentifier: String?
  /// The claims: the members of the payload.
  let claims: JSONValue
  /// The signature; empty for an unsigned token.
  let signature: [UInt8]
  /// The signed bytes.
  package let signed: [UInt8]

  /// Creates a token from its text; nil if that is malformed. Does not verify the signature.
  package init?(_ text: String) {
    guard text.utf8.count <= Self.bytesMax else { return nil }
    let bytes = [UInt8](text.utf8)
    let parts = bytes.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
      .map { String(decoding: $0, as: UTF8.self) }
    guard parts.count == 3, let header = Self.object(parts[0]), let claims = Self.object(parts[1]),
      let signature = Base64.decode(parts[2], as: .url),
      let algorithm = header["alg"]?.string,
      // A header with critical extensions must be refused by a program that does not know them.
      header["crit"] == nil
    else { return nil }
    self.algorithm = algorithm
    keyIdentifier = header["kid"]?.string
    self.claims = claims
    self.signature = signature
    signed = Array(bytes.dropLast(parts[2].utf8.count + 1))
  }

  private static func object(_ text: String) -> JSONValue? {
    guard let bytes = Base64.decode(text, as: .url), let value = JSONValue(bytes: bytes),
      value.members != nil
    else { return nil }
    return value
  }

  /// Whether the token is unsigned, and says so.
  var isUnsigned: Bool { algorithm.hasSameBytes(as: "none") && signature.isEmpty }

  /// Whether a key of the server has signed the token.
  func isSigned(by keys: IdentityKeys, now: Int64) -> Bool {
    guard algorithm.hasSameBytes(as: "ES256"), let keyIdentifier,
      let key = keys.key(keyIdentifier, now: now)
    else { return false }
    return key.isValid(signature, of: signed)
  }

  /// Returns the text of a token with the claims, signed by a key.
  static func sign(_ claims: JSONValue, with key: SigningKey) throws -> String {
    let header = JSONValue.object([
      ("alg", .text("ES256")), ("kid", .text(key.identifier)), ("typ", .text("JWT")),
    ])
    let input =
      Base64.encode(header.jsonBytes, as: .url) + "." + Base64.encode(claims.jsonBytes, as: .url)
    return input + "." + Base64.encode(try key.sign(Array(input.utf8)), as: .url)
  }
}
