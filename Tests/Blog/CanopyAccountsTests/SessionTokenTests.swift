import CanopyTesting
import Testing

@testable import CanopyAccounts

@Suite struct SessionTokenTests {
  @Test func `a token is 43 characters of 256 random bits`() throws {
    let random = SeededBytes()
    let tokens = (0..<100).map { _ in SessionToken.make(random: { random($0) }) }
    #expect(Set(tokens.map(\.text)).count == 100)
    for token in tokens {
      #expect(token.text.utf8.count == 43)
      #expect(token.digest.bytes.count == 32)
      #expect(try #require(SessionToken(token.text)).digest == token.digest)
    }
  }

  @Test func `the digest is the SHA-256 of the secret bytes`() {
    // printf '\0%.0s' $(seq 32) | sha256sum
    let expected = "66687aadf862bd776c8fc18b8e9f8e20089714856ee233b3902a591d0d5f2925"
    let token = SessionToken.make(random: { [UInt8](repeating: 0, count: $0) })
    let hex = token.digest.bytes.map { byte in
      let digits = String(byte, radix: 16)
      return digits.count == 1 ? "0" + digits : digits
    }
    #expect(hex.joined() == expected)
  }

  @Test func `a malformed token is refused`() {
    let token = String(repeating: "A", count: 43)
    #expect(SessionToken(token) != nil)
    let short = String(repeating: "A", count: 42)
    let malformed: [String] = [
      "", "A", short, "\(token)A", "\(token)=", " \(short)", "\(short)B", "\(short)+",
      "\(short.dropLast())é", String(repeating: "A", count: 1_000_000),
    ]
    for text in malformed { #expect(SessionToken(text) == nil) }
  }
}

@Suite struct AccountIdentifierTests {
  @Test func `an identifier has twenty letters and digits, all equally likely`() {
    let random = SeededBytes(seed: 20)
    var counts: [Character: Int] = [:]
    for _ in 0..<3_100 {
      let uid = AccountIdentifier.make(random: { random($0) })
      #expect(uid.utf8.count == 20)
      for character in uid { counts[character, default: 0] += 1 }
    }
    #expect(counts.count == 62)
    // 1,000 of each are expected, with a standard deviation of 31.5.
    for (character, count) in counts { #expect((850...1_150).contains(count), "\(character)") }
  }

  @Test func `the live random source returns the requested number of bytes`() {
    let random = AccountEnvironment.live.random
    #expect(random(32).count == 32)
    #expect(random(0).isEmpty)
    #expect(random(-1).isEmpty)
    #expect(random(32) != random(32))
  }
}
