import CArgon2

/// Argon2id, version 1.3 (RFC 9106), by the reference library.
///
/// Chosen because a thief of the hashes pays for every guess with memory, which graphics cards
/// have little of for each of their cores. One call takes the memory that the parameters name,
/// zeroes it and gives it back.
public struct Argon2id: PasswordHashFunction {
  /// The function.
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
