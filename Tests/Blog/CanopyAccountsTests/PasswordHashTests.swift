import CanopyTesting
import Testing

@testable import CanopyAccounts

@Suite struct PasswordHashTests {
  private static let salt = "Y2Fub3B5c2FsdDE2Ynl0ZQ"
  private static let tag = "8tvnyF/Jt5CC11bYxFE3WFKlOxDNcYbOCqSghnNGPKk"

  @Test func `the text of a hash is the same after parsing and writing`() throws {
    let text = "$argon2id$v=19$m=19456,t=2,p=1$\(Self.salt)$\(Self.tag)"
    let hash = try #require(PasswordHash(encoded: text))
    #expect(hash.parameters == .standard)
    #expect(hash.salt == Array("canopysalt16byte".utf8))
    #expect(hash.tag.count == 32)
    #expect(hash.encoded == text)
    #expect(hash.isMade(with: .standard))
    #expect(!hash.isMade(with: .cheapest))
  }

  @Test(arguments: [
    "", "$", "$$$$$", "plain", "$argon2id", "$argon2i$v=19$m=64,t=1,p=1$S$T",
    "$argon2id$v=16$m=64,t=1,p=1$S$T", "$argon2id$m=64,t=1,p=1$S$T",
    "argon2id$v=19$m=64,t=1,p=1$S$T", "$argon2id$v=19$m=64,t=1,p=1$S$T$",
    "$argon2id$v=19$t=1,m=64,p=1$S$T", "$argon2id$v=19$m=64,t=1$S$T",
    "$argon2id$v=19$m=64,t=1,p=1,x=1$S$T", "$argon2id$v=19$m=64,t=1,p=$S$T",
    "$argon2id$v=19$m=064,t=1,p=1$S$T", "$argon2id$v=19$m=+64,t=1,p=1$S$T",
    "$argon2id$v=19$m=-64,t=1,p=1$S$T", "$argon2id$v=19$m=6 4,t=1,p=1$S$T",
    "$argon2id$v=19$m=64,t=0,p=1$S$T", "$argon2id$v=19$m=64,t=1,p=0$S$T",
    "$argon2id$v=19$m=4294967296,t=1,p=1$S$T", "$argon2id$v=19$m=4294967295,t=1,p=1$S$T",
    "$argon2id$v=19$m=99999999999999999999999,t=1,p=1$S$T", "$argon2id$v=19$m=64,t=1,p=1$$T",
    "$argon2id$v=19$m=64,t=1,p=1$S$", "$argon2id$v=19$m=64,t=1,p=1$c2FsdA$T",
    "$argon2id$v=19$m=64,t=1,p=1$S$dGFn", "$argon2id$v=19$m=64,t=1,p=1$S==$T",
    "$argon2id$v=19$m=٦٤,t=1,p=1$S$T",
  ])
  func `a malformed stored hash is refused`(_ pattern: String) {
    let text = pattern.replacing("$S", with: "$" + Self.salt).replacing("$T", with: "$" + Self.tag)
    #expect(PasswordHash(encoded: text) == nil)
  }

  @Test func `parameters are accepted at their bounds, and refused beyond them`() {
    func isAccepted(_ memory: UInt32, _ passes: UInt32, _ lanes: UInt32) -> Bool {
      let text = "$argon2id$v=19$m=\(memory),t=\(passes),p=\(lanes)$\(Self.salt)$\(Self.tag)"
      let isParsed = PasswordHash(encoded: text) != nil
      let isMade =
        HashParameters(memoryKibibytes: memory, passes: passes, lanes: lanes) != nil
      #expect(isParsed == isMade)
      return isMade
    }
    #expect(isAccepted(8, 1, 1))
    #expect(!isAccepted(7, 1, 1))
    #expect(isAccepted(262_144, 16, 4))
    #expect(!isAccepted(262_145, 16, 4))
    #expect(!isAccepted(262_144, 17, 4))
    #expect(!isAccepted(262_144, 16, 5))
    #expect(isAccepted(32, 1, 4))
    #expect(!isAccepted(31, 1, 4))
    #expect(!isAccepted(64, 1, .max))
  }

  @Test func `lengths of salt and tag are accepted at their bounds, and refused beyond them`() {
    func isAccepted(salt: Int, tag: Int) -> Bool {
      let salt = [UInt8](repeating: 1, count: salt)
      let tag = [UInt8](repeating: 2, count: tag)
      guard let hash = PasswordHash(parameters: .cheapest, salt: salt, tag: tag) else {
        return false
      }
      #expect(PasswordHash(encoded: hash.encoded) == hash)
      return true
    }
    #expect(isAccepted(salt: 8, tag: 16))
    #expect(isAccepted(salt: 64, tag: 64))
    #expect(!isAccepted(salt: 7, tag: 16))
    #expect(!isAccepted(salt: 8, tag: 15))
    #expect(!isAccepted(salt: 65, tag: 64))
    #expect(!isAccepted(salt: 64, tag: 65))
  }

  @Test func `the longest hash fits the bound on its text`() throws {
    let parameters = try #require(
      HashParameters(
        memoryKibibytes: HashParameters.memoryKibibytesMax, passes: HashParameters.passesMax,
        lanes: HashParameters.lanesMax))
    let bytes = [UInt8](repeating: 0xFF, count: 64)
    let hash = try #require(PasswordHash(parameters: parameters, salt: bytes, tag: bytes))
    #expect(hash.encoded.utf8.count <= PasswordHash.textBytesMax)
  }

  @Test func `a damaged stored hash is refused, or its text is the same after parsing and writing`()
    throws
  {
    var generator = SeededGenerator(printingSeedFor: "PasswordHashTests")
    let whole = Array("$argon2id$v=19$m=19456,t=2,p=1$\(Self.salt)$\(Self.tag)".utf8)
    let likely = Array("$=,0123456789mtpv argon2id+/".utf8) + [0, 0x80, 0xFF]
    for _ in 0..<5_000 {
      var bytes = whole
      for _ in 0..<Int.random(in: 1...4, using: &generator) {
        let place = Int.random(in: 0..<bytes.count, using: &generator)
        let byte = likely.randomElement(using: &generator) ?? 0
        switch Int.random(in: 0..<3, using: &generator) {
        case 0: bytes[place] = byte
        case 1: bytes.insert(byte, at: place)
        default: bytes.remove(at: place)
        }
      }
      let text = String(decoding: bytes, as: UTF8.self)
      if let hash = PasswordHash(encoded: text) { #expect(hash.encoded == text) }
    }
  }
}
