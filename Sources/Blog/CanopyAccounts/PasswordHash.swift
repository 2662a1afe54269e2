/// An argon2id hash with all that is needed to check a password against it.
///
/// As text it is a PHC string, the form that argon2's own tool prints:
///
///     $argon2id$v=19$m=19456,t=2,p=1$<salt>$<tag>
///
/// with salt and tag in base64 without padding. Its `description` shows the parameters only.
public struct PasswordHash: Sendable, Equatable {
  /// Bytes of salt in a new hash.
  public static let saltBytes = 16
  /// Bytes of tag in a new hash.
  public static let tagBytes = 32

  /// What the hash cost.
  public let parameters: HashParameters
  /// The salt, 8 to 64 bytes.
  public let salt: [UInt8]
  /// The tag, 16 to 64 bytes: what argon2id makes of the password and the salt.
  public let tag: [UInt8]

  static let saltBytesAllowed = 8...64
  static let tagBytesAllowed = 16...64
  /// No text within the other bounds is longer, so a longer one is not even taken apart.
  static let textBytesMax = 256

  /// A hash of these parts, or nil if the salt or the tag has a length out of bounds.
  public init?(parameters: HashParameters, salt: [UInt8], tag: [UInt8]) {
    guard Self.saltBytesAllowed.contains(salt.count), Self.tagBytesAllowed.contains(tag.count)
    else { return nil }
    self.parameters = parameters
    self.salt = salt
    self.tag = tag
  }

  /// Whether a new hash would be made in the same way, so that this one need not be replaced.
  func isMade(with current: HashParameters) -> Bool {
    parameters == current && salt.count == Self.saltBytes && tag.count == Self.tagBytes
  }
}

extension PasswordHash: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
  /// The parameters, without salt and tag.
  public var description: String {
    let (memory, passes, lanes) = (parameters.memoryKibibytes, parameters.passes, parameters.lanes)
    return "PasswordHash(m=\(memory),t=\(passes),p=\(lanes), <redacted>)"
  }

  /// The same as ``description``.
  public var debugDescription: String { description }

  /// A mirror with the parameters only.
  public var customMirror: Mirror { Mirror(self, children: ["parameters": parameters]) }
}
