import CArgon2

/// A deliberately slow function that computes a tag from a password and a salt.
///
/// It is a protocol so that tests can count the calls, delay them and make them cheap. ``Argon2id`` is the real function.
public protocol PasswordHashFunction: Sendable {
  /// Returns the tag of a password. The same arguments give the same tag.
  ///
  /// Blocks its thread for a time that the parameters determine. Only the threads of ``PasswordHasher`` call it, several
  /// at once.
  ///
  /// - Throws: ``AccountError/hashingFailed``.
  func tag(
    password: [UInt8], salt: [UInt8], parameters: HashParameters, tagBytes: Int
  ) throws -> [UInt8]
}

/// Argon2id, version 1.3 (RFC 9106), by the reference library.
///
/// It makes each guess expensive for an attacker who has stolen the hashes, because a guess needs memory, and graphics
/// cards have little memory for each core. One call allocates the memory that the parameters specify, and overwrites it
/// with zeros before freeing it.
public struct Argon2id: PasswordHashFunction {
  /// Creates the function.
  public init() {}

  /// See ``PasswordHashFunction/tag(password:salt:parameters:tagBytes:)``.
  public func tag(
    password: [UInt8], salt: [UInt8], parameters: HashParameters, tagBytes: Int
  ) throws -> [UInt8] {
    guard PasswordHash.tagBytesAllowed.contains(tagBytes),
      PasswordHash.saltBytesAllowed.contains(salt.count)
    else { throw AccountError.hashingFailed }
    var tag = [UInt8](repeating: 0, count: tagBytes)
    let code = argon2id_hash_raw(
      parameters.passes,
      parameters.memoryKibibytes,
      parameters.lanes,
      password,
      password.count,
      salt,
      salt.count,
      &tag,
      tagBytes
    )
    guard code == ARGON2_OK.rawValue else { throw AccountError.hashingFailed }
    return tag
  }
}
