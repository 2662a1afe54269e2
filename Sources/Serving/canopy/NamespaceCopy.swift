import CanopyAccounts
import CanopyEngine
import CanopyTree
import Foundation

/// The copy of one namespace from a store to an empty one.
struct NamespaceCopy {
  /// The numbers that the original and the copy must have in common.
  struct Contents: Equatable {
    var sequence: Int64 = 0
    var hash = ""
    var clientWrites = 0
    var accounts = 0
    var tokens = 0
    var codes = 0
    var deletedAccounts = 0
    var disconnectWrites = 0

    /// A line for the person who runs the command.
    var summary: String {
      "\(sequence) commits, \(accounts) accounts, \(tokens) logins, \(disconnectWrites) on-disconnect writes, "
        + "node hash \(hash)"
    }
  }

  /// The rows of a page.
  private static let page = 500

  let name: String
  let source: any ServerStore

  /// Copies everything.
  ///
  /// - Parameter rules: the rules of the copy; nil for those of the journal.
  /// - Returns: the contents of the original.
  func run(to copy: any ServerStore, rules: JournaledRules?) async throws -> Contents {
    Output.progress("\(name): reading the tree")
    var state = try await source.load(keeping: IndexPlan())
    var contents = Contents()
    contents.sequence = state.sequence
    contents.hash = state.tree.root.hash
    contents.clientWrites = state.clientWrites.count
    if let rules { state.rules = rules }
    Output.progress("\(name): writing the tree")
    try await copy.begin(with: state)
    try await copyAccounts(to: copy, &contents)
    try await copyDisconnectWrites(to: copy, &contents)
    return contents
  }

  private func copyAccounts(to copy: any ServerStore, _ contents: inout Contents) async throws {
    var after: String?
    while true {
      let accounts = try await source.accounts(after: after, limit: Self.page)
      guard let last = accounts.last else { break }
      after = last.emailNormalized
      for account in accounts {
        let tokens = try await source.tokens(uid: account.uid, limit: .max)
        guard try await copy.insert(account, token: tokens.first) else {
          throw Failure("the account \(account.uid) cannot be copied; nothing was changed")
        }
        for token in tokens.dropFirst() {
          guard try await copy.insertToken(token, ifPasswordHash: account.passwordHash) else {
            throw Failure(
              "a login of the account \(account.uid) cannot be copied; end its sessions, and try again"
            )
          }
        }
        let codes = try await source.codes(uid: account.uid)
        for code in codes {
          _ = try await copy.insertCode(code, countMax: .max, keepingEnds: .min ... .max)
        }
        contents.accounts += 1
        contents.tokens += tokens.count
        contents.codes += codes.count
      }
      Output.progress("\(name): \(contents.accounts) accounts")
    }
    // The time of the latest login is copied even if there are no deleted accounts.
    try await copy.insertDeleted([], latestLogin: try await source.latestDeletedLogin())
    try await forEachPageOfDeletedAccounts(in: source) { page in
      try await copy.insertDeleted(page, latestLogin: nil)
      contents.deletedAccounts += page.count
    }
  }

  private func forEachPageOfDeletedAccounts(
    in store: any ServerStore, _ body: ([DeletedAccount]) async throws -> Void
  ) async throws {
    var after: String?
    while true {
      let accounts = try await store.deletedAccounts(after: after, limit: Self.page)
      guard let last = accounts.last else { return }
      try await body(accounts)
      after = last.uid
    }
  }

  private func copyDisconnectWrites(
    to copy: any ServerStore, _ contents: inout Contents
  ) async throws {
    var group: DisconnectWriteID = .min
    while true {
      let writes = try await source.disconnectWrites(
        after: group, countMax: Self.page, bytesMax: 1024 * 1024)
      guard let last = writes.last else { return }
      group = last.group
      var groups: [DisconnectWriteID: DisconnectWriteID] = [:]
      for write in writes {
        let id = try await copy.changeDisconnectWrites(
          adding: (write.identity, write.request), to: groups[write.group], exceptions: [:],
          removing: [])
        guard let id else { throw Failure("an on-disconnect write cannot be copied") }
        groups[write.group] = groups[write.group] ?? id
        if !write.exceptions.isEmpty {
          try await copy.changeDisconnectWrites(
            adding: nil, exceptions: [id: write.exceptions], removing: [])
        }
        contents.disconnectWrites += 1
      }
    }
  }

  /// Reads a copy, and compares it with the original.
  ///
  /// - Throws: `Failure` with the first difference.
  func check(_ copy: any ServerStore, _ expected: Contents, rules: JournaledRules?) async throws {
    Output.progress("\(name): checking the copy")
    let state = try await copy.load(keeping: IndexPlan())
    var found = Contents()
    found.sequence = state.sequence
    found.hash = state.tree.root.hash
    found.clientWrites = state.clientWrites.count
    var after: String?
    while let last = try await count(copy, after: after, &found) { after = last }
    try await forEachPageOfDeletedAccounts(in: copy) { found.deletedAccounts += $0.count }
    found.disconnectWrites = try await copy.disconnectWriteIDs().count
    guard found == expected else {
      throw Failure(
        "the copy of the namespace \(name) is not like the original (\(found.summary) instead of \(expected.summary)); "
          + "nothing was changed")
    }
    guard try await copy.latestDeletedLogin() == source.latestDeletedLogin() else {
      throw Failure("the copy of the deleted accounts is not like the original")
    }
  }

  private func count(
    _ copy: any ServerStore, after: String?, _ contents: inout Contents
  ) async throws -> String? {
    let accounts = try await copy.accounts(after: after, limit: Self.page)
    for account in accounts {
      guard try await source.account(uid: account.uid) == account else {
        throw Failure("the copy of the account \(account.uid) is not like the original")
      }
      contents.accounts += 1
      contents.tokens += try await copy.tokens(uid: account.uid, limit: .max).count
      contents.codes += try await copy.codes(uid: account.uid).count
    }
    return accounts.last?.emailNormalized
  }
}
