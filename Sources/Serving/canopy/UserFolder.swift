import CanopyAccounts
import CanopyEngine
import CanopySession
import CanopySocial
import CanopyTree
import CanopyWire

/// The operations of `canopy user` on a data folder that no server is using.
struct UserFolder: Sendable {
  let folder: String
  let parts: Composition

  /// Returns the account that an argument names.
  ///
  /// - Throws: `SocialError.notFound` for an unknown user name.
  func selector(_ text: String) throws -> AccountSelector {
    if text.hasBytePrefix("@") {
      let name = text.droppingBytes(1)
      return .uid(try Users.find(username: name, in: parts.engine.root).text)
    }
    return text.utf8.contains(UInt8(ascii: "@")) ? .email(text) : .uid(text)
  }

  /// Creates an account with a profile, and returns its uid.
  func add(email: String, password: String, username: String) async throws -> String {
    try await parts.accounts.createAccount(
      email: email, password: password, username: username
    ) { [engine = parts.engine] uid in
      try Texts.checkUsername(username)
      _ = try await engine.transact { try Users.claim(username, for: Key(uid), in: &$0) }
    }.uid
  }

  /// Calls `body` with the line of each account.
  func list(_ body: (String) throws -> Void) async throws {
    var after: String?
    while true {
      let accounts = try await parts.accounts.accounts(after: after, limit: 1000)
      guard let last = accounts.last else { return }
      after = last.emailNormalized
      for account in accounts {
        let name = (try? Key(account.uid)).flatMap {
          Users.username(of: $0, in: parts.engine.root)
        }
        try body(
          UserFolder.line(
            uid: account.uid, email: account.email, username: name ?? "",
            isPending: account.isPending, isDisabled: account.isDisabled))
      }
    }
  }

  /// Returns the line of an account in a list.
  static func line(
    uid: String, email: String, username: String, isPending: Bool, isDisabled: Bool
  ) -> String {
    let state = isPending ? "pending" : isDisabled ? "disabled" : "active"
    return "\(uid)\t\(email)\t\(username.isEmpty ? "-" : username)\t\(state)"
  }

  /// Ends all sessions of an account.
  func endSessions(_ selector: AccountSelector) async throws {
    var changes = AccountChanges()
    changes.endsLogins = true
    _ = try await parts.accounts.update(
      parts.accounts.account(selector).uid, changes, from: nil)
  }

  /// Returns a code with which the user sets a new password.
  func makeResetCode(of selector: AccountSelector) async throws -> String {
    let account = try await parts.accounts.account(selector)
    guard !account.isDisabled else { throw AccountError.disabled }
    guard !account.email.isEmpty else {
      throw Failure(
        "the account has no e-mail address, so that its user cannot log in with a password")
    }
    let code = try await parts.accounts.issueCode(
      for: account.email, .resetPassword, from: nil, isBounded: false)
    guard let code else { throw AccountError.notFound }
    return code.text
  }

  /// Calls `put` with the bytes of the pages of a `UserExport`, a line each.
  func export(_ text: String, _ put: (UnsafeRawBufferPointer) throws -> Void) async throws {
    let uid = try Key(try await parts.accounts.account(try selector(text)).uid)
    let root = parts.engine.root
    var page = ExportPage()
    page.limit = ExportPage.limitMax
    repeat {
      let export = try await UserExport(
        page, of: uid, accounts: parts.accounts,
        username: { Users.username(of: uid, in: root) },
        contributions: { Contributions(of: uid, from: $0, limit: page.limit, in: root) })
      try withoutActuallyEscaping(put) { put in
        var output = JSONOutput { try put($0) }
        export.json.append(to: &output)
        output.append(UInt8(ascii: "\n"))
        try output.finish()
      }
      page.after = export.after
    } while page.after != nil
  }

  /// Deletes an account, and on request everything that its user has added to the blog. Returns the uid.
  ///
  /// After a crash the next server continues the removal.
  func delete(_ text: String, withPosts: Bool) async throws -> String {
    let selector = try selector(text)
    guard withPosts else {
      let uid = try await parts.accounts.account(selector).uid
      try await parts.accounts.deleteAccount(uid: uid)
      return uid
    }
    guard try RulesKeeper(folder: folder).isAboutBlog else {
      throw Failure(
        "posts are removed only while the built-in rules are in force; delete the account alone, and remove the data "
          + "by hand")
    }
    let uid = try await uidOfUser(selector)
    let engine = parts.engine
    _ = try await engine.transact { try Erasure.begin(of: uid, in: &$0) }
    var turns = UnfinishedWork.Turns()
    while let turn = turns.next(in: engine.root) {
      switch turn {
      case .step(let mark):
        for uid in mark.accountsToDelete {
          do { try await parts.accounts.deleteAccount(uid: uid.text) } catch AccountError.notFound {
          }
        }
        _ = try await engine.transact {
          try UnfinishedWork.step(of: mark, in: &$0, withoutAccounts: mark.accountsToDelete)
        }
      case .look(var search):
        search.look(in: engine.root)
        turns.note(search)
      case .write(var search):
        _ = try await engine.transact { [search] in try search.write(in: &$0) }
        search.noteWritten()
        turns.note(search)
      }
    }
    return uid.text
  }

  /// Returns the user of an account, or of a profile that is left of one.
  private func uidOfUser(_ selector: AccountSelector) async throws -> Key {
    do {
      return try Key(try await parts.accounts.account(selector).uid)
    } catch AccountError.notFound {
      guard case .uid(let uid) = selector else { throw AccountError.notFound }
      return try Users.find(uid: uid, in: parts.engine.root)
    }
  }
}

extension User {
  /// Changes an account in a folder, or by a request to the server that uses the folder.
  ///
  /// - Parameters:
  ///   - verb: the verb of the request.
  ///   - arguments: its arguments after the account, as part of the line.
  ///   - inFolder: the change in the folder.
  static func change(
    _ target: Target, _ verb: String, _ arguments: String = "",
    inFolder: @escaping @Sendable (UserFolder, AccountSelector) async throws -> Void
  ) async throws {
    let account = target.account
    try await perform(target.folder) { folder in
      try await inFolder(folder, try folder.selector(account))
    } onServer: { connection in
      _ = try await connection.success("\(verb) \(Line.quoted(account))\(arguments)")
    }
  }
}

extension JSONValue {
  /// Returns a text of a reply.
  ///
  /// - Throws: `Failure` if the reply has no such member.
  func requiredText(_ name: String) throws -> String {
    guard let text = self[name]?.string else {
      throw Failure("the server has answered without \(name); run canopy of the server's version")
    }
    return text
  }
}
