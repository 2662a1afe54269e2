/// A function that is slow on purpose: from a password and a salt it makes a tag.
///
/// A protocol so that tests can count, hold and cheapen the work; ``Argon2id`` is the real one.
public protocol PasswordHashFunction: Sendable {
  /// The tag of a password. The same arguments give the same tag.
  ///
  /// Blocks its thread for as long as the parameters ask, so it is called by
  /// ``PasswordHasher``'s own threads only, several at once.
  ///
  /// - Throws: ``AccountError/hashingFailed`` if it cannot do its work.
  func tag(
    password: [UInt8], salt: [UInt8], parameters: HashParameters, tagBytes: Int
  ) throws -> [UInt8]
}
