import Crypto

/// A session token: 256 random bits, which nobody guesses, as 43 characters of base64url.
///
/// Whoever has the text is the account, so it is in no description, and the store has its
/// ``TokenDigest`` only.
struct SessionToken: Sendable {
  static let bytes = 32
  static let characters = 43

  /// The text that the client keeps.
  let text: String
  /// What the store keeps.
  let digest: TokenDigest

  /// A new token.
  static func make(random: RandomBytes) -> SessionToken {
    SessionToken(secret: random(bytes))
  }

  /// The token that a client sent, or nil if it is none; costs no hash and no look-up then.
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
