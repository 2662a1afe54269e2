import ArgumentParser
import CanopyAccounts
import CanopyEngine
import CanopySocial
import CanopyTree
import Foundation
import Logging

struct User: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Manage accounts in a data folder that no server is using.",
    subcommands: [Add.self, List.self, Disable.self, Enable.self, SetPassword.self])

  /// Opens the folder for one operation.
  ///
  /// - Parameter creates: whether to create a missing folder.
  static func with<R: Sendable>(
    _ folder: FolderOption, creates: Bool = false,
    _ body: @escaping @Sendable (Composition) async throws -> R
  ) async throws -> R {
    try await Failure.explaining {
      let logger = Logger(label: "canopy.user") { StreamLogHandler.standardError(label: $0) }
      return try await Composition(
        folder: try creates ? folder.folder() : folder.existingFolder(), logger: logger
      ).use(body)
    }
  }

  struct Add: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      abstract: "Create an account.",
      discussion:
        "The command asks for the password on a terminal; otherwise it reads it from stdin.")
    @OptionGroup var folder: FolderOption
    @Argument(help: "The e-mail address.") var email: String
    @Argument(help: "The user name.") var username: String

    func run() async throws {
      let password = try Password.read()
      let (email, username) = (email, username)
      let uid = try await User.with(folder, creates: true) { parts in
        try await parts.accounts.createAccount(
          email: email, password: password, username: username
        ) { uid in
          try Texts.checkUsername(username)
          _ = try await parts.engine.transact {
            try Users.claim(username, for: Key(uid), in: &$0)
          }
        }.uid
      }
      try Output.line(uid)
    }
  }

  struct List: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      abstract: "List the accounts: uid, e-mail address, user name and state, separated by tabs.")
    @OptionGroup var folder: FolderOption

    func run() async throws {
      try await User.with(folder) { parts in
        var after: String?
        while true {
          let accounts = try await parts.accounts.accounts(after: after, limit: 1000)
          guard let last = accounts.last else { return }
          after = last.emailNormalized
          for account in accounts {
            let name = (try? Key(account.uid)).flatMap {
              Users.username(of: $0, in: parts.engine.root)
            }
            let state =
              account.isPending ? "pending" : account.isDisabled ? "disabled" : "active"
            try Output.line("\(account.uid)\t\(account.email)\t\(name ?? "-")\t\(state)")
          }
        }
      }
    }
  }

  struct Disable: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      abstract: "Disable an account and revoke its tokens.")
    @OptionGroup var folder: FolderOption
    @Argument(help: "The e-mail address or the uid.") var account: String

    func run() async throws {
      let selector = AccountSelector(account)
      try await User.with(folder) { try await $0.accounts.setDisabled(true, selector) }
    }
  }

  struct Enable: AsyncParsableCommand {
    static let configuration = CommandConfiguration(abstract: "Enable a disabled account.")
    @OptionGroup var folder: FolderOption
    @Argument(help: "The e-mail address or the uid.") var account: String

    func run() async throws {
      let selector = AccountSelector(account)
      try await User.with(folder) { try await $0.accounts.setDisabled(false, selector) }
    }
  }

  struct SetPassword: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      abstract: "Set the password of an account and revoke its tokens.",
      discussion:
        "The command asks for the password on a terminal; otherwise it reads it from stdin.")
    @OptionGroup var folder: FolderOption
    @Argument(help: "The e-mail address or the uid.") var account: String

    func run() async throws {
      let password = try Password.read()
      let selector = AccountSelector(account)
      try await User.with(folder) { try await $0.accounts.setPassword(password, selector) }
    }
  }
}

extension AccountSelector {
  fileprivate init(_ text: String) {
    self = text.utf8.contains(UInt8(ascii: "@")) ? .email(text) : .uid(text)
  }
}

/// The input of a password. A password is never an argument: other users of the machine could see it.
private enum Password {
  /// Asks on a terminal without echo, or reads the first line of stdin.
  static func read() throws -> String {
    guard isatty(0) == 1 else {
      guard let line = try readFirstLine() else {
        throw Failure("stdin has no password; write it on the first line")
      }
      return line
    }
    try? FileHandle.standardError.write(contentsOf: Data("Password: ".utf8))
    var settings = termios()
    tcgetattr(0, &settings)
    let before = settings
    settings.c_lflag &= ~tcflag_t(ECHO)
    tcsetattr(0, TCSANOW, &settings)
    defer {
      var restored = before
      tcsetattr(0, TCSANOW, &restored)
      try? FileHandle.standardError.write(contentsOf: Data("\n".utf8))
    }
    guard let line = try readFirstLine() else { throw Failure("no password was typed") }
    return line
  }

  /// The most bytes that are read. A password may have fewer.
  private static let lineBytesMax = 64 * 1024

  /// Reads the first line of stdin without its end; nil if the input is empty.
  ///
  /// `readLine` would replace bytes that are not UTF-8, and with them the password.
  ///
  /// - Throws: `Failure` if the line is not UTF-8 or too long.
  private static func readFirstLine() throws -> String? {
    var bytes: [UInt8] = []
    var byte: UInt8 = 0
    var hasInput = false
    while Foundation.read(0, &byte, 1) == 1 {
      hasInput = true
      if byte == UInt8(ascii: "\n") { break }
      bytes.append(byte)
      guard bytes.count <= lineBytesMax else {
        throw Failure("the password is too long; write it on the first line")
      }
    }
    guard hasInput else { return nil }
    if bytes.last == UInt8(ascii: "\r") { bytes.removeLast() }
    let text = String(decoding: bytes, as: UTF8.self)
    guard text.utf8.elementsEqual(bytes) else {
      throw Failure("the password is not UTF-8; check the encoding of the terminal or of the file")
    }
    return text
  }
}
