import Crypto

/// A session token: 256 random bits as 43 characters of base64url.
///
/// The text authenticates the user. So no description contains it, and the store has only its ``TokenDigest``.
struct SessionToken: Sendable {
  static let bytes = 32
  static let characters = 43

  /// The text for the client.
  let text: String
  /// The digest for the store.
  let digest: TokenDigest

  /// Creates a new token.
  static func make(random: RandomBytes) -> SessionToken {
    SessionToken(secret: random(bytes))
  }

  /// Creates a token from the text of a client; nil if the text is not a token, which costs no hash and no look-up.
  init?(_ text: String) {
    guard text.utf8.count == Self.characters, let secret = Base64.decode(text, as: .url) else {
      return nil
    }
    self.init(secret: secret)
  }

  private init(secret: [UInt8]) {
    text = Base64.encode(secret, as: .url)
    digest = TokenDigest(bytes: Array(SHA256.hash(data: secret)))
  }
}

extension SessionToken: CustomStringConvertible, CustomReflectable {
  var description: String { "SessionToken(<redacted>)" }
  var customMirror: Mirror { Mirror(self, children: []) }
}

/// The SHA-256 of a token's 32 secret bytes. The store has it instead of the token, so a copy of the store gives no access
/// to accounts.
///
/// A fast hash is sufficient, unlike for passwords, because an attacker cannot try 2^256 tokens.
public struct TokenDigest: Sendable, Hashable {
  /// The digest, 32 bytes.
  public let bytes: [UInt8]

  /// Creates a digest from the bytes in a store, without checking their length.
  public init(bytes: [UInt8]) {
    self.bytes = bytes
  }

  /// Creates the digest of a token from the token's text; nil if the text is not a token.
  public init?(token text: String) {
    guard let token = SessionToken(text) else { return nil }
    self = token.digest
  }
}

extension TokenDigest {
  /// The digest as text: 43 characters of base64url.
  public var text: String { Base64.encode(bytes, as: .url) }

  /// Creates a digest from its ``text``; nil if that is malformed.
  public init?(text: String) {
    guard text.utf8.count == SessionToken.characters,
      let bytes = Base64.decode(text, as: .url)
    else { return nil }
    self.init(bytes: bytes)
  }
}

/// A token in a store.
public struct TokenRecord: Sendable, Equatable {
  /// The digest, which is the key of the record.
  public let digest: TokenDigest
  /// The uid of the account.
  public let uid: String
  /// The time at which the token expires, in milliseconds since 1970. The token is not valid at that time.
  public let expiresAt: Int64
  /// The claims of the custom token with which the session began, as the text of a JSON object; nil for another login.
  public let customClaims: String?

  /// Creates a record with the given fields.
  public init(digest: TokenDigest, uid: String, expiresAt: Int64, customClaims: String? = nil) {
    self.digest = digest
    self.uid = uid
    self.expiresAt = expiresAt
    self.customClaims = customClaims
  }
}

/// The comparison of secrets.
enum ConstantTime {
  /// Whether both arrays have the same bytes, in a time that depends only on their lengths. A comparison that stops at the
  /// first difference would reveal by its time how many bytes of a guess are right.
  static func areEqual(_ left: [UInt8], _ right: [UInt8]) -> Bool {
    guard left.count == right.count else { return false }
    var difference: UInt8 = 0
    for (one, other) in zip(left, right) { difference |= one ^ other }
    return difference == 0
  }
}
