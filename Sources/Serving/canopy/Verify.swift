import ArgumentParser
import CanopyAccounts
import CanopyBackup
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
    abstract: "Check that a data folder or a backup is undamaged and consistent.",
    discussion: """
      The command checks the database file, the checkpoint and the journal; the structure of the tree; \
      both copies of every post with its stars and comments; user names and accounts; the rules; the token of the \
      administrator; and the keys of identity tokens. Posts, names and accounts that do not fit together are only \
      reported if the rules are not the built-in ones, because such rules may allow that. It checks the other namespaces in the same way, without what \
      belongs to the blog or the whole server. It prints one line for each problem and changes nothing. A backup is compared with its checksums, and \
      then checked like a folder; it is unpacked into the temporary folder of the system, which TMPDIR names. The exit \
      code is 1 if there is a problem.
      """)

  @OptionGroup var folder: FolderOption
  @Option(help: "The namespace to check (all).") var namespace: NamespaceName?
  @Argument(help: "The file of a backup, in place of a data folder.") var file: String?

  func validate() throws {
    guard file == nil || folder.data == nil else {
      throw ValidationError("name a data folder or a backup, not both")
    }
  }

  func run() async throws {
    let problems: [FolderProblem] = try await Failure.explaining {
      if let file { return try await check(BackupFile(file)) }
      return try await Interruption.removingCopies {
        let folders = NamespaceFolders(try folder.existingFolder())
        return try await FolderCheck(folders, namespace).run { try Output.line($0) }
      }
    }
    for problem in problems { try Output.line(problem.text) }
    if problems.contains(where: {
      ![FolderProblem.Kind.foreignRules, .futureLogin].contains($0.kind)
    }) {
      throw ExitCode(1)
    }
  }

  /// Unpacks a backup, and returns the problems of the folder.
  private func check(_ backup: BackupFile) async throws -> [FolderProblem] {
    let folder =
      FileManager.default.temporaryDirectory.path
      + "/canopy-verify-\(String(Composition.random(), radix: 16))"
    return try await Interruption.removing([folder]) {
      guard mkdir(folder, 0o700) == 0 else {
        throw Failure(
          "\(folder) cannot be created: \(String(cString: strerror(errno))); name another place with TMPDIR"
        )
      }
      defer { try? FileManager.default.removeItem(atPath: folder) }
      let description: BackupDescription
      do throws(BackupError) {
        description = try backup.unpack(to: folder) {
          Output.progress("unpacked \(Output.megabytes($0)) of \(Output.megabytes($1))")
        }
      } catch {
        guard case .damaged(let problem) = error else { throw error }
        return [FolderProblem(text: problem, kind: .damage)]
      }
      Output.progress("", isDone: true)
      let time = Date(timeIntervalSince1970: Double(description.time) / 1_000)
      try Output.line("a backup of \(time.formatted(.iso8601)), made by \(description.program)")
      if let namespace, description.database(of: namespace) == nil {
        throw Failure("\(backup.path) has no namespace \(namespace); choose one that it has")
      }
      let check = FolderCheck(
        NamespaceFolders(folder), namespace, isOwnCopy: true, isOfBackup: true)
      do {
        return try await check.run { try Output.line($0) }
          .map { $0.naming(backup.path, for: folder) }
      } catch let error as StoreError {
        throw error.naming(backup.path, for: folder)
      }
    }
  }
}

extension StoreError {
  /// Returns the error with another name for a temporary folder, which is removed before a person reads the sentence.
  func naming(_ name: String, for folder: String) -> StoreError {
    switch self {
    case .damaged(let text): .damaged(text.replacing(folder, with: name))
    case .wrongTime(let text): .wrongTime(text.replacing(folder, with: name))
    default: self
    }
  }
}

/// A problem of a data folder.
struct FolderProblem {
  /// The kinds of problems.
  enum Kind {
    /// The folder is damaged, or a server would not start.
    case damage
    /// Posts, names or accounts do not fit together. A raw write of the administrator may have done that.
    case blog
    /// The same, where rules that are not the built-in ones may have allowed it.
    case foreignRules
    /// The latest login of a deleted account is in the future. A restore of the backup corrects that.
    case futureLogin
  }

  /// A sentence.
  var text: String
  var kind: Kind

  /// Returns the problem with another name for a temporary folder, which is removed before a person reads the sentence.
  func naming(_ name: String, for folder: String) -> FolderProblem {
    FolderProblem(text: text.replacing(folder, with: name), kind: kind)
  }
}

/// The check of a data folder that no server uses.
struct FolderCheck {
  private let folders: NamespaceFolders
  /// The only namespace to check; nil for all.
  private let namespace: NamespaceName?
  private let isOwnCopy: Bool
  private let isOfBackup: Bool

  /// - Parameters:
  ///   - isOwnCopy: whether the command has made the folder. Another one of an older version stays as it is.
  ///   - isOfBackup: whether the folder has the files of a backup, which a restore corrects.
  init(
    _ folders: NamespaceFolders, _ namespace: NamespaceName? = nil, isOwnCopy: Bool = false,
    isOfBackup: Bool = false
  ) {
    self.folders = folders
    self.namespace = namespace
    self.isOwnCopy = isOwnCopy
    self.isOfBackup = isOfBackup
  }

  /// Returns the problems of the folder.
  ///
  /// - Parameter report: receives a line for each namespace without problems.
  func run(_ report: (String) throws -> Void = { _ in }) async throws -> [FolderProblem] {
    let names = try namespace.map { [$0] } ?? ([.default] + folders.names())
    var problems: [FolderProblem] = []
    for name in names {
      if name == .default {
        problems += try await self.problems(
          in: try folders.existingPath(of: name), of: name, report)
      } else {
        problems += try await self.problems(of: name, report).map {
          FolderProblem(text: "namespace \(name): \($0.text)", kind: $0.kind)
        }
      }
    }
    guard namespace == nil else { return problems }
    do {
      for name in try folders.missingNames() {
        problems.append(
          FolderProblem(text: "namespace \(name): \(folders.loss(of: name))", kind: .damage))
      }
    } catch {
      problems.append(FolderProblem(text: Failure(error).description, kind: .damage))
    }
    return problems
  }

  /// Returns the problems of a namespace. One that cannot be read does not keep the command from checking the others.
  private func problems(
    of name: NamespaceName, _ report: (String) throws -> Void
  ) async throws -> [FolderProblem] {
    do {
      return try await problems(in: try folders.existingPath(of: name), of: name, report)
    } catch {
      if namespace != nil { throw error }
      return [FolderProblem(text: Failure(error).description, kind: .damage)]
    }
  }

  private func problems(
    in folder: String, of name: NamespaceName, _ report: (String) throws -> Void
  ) async throws -> [FolderProblem] {
    // A namespace gets its name when its folder has tables.
    let store = try SQLiteStore.reading(
      folder, isOwnCopy: isOwnCopy, hasBeenUsed: name != .default)
    let now = Composition.now()
    var damage = try await store.problems(at: isOfBackup ? nil : now)
    var others: [FolderProblem] = []
    var notes: [FolderProblem] = []
    if store.isTailDamaged {
      damage.append(
        "\(folder)/canopy.tail is damaged, so it cannot prove that the last commits are there; the next start writes it again"
      )
    }
    if damage.isEmpty {
      let (root, sequence) = try await store.tree()
      if let problem = root.brokenInvariant() { damage.append(problem) }
      let (rules, hasBuiltInRules) = try await rulesProblems(in: folder, of: name, store)
      damage += rules
      if name == .default {
        damage += await secretFileProblems(in: folder)
        let blog = SocialCheck.problems(in: root) + (try await accountProblems(store, root))
        others = blog.map {
          FolderProblem(text: $0, kind: hasBuiltInRules ? .blog : .foreignRules)
        }
      }
      if damage.isEmpty, others.isEmpty {
        let posts = root.at(try Path("posts")).childCount
        try report(
          name == .default
            ? "ok: up to commit \(sequence), \(posts) posts, nothing wrong"
            : "namespace \(name): ok: up to commit \(sequence), nothing wrong")
      }
    }
    if isOfBackup, damage.isEmpty, try await store.hasFutureLogin(at: now) {
      notes.append(
        FolderProblem(
          text:
            "note: the latest login of a deleted account is in the future, and canopy restore corrects that",
          kind: .futureLogin))
    }
    try store.close()
    return damage.map { FolderProblem(text: $0, kind: .damage) } + others + notes
  }

  /// Returns the problems of rules that prevent a server from opening a namespace, and whether the rules are the built-in
  /// ones of the blog.
  private func rulesProblems(
    in folder: String, of name: NamespaceName, _ store: SQLiteStore
  ) async throws -> ([String], hasBuiltInRules: Bool) {
    do {
      let rules = try RulesKeeper(folder: folder, initial: name == .default ? .blog : .locked)
      guard try await !rules.isLost(after: store.rulesRecord()) else {
        return ([RulesFile.loss(of: folder + "/" + RulesFile.name)], false)
      }
      return ([], rules.isAboutBlog)
    } catch let error as RulesError {
      return (error.problems.map(\.description), false)
    } catch let error as RulesFileError {
      return ([error.sentence], false)
    }
  }

  /// Returns the problems of the administrator's token and of the keys of identity tokens, with which a server does not
  /// start. A missing file is no problem: the server creates it.
  private func secretFileProblems(in folder: String) async -> [String] {
    var problems: [String] = []
    do { _ = try AdministratorToken.load(from: folder) } catch {
      problems.append(Failure(error).description)
    }
    // A link to a missing file exists, too.
    let path = folder + "/" + IdentityKeys.fileName
    guard (try? FileManager.default.attributesOfItem(atPath: path)) != nil else { return problems }
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
      for account in accounts where Self.lacksProfile(account, in: root) {
        problems.append("the account \(account.uid) has no profile in /users")
      }
    }
  }

  /// Whether an account must have a profile in the tree and has none.
  static func lacksProfile(_ account: Account, in root: Node) -> Bool {
    !account.isPending && !account.username.isEmpty
      && (try? Users.find(uid: account.uid, in: root)) == nil
  }
}
