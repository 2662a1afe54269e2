import CanopyAccounts
import Testing

@Suite struct Argon2idTests {
  // Computed by the reference tool (Debian package argon2 0~20171227):
  //
  //   echo -n "correct horse battery staple" |
  //     argon2 canopysalt16byte -id -v 13 -t 2 -k 19456 -p 1 -l 32 -e
  private static let standard =
    "$argon2id$v=19$m=19456,t=2,p=1$Y2Fub3B5c2FsdDE2Ynl0ZQ"
    + "$8tvnyF/Jt5CC11bYxFE3WFKlOxDNcYbOCqSghnNGPKk"
  // The same with -t 1 -k 64 -p 2.
  private static let twoLanes =
    "$argon2id$v=19$m=64,t=1,p=2$Y2Fub3B5c2FsdDE2Ynl0ZQ"
    + "$ddazGbVscmWe8ewvJx7RwjDXlk/olDFMjgRc1OAX4BU"
  // The same with -i -t 1 -k 64 -p 1: argon2i.
  private static let otherKind =
    "$argon2i$v=19$m=64,t=1,p=1$Y2Fub3B5c2FsdDE2Ynl0ZQ"
    + "$jzVnfhiGMxcK4VS0DFKV162rPAlLy6goAe5uPayP72k"

  private static let password = Array("correct horse battery staple".utf8)

  @Test func `a hash with the standard parameters is equal to that of the reference tool`()
    async throws
  {
    let hasher = PasswordHasher()
    let salt = Array("canopysalt16byte".utf8)
    let hash = try await hasher.hash(Self.password, salt: salt, parameters: .standard)
    #expect(hash.encoded == Self.standard)
    #expect(try await hasher.verify(Self.password, against: hash))
    #expect(try await !hasher.verify(Self.password + [0], against: hash))
  }

  @Test func `a hash with other parameters is verified with its own`() async throws {
    let hasher = PasswordHasher()
    let hash = try #require(PasswordHash(encoded: Self.twoLanes))
    #expect(try await hasher.verify(Self.password, against: hash))
    #expect(try await !hasher.verify(Array("correct horse".utf8), against: hash))
    #expect(try await !hasher.verify([], against: hash))
  }

  @Test func `a hash of argon2i does not match`() {
    #expect(PasswordHash(encoded: Self.otherKind) == nil)
  }

  @Test func `lengths that the library refuses are an error`() {
    let function = Argon2id()
    for (salt, tag) in [(7, 32), (65, 32), (16, 15), (16, 65), (16, -1), (0, 32)] {
      #expect(throws: AccountError.hashingFailed) {
        try function.tag(
          password: [], salt: [UInt8](repeating: 0, count: salt), parameters: .cheapest,
          tagBytes: tag)
      }
    }
  }

  @Test func `a zero byte does not end a password`() throws {
    let salt = [UInt8](repeating: 0, count: 16)
    let tags = try [[], [0], [0, 0], [0, 1]].map {
      try Argon2id().tag(password: $0, salt: salt, parameters: .cheapest, tagBytes: 32)
    }
    #expect(Set(tags).count == tags.count)
  }
}
