import CanopyTesting
import Foundation
import Testing

@testable import CanopyAccounts

@Suite struct AdministratorTokenTests {
  private let random = SeededBytes()

  /// Runs a test with a temporary folder.
  private func withFolder(_ body: (String) throws -> Void) throws {
    let folder = try TemporaryFolder()
    try body(folder.path)
  }

  private func make(in folder: String) throws -> AdministratorToken {
    try AdministratorToken.loadOrCreate(in: folder, random: { random($0) })
  }

  private func problem(in folder: String) -> PrivateFileProblem? {
    let error = #expect(throws: AccountError.self) { _ = try make(in: folder) }
    guard case .administratorTokenUnusable(let path, let problem) = error else { return nil }
    #expect(path == folder + "/admin-token")
    return problem
  }

  private func write(_ text: String, mode: Int = 0o600, in folder: String) throws {
    let path = folder + "/admin-token"
    try Data(text.utf8).write(to: URL(fileURLWithPath: path))
    try FileManager.default.setAttributes([.posixPermissions: mode], ofItemAtPath: path)
  }

  @Test func `the first start creates a token, and later starts read it`() throws {
    try withFolder { folder in
      #expect(try AdministratorToken.load(from: folder) == nil)
      let made = try make(in: folder)
      #expect(made.text.utf8.count == 43)
      #expect(try make(in: folder).text == made.text)
      #expect(try AdministratorToken.load(from: folder + "/")?.text == made.text)
      let names = try FileManager.default.contentsOfDirectory(atPath: folder)
      #expect(names == ["admin-token"])
      let file = try FileManager.default.attributesOfItem(atPath: folder + "/admin-token")
      #expect(file[.posixPermissions] as? Int == 0o600)
    }
  }

  @Test func `the file is private with any umask`() throws {
    try withFolder { folder in
      let before = umask(0)
      defer { umask(before) }
      _ = try make(in: folder)
      let file = try FileManager.default.attributesOfItem(atPath: folder + "/admin-token")
      #expect(file[.posixPermissions] as? Int == 0o600)
    }
  }

  @Test func `a file that a crash has left does not prevent the next start`() throws {
    try withFolder { folder in
      try Data("ab".utf8).write(to: URL(fileURLWithPath: folder + "/admin-token.new"))
      _ = try make(in: folder)
      let names = try FileManager.default.contentsOfDirectory(atPath: folder)
      #expect(names == ["admin-token"])
    }
  }

  @Test func `a file that other users may access is refused and not changed`() throws {
    try withFolder { folder in
      let text = try make(in: folder).text
      for bits in 1...0o77 {
        try write(text, mode: 0o600 | bits, in: folder)
        #expect(problem(in: folder) == .exposed(mode: UInt32(0o600 | bits)))
      }
      try write(text, mode: 0o400, in: folder)
      #expect(try make(in: folder).text == text)
    }
  }

  @Test func `a malformed file is refused and not changed`() throws {
    try withFolder { folder in
      let text = try make(in: folder).text
      let malformed = [
        "", "\n", "token", String(text.dropLast()), text + "\n\n", text + "A", " " + text,
        text + "\r\n", String(text.dropLast()) + "é", String(repeating: "A", count: 100_000),
      ]
      for content in malformed {
        try write(content, in: folder)
        #expect(problem(in: folder) == .malformed)
        #expect(throws: AccountError.self) {
          try AdministratorToken.check(Array(content.utf8), of: "admin-token")
        }
      }
      for content in [text, text + "\n"] {
        try AdministratorToken.check(Array(content.utf8), of: "admin-token")
      }
      try write(text, in: folder)
      #expect(try make(in: folder).text == text)
    }
  }

  @Test func `a folder, a link or a pipe is refused`() throws {
    try withFolder { folder in
      try FileManager.default.createDirectory(
        atPath: folder + "/admin-token", withIntermediateDirectories: false)
      #expect(problem(in: folder) == .notAFile)
    }
    try withFolder { folder in
      try FileManager.default.createSymbolicLink(
        atPath: folder + "/admin-token", withDestinationPath: "/dev/null")
      #expect(problem(in: folder) == .notAFile)
    }
    try withFolder { folder in
      #expect(mkfifo(folder + "/admin-token", 0o600) == 0)
      #expect(problem(in: folder) == .notAFile)
    }
  }

  @Test func `the error names a missing folder and the reason`() {
    let error = #expect(throws: AccountError.self) { _ = try make(in: "/no/such/folder") }
    #expect(
      error?.sentence
        == """
        cannot create /no/such/folder/admin-token: No such file or directory; \
        check the folder and its permissions
        """)
  }

  @Test func `only the token itself matches`() throws {
    let text = SessionToken.make(random: { random($0) }).text
    let token = try #require(AdministratorToken(text))
    #expect(token.matches(text))
    let others = [
      "", String(text.dropLast()), text + "\n", text.lowercased(), text.uppercased(),
      String(text.reversed()), String(repeating: text, count: 10_000),
    ]
    for other in others { #expect(!token.matches(other)) }
  }
}
