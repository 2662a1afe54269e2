import ArgumentParser
import CanopyAccounts
import CanopyRules
import CanopySession
import CanopySocial
import CanopySQLite
import CanopyTree
import Foundation

struct Verify: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Check that a data folder is undamaged and consistent.",
    discussion: """
      The command checks the database file, the checkpoint and the journal; the structure of the tree; \
      both copies of every post with its stars and comments; user names and accounts; and the rules. It \
      prints one line for each problem and changes nothing. The exit code is 1 if there is a problem.
      """)

  @OptionGroup var folder: FolderOption

  func run() async throws {
    let problems = try await Failure.explaining {
      let store = try SQLiteStore.reading(try folder.existingFolder())
      var problems = try await store.problems()
      if problems.isEmpty {
        let (root, sequence) = try await store.tree()
        if let problem = root.brokenInvariant() { problems.append(problem) }
        problems += try rulesProblems()
        problems += SocialCheck.problems(in: root)
        problems += try await accountProblems(store, root)
        if problems.isEmpty {
          let posts = root.at(try Path("posts")).childCount
          try Output.line("ok: \(sequence) commits, \(posts) posts, nothing wrong")
        }
      }
      try store.close()
      return problems
    }
    for problem in problems { try Output.line(problem) }
    if !problems.isEmpty { throw ExitCode(1) }
  }

  /// Returns the problems of rules that prevent a server from starting.
  private func rulesProblems() throws -> [String] {
    let folder = try folder.folder()
    do { _ = try RulesKeeper(folder: folder) } catch let error as RulesError {
      return error.problems.map(\.description)
    }
    return []
  }

  /// Returns the accounts without a profile, except those with an unfinished sign-up or without a user name. A profile without an account
  /// is allowed: imported data has such profiles.
  private func accountProblems(_ store: SQLiteStore, _ root: Node) async throws -> [String] {
    var problems: [String] = []
    var after: String?
    while true {
      let accounts = try await store.accounts(after: after, limit: 1000)
      guard let last = accounts.last else { return problems }
      after = last.emailNormalized
      for account in accounts where !account.isPending && !account.username.isEmpty {
        if (try? Users.find(uid: account.uid, in: root)) == nil {
          problems.append("the account \(account.uid) has no profile in /users")
        }
      }
    }
  }
}
