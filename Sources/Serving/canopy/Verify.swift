import ArgumentParser
import CanopyAccounts
import CanopyEngine
import CanopyIdentity
import CanopyRules
import CanopySession
import CanopySocial
import CanopySQLite
import CanopyTree
import CanopyWire
import Foundation

struct Verify: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Check that a data folder is undamaged and consistent.",
    discussion: """
      The command checks the database file, the checkpoint and the journal; the structure of the tree; \
      both copies of every post with its stars and comments; user names and accounts; the rules; the token of the \
      administrator; and the keys of identity tokens. It checks the other namespaces in the same way, without what \
      belongs to the blog or the whole server. It prints one line for each problem and changes nothing. The exit code is 1 if there is a problem.
      """)

  @OptionGroup var folder: FolderOption
  @Option(help: "The namespace to check (all).") var namespace: NamespaceName?

  func run() async throws {
    let problems = try await Failure.explaining {
      let folders = NamespaceFolders(try folder.existingFolder())
      let names = try namespace.map { [$0] } ?? ([.default] + folders.names())
      var problems: [String] = []
      for name in names {
        if name == .default {
          problems += try await self.problems(in: try folders.existingPath(of: name), of: name)
        } else {
          problems += try await self.problems(in: folders, of: name).map {
            "namespace \(name): " + $0
          }
        }
      }
      return problems
    }
    for problem in problems { try Output.line(problem) }
    if !problems.isEmpty { throw ExitCode(1) }
  }

  /// Returns the problems of a namespace. One that cannot be read does not keep the command from checking the others.
  private func problems(
    in folders: NamespaceFolders, of name: NamespaceName
  ) async throws -> [String] {
    do { return try await problems(in: try folders.existingPath(of: name), of: name) } catch {
      if namespace != nil { throw error }
      return [Failure(error).description]
    }
  }

  private func problems(in folder: String, of name: NamespaceName) async throws -> [String] {
    let store = try SQLiteStore.reading(folder)
    var problems = try await store.problems()
    if problems.isEmpty {
      let (root, sequence) = try await store.tree()
      if let problem = root.brokenInvariant() { problems.append(problem) }
      problems += try rulesProblems(in: folder)
      if name == .default {
        problems += await secretFileProblems(in: folder)
        problems += SocialCheck.problems(in: root)
        problems += try await accountProblems(store, root)
      }
      if problems.isEmpty {
        let posts = root.at(try Path("posts")).childCount
        try Output.line(
          name == .default
            ? "ok: \(sequence) commits, \(posts) posts, nothing wrong"
            : "namespace \(name): ok: \(sequence) commits, nothing wrong")
      }
    }
    try store.close()
    return problems
  }

  /// Returns the problems of rules that prevent a server from opening a namespace.
  private func rulesProblems(in folder: String) throws -> [String] {
    do { _ = try RulesKeeper(folder: folder, initial: .locked) } catch let error as RulesError {
      return error.problems.map(\.description)
    }
    return []
  }

  /// Returns the problems of the administrator's token and of the keys of identity tokens, with which a server does not
  /// start. A missing file is no problem: the server creates it.
  private func secretFileProblems(in folder: String) async -> [String] {
    var problems: [String] = []
    do { _ = try AdministratorToken.load(from: folder) } catch {
      problems.append(Failure(error).description)
    }
    var status = stat()
    guard lstat(folder + "/" + IdentityKeys.fileName, &status) == 0 else { return problems }
    // The file exists, so this creates none.
    do {
      _ = try await IdentityKeys.loadOrCreate(in: folder, environment: Composition.environment)
    } catch { problems.append(Failure(error).description) }
    return problems
  }

  /// Returns the accounts without a profile, except those with an unfinished sign-up or without a user name. A profile
  /// without an account is allowed: imported data has such profiles.
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
