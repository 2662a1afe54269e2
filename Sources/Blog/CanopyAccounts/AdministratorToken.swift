import Crypto

/// The token of whoever may read the server's data folder: it opens administration.
///
/// It is made at the first start, kept as a file that only the server's user can read, and never
/// sent anywhere by the server. Description and mirror leave it out.
public struct AdministratorToken: Sendable {
  /// The file's name in the data folder.
  public static let fileName = "admin-token"

  /// The token: 43 characters of base64url, 256 random bits. A secret.
  public let text: String
  private let digest: [UInt8]

  /// Longer texts are no token, and are not worth hashing.
  private static let candidateBytesMax = 1_024

  /// The token that `text` spells, or nil if it is none.
  init?(_ text: String) {
    guard let token = SessionToken(text) else { return nil }
    self.text = token.text
    self.digest = Self.digest(of: token.text)
  }

  /// Whether `candidate` is the token.
  ///
  /// Digests are compared, in constant time, so that neither the length nor the beginning of a
  /// guess shows in the time that the answer takes. O(length), of which 1 KiB is looked at.
  public func matches(_ candidate: String) -> Bool {
    guard candidate.utf8.count <= Self.candidateBytesMax else { return false }
    return ConstantTime.areEqual(Self.digest(of: candidate), digest)
  }

  private static func digest(of text: String) -> [UInt8] {
    Array(SHA256.hash(data: Array(text.utf8)))
  }
}

extension AdministratorToken: CustomStringConvertible, CustomDebugStringConvertible,
  CustomReflectable
{
  /// Nothing of the token.
  public var description: String { "AdministratorToken(<redacted>)" }

  /// The same as ``description``.
  public var debugDescription: String { description }

  /// A mirror without children.
  public var customMirror: Mirror { Mirror(self, children: []) }
}
