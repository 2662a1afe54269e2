/// The SHA-256 of a token's 32 secret bytes: what a store keeps in its place, so that a copy of
/// the store opens no account.
///
/// A plain hash is enough here, unlike for passwords: nobody can try all of 2^256 tokens.
public struct TokenDigest: Sendable, Hashable {
  /// The digest, 32 bytes.
  public let bytes: [UInt8]

  /// A digest read back from a store; its length is not checked.
  public init(bytes: [UInt8]) {
    self.bytes = bytes
  }

  /// The digest of a token in the form that clients have, or nil if the text is not a token.
  public init?(token text: String) {
    guard let token = SessionToken(text) else { return nil }
    self = token.digest
  }
}

extension TokenDigest {
  /// The digest as text: 43 characters of base64url.
  public var text: String { Base64.encode(bytes, as: .url) }

  /// The digest that ``text`` spells, or nil if it is malformed.
  public init?(text: String) {
    guard text.utf8.count == SessionToken.characters,
      let bytes = Base64.decode(text, as: .url)
    else { return nil }
    self.init(bytes: bytes)
  }
}

/// A token as a store keeps it.
public struct TokenRecord: Sendable, Equatable {
  /// The digest by which it is found.
  public let digest: TokenDigest
  /// The account that it opens.
  public let uid: String
  /// When it stops doing so, in milliseconds since 1970: it is valid before, not at, that time.
  public let expiresAt: Int64

  /// A record with the given fields.
  public init(digest: TokenDigest, uid: String, expiresAt: Int64) {
    self.digest = digest
    self.uid = uid
    self.expiresAt = expiresAt
  }
}
