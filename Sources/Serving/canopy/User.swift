import ArgumentParser
import CanopyAccounts
import CanopySQLite
import CanopyTree
import CanopyWire
import Foundation
import Logging

struct User: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Manage accounts in a data folder, also while a server runs.",
    discussion: """
      If a server uses the folder, the server carries out the command, and ends sessions and connections at once. \
      ACCOUNT is an e-mail address, a user name as @name, or a uid.
      """,
    subcommands: [
      Add.self, List.self, Disable.self, Enable.self, SetPassword.self, ResetCode.self,
      EndSessions.self, ExportData.self, Delete.self,
    ])

  /// Carries out an operation in a folder, or has the server that uses the folder carry it out.
  ///
  /// - Parameters:
  ///   - creates: whether to create a missing folder.
  ///   - inFolder: the operation on the open folder.
  ///   - onServer: the same by requests to the server, as its administrator.
  static func perform<R: Sendable>(
    _ option: FolderOption, creates: Bool = false,
    inFolder: @escaping @Sendable (UserFolder) async throws -> R,
    onServer: @Sendable (inout AdministratorConnection) async throws -> R
  ) async throws -> R {
    try await Failure.explaining {
      let folder = try option.folder()
      // The folder of a node has no data: they are in PostgreSQL.
      if access(folder + "/" + NodeFolder.nameFile, F_OK) == 0 {
        return try await AdministratorConnection.logIn(to: folder, onServer)
      }
      if !creates { _ = try option.existingFolder() }
      let logger = Logger(label: "canopy.user") { StreamLogHandler.standardError(label: $0) }
      return try await FolderUse.choose(folder) {
        let parts = try await Composition(folder: folder, logger: logger)
        return try await parts.use { try await inFolder(UserFolder(folder: folder, parts: $0)) }
      } onServer: {
        try await AdministratorConnection.logIn(to: folder, onServer)
      }
    }
  }

  /// The arguments of a command about one account.
  struct Target: ParsableArguments {
    @OptionGroup var folder: FolderOption
    @Argument(help: "The e-mail address, the user name as @name, or the uid.") var account: String
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
      let uid = try await User.perform(folder, creates: true) { folder in
        try await folder.add(email: email, password: password, username: username)
      } onServer: { connection in
        let reply = try await connection.success(
          "ADDUSER \(Line.quoted(email)) \(Line.quoted(password)) \(Line.quoted(username))")
        return try reply.requiredText("uid")
      }
      try Output.line(uid)
    }
  }

  struct List: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      abstract: "List the accounts: uid, e-mail address, user name and state, separated by tabs.")
    @OptionGroup var folder: FolderOption

    func run() async throws {
      try await User.perform(folder) { folder in
        try await folder.list { try Output.line($0) }
      } onServer: { connection in
        var options = ""
        while true {
          let page = try await connection.success("USERS {\"limit\":100\(options)}")
          for user in page["users"]?.elements ?? [] {
            try Output.line(
              UserFolder.line(
                uid: try user.requiredText("uid"), email: try user.requiredText("email"),
                username: try user.requiredText("username"),
                isPending: user["pending"] == .leaf(true),
                isDisabled: user["disabled"] == .leaf(true)))
          }
          guard let after = page["after"]?.string else { return }
          options = ",\"after\":\(Line.quoted(after))"
        }
      }
    }
  }

  struct Disable: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      abstract: "Disable an account and revoke its tokens.")
    @OptionGroup var target: Target

    func run() async throws {
      try await User.change(target, "DISABLE") {
        try await $0.parts.accounts.setDisabled(true, $1)
      }
    }
  }

  struct Enable: AsyncParsableCommand {
    static let configuration = CommandConfiguration(abstract: "Enable a disabled account.")
    @OptionGroup var target: Target

    func run() async throws {
      try await User.change(target, "ENABLE") {
        try await $0.parts.accounts.setDisabled(false, $1)
      }
    }
  }

  struct EndSessions: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      abstract: "Revoke all tokens of an account, so that its user must log in again.")
    @OptionGroup var target: Target

    func run() async throws {
      try await User.change(target, "ENDSESSIONS") { try await $0.endSessions($1) }
    }
  }

  struct SetPassword: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      abstract: "Set the password of an account and revoke its tokens.",
      discussion:
        "The command asks for the password on a terminal; otherwise it reads it from stdin.")
    @OptionGroup var target: Target

    func run() async throws {
      let password = try Password.read()
      try await User.change(target, "SETPASSWORD", " " + Line.quoted(password)) {
        try await $0.parts.accounts.setPassword(password, $1)
      }
    }
  }

  struct ResetCode: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      abstract: "Print a code with which the user of an account sets a new password.",
      discussion: """
        The code works once, and for an hour: with RESET, or with the request resetPassword over HTTP. It lets anyone \
        set the password, so give it to the user only.
        """)
    @OptionGroup var target: Target

    func run() async throws {
      let account = target.account
      let code = try await User.perform(target.folder) { folder in
        try await folder.makeResetCode(of: try folder.selector(account))
      } onServer: { connection in
        try await connection.success("RESETCODE \(Line.quoted(account))").requiredText("code")
      }
      try Output.line(code)
    }
  }

  struct ExportData: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      commandName: "export",
      abstract: "Print the account, posts, comments and stars of a user, as JSON.",
      discussion: """
        Each line is an object, as in the replies to EXPORT. The first one has the account with its sessions, and all of them \
        together have the posts, the comments, and the ids of the posts with the user's star.
        """)
    @OptionGroup var target: Target

    func run() async throws {
      let account = target.account
      try await User.perform(target.folder) { folder in
        try await folder.export(account) { try Output.bytes($0) }
      } onServer: { connection in
        var options = "\"limit\":\(ExportPage.limitMax)"
        while true {
          let text = try await connection.reply("EXPORT \(Line.quoted(account)) {\(options)}")
          try Output.bytes(Data((text + "\n").utf8))
          guard let after = try JSONValue(json: text, limits: .none)["after"]?.string else {
            return
          }
          options = "\"limit\":\(ExportPage.limitMax),\"after\":\(Line.quoted(after))"
        }
      }
    }
  }

  struct Delete: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      abstract: "Delete an account and revoke its tokens.",
      discussion: """
        Without --posts everything that the user has added to the blog stays, and so does the user name, so that no \
        other user can take it. A running server removes it in steps after the command has ended, and after a restart.
        """)
    @OptionGroup var target: Target
    @Flag(help: "Also remove the posts, comments, stars, profile and user name.") var posts = false

    func run() async throws {
      let (account, posts) = (target.account, posts)
      let uid = try await User.perform(target.folder) { folder in
        try await folder.delete(account, withPosts: posts)
      } onServer: { connection in
        try await connection.success(
          "DELETEUSER \(Line.quoted(account)) {\"posts\":\(posts)}"
        ).requiredText("uid")
      }
      try Output.line(uid)
    }
  }
}
