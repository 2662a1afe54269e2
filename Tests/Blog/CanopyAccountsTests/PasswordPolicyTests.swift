import Testing

@testable import CanopyAccounts

@Suite struct PasswordPolicyTests {
  private func rejection(
    _ password: String, email: String = "ada.byron@example.org", username: String = "Countess Ada"
  ) throws -> PasswordRejection? {
    let email = try #require(EmailAddress(email))
    do {
      _ = try PasswordPolicy.accepted(password, email: email, username: username)
      return nil
    } catch AccountError.invalidPassword(let reason) {
      return reason
    }
  }

  @Test func `a password has 8 to 128 characters`() throws {
    let varied = String(repeating: "xq7", count: 50)
    #expect(try rejection(String(varied.prefix(7))) == .tooShort)
    #expect(try rejection(String(varied.prefix(8))) == nil)
    #expect(try rejection(String(varied.prefix(128))) == nil)
    #expect(try rejection(String(varied.prefix(129))) == .tooLong)
    #expect(try rejection("") == .tooShort)
    #expect(try rejection(String(repeating: "xq7", count: 400_000)) == .tooLong)
  }

  @Test func `characters are counted after composition`() throws {
    let composed = "\u{E9}\u{EA}\u{E8}\u{EB}xq7z"
    let decomposed = "e\u{301}e\u{302}e\u{300}e\u{308}xq7z"
    #expect(NormalizedPassword(decomposed)?.scalarCount == 8)
    #expect(NormalizedPassword(decomposed)?.bytes == Array(composed.utf8))
    #expect(try rejection(String(decomposed.unicodeScalars.dropLast())) == .tooShort)
    // U+1F82 is composed of four scalars, which is the maximum.
    let four = "\u{3B1}\u{313}\u{300}\u{345}"
    #expect(NormalizedPassword(String(repeating: four, count: 128))?.scalarCount == 128)
    #expect(NormalizedPassword(String(repeating: four, count: 129)) == nil)
    // 128 of the longest characters do not exceed the limit in bytes.
    let wide = String(repeating: "\u{1F600}\u{1F680}", count: 64)
    #expect(try rejection(wide) == nil)
  }

  @Test(arguments: [
    "password", "PASSWORD", "PassWord1", "qwertyuiop", "Iloveyou1", "letmein123", "trustno1",
  ])
  func `a common password is refused in any case`(_ password: String) throws {
    #expect(try rejection(password) == .tooCommon)
  }

  @Test func `the list has at least three hundred passwords, and each is refused`() throws {
    #expect(CommonPasswords.all.count >= 300)
    for password in CommonPasswords.all {
      #expect(password.unicodeScalars.count >= 8, "\(password) is refused for its length already")
      #expect(password == password.lowercased(), "\(password) would never be found")
      #expect([.tooCommon, .tooSimple].contains(try rejection(password)), "\(password)")
    }
  }

  @Test(arguments: [
    "aaaaaaaa", "        ", "12345678", "23456789", "1234567890", "abcdefgh", "ABCDEFGH",
    "klmnopqr", "87654321", "zyxwvuts", "AbCdEfGh",
    "\u{E9}\u{E9}\u{E9}\u{E9}\u{E9}\u{E9}\u{E9}\u{E9}",
  ])
  func `a repeated character or a sequence is refused`(_ password: String) throws {
    #expect(try rejection(password) == .tooSimple)
  }

  @Test(arguments: ["acegikmo", "aaaaaaab", "1234567x", "x2345678"])
  func `a text that is almost a sequence is accepted`(_ password: String) throws {
    #expect(try rejection(password) == nil)
  }

  @Test func `the address and the user name are refused as passwords`() throws {
    #expect(try rejection("ada.byron@example.org") == .sameAsEmail)
    #expect(try rejection("ADA.Byron@example.org") == .sameAsEmail)
    #expect(try rejection("Ada.Byron") == .sameAsEmail)
    #expect(try rejection("ada.byron1") == nil)
    #expect(try rejection("countess ADA") == .sameAsUsername)
    #expect(try rejection("countess Ada 2") == nil)
    #expect(try rejection("rene\u{301}rene", username: "REN\u{C9}rene") == .sameAsUsername)
  }
}
