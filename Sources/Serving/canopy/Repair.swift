import ArgumentParser
import CanopyAccounts
import CanopyBackup
import CanopyEngine
import CanopyIdentity
import CanopyRules
import CanopySession
import CanopySQLite
import CanopySystem
import CanopyTree
import CanopyWire
import Foundation

struct Repair: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Salvage the undamaged data of a folder into a new folder.",
    discussion: """
      Restore a backup if there is one: it has everything up to its time. The command copies the folder, removes the \
      damaged rows from the copy, and keeps the others and the commits up to the first one that is damaged or missing. \
      It prints one line for each loss, and the times of the newest commit that is kept and of the newest one that was \
      stored. Rules that cannot be read, and lost ones, become rules that allow nothing. Secrets that cannot be read are left out; the \
      next start makes new ones, and all logins end. The old folder stays as it is. Stop its server first. The exit code \
      is 1 if the new folder still has a problem with which a server may not start.
      """)

  @OptionGroup var folder: FolderOption
  @Option(help: "The new folder. It must be empty or not exist.") var to: String
  @Flag(
    help: ArgumentHelp(
      "Let keys continue at the present time, because the clock of the server was ahead once.",
      discussion:
        "Without it, new keys go on after the latest one, and clients cannot push until its time."))
  var clockWasAhead = false

  func run() async throws {
    let problems: [FolderProblem] = try await Failure.explaining {
      let folders = NamespaceFolders(try folder.existingFolder())
      let new = NewFolder(try Setting.path(to))
      try new.checkIsFree()
      try folders.checkIsOutside(new.path)
      let work = new.workPath(
        for: "repairing", number: Int(ProcessInfo.processInfo.processIdentifier))
      return try await Interruption.removing([work]) {
        guard mkdir(work, 0o700) == 0 else {
          throw Failure("\(work) cannot be created: \(String(cString: strerror(errno)))")
        }
        defer { try? FileManager.default.removeItem(atPath: work) }
        var lines: [String] = []
        for name in try [.default] + folders.names() {
          lines += try await repair(name, from: folders, to: NamespaceFolders(work))
        }
        do {
          for name in try folders.missingNames() {
            lines.append("namespace \(name): lost as a whole: its folder is missing")
          }
        } catch {
          lines.append(Failure(error).description)
        }
        lines += try await repairSecrets(from: folders, to: work)
        let problems = try await FolderCheck(NamespaceFolders(work), isOwnCopy: true).run()
          .map { $0.naming(new.path, for: work) }
        try new.fill(from: work, willName: Interruption.complete)
        for line in lines { try Output.line(line.replacing(work, with: new.path)) }
        for problem in problems { try Output.line("a problem remains: \(problem.text)") }
        try Output.line("\(new.path) has the data that is whole")
        return problems
      }
    }
    // A server would not start with the new folder, or would serve damaged data.
    if problems.contains(where: { $0.kind == .damage }) { throw ExitCode(1) }
  }

  /// Copies a namespace and removes its damaged rows. Returns the lines of the report.
  ///
  /// - Throws: the error of the default namespace, or `Failure` for an error of another one that does not mean damage,
  ///   such as that of a full disk. Another namespace whose damage cannot be repaired is left out.
  private func repair(
    _ name: NamespaceName, from folders: NamespaceFolders, to new: NamespaceFolders
  ) async throws -> [String] {
    let (source, copy) = (folders.path(of: name), new.path(of: name))
    do {
      // Not the folder of the whole, which a signal may just have removed.
      let above = URL(fileURLWithPath: copy).deletingLastPathComponent().path
      for folder in name == .default ? [] : [above, copy] {
        guard mkdir(folder, 0o700) == 0 || errno == EEXIST else {
          throw Failure("\(folder) cannot be created: \(String(cString: strerror(errno)))")
        }
      }
      try SQLiteStore.copyFiles(of: source, to: copy)
      let (lost, record) = try await removeDamage(
        in: copy, hasBeenUsed: name != .default || Self.hasSecrets(source))
      let lines =
        try lost
        + repairRules(
          from: source, to: copy, initial: name == .default ? .blog : .locked, after: record)
      return lines.map { "namespace \(name): \($0)" }
    } catch {
      let error = (error as? StoreError)?.naming(source, for: copy) ?? error
      guard name != .default else { throw error }
      guard case StoreError.damaged(let sentence) = error else {
        throw Failure("the namespace \(name) cannot be repaired: \(Failure(error).description)")
      }
      try FileManager.default.removeItem(atPath: copy)
      return ["namespace \(name): lost as a whole: \(StoreError.withoutAdvice(sentence))"]
    }
  }

  /// Whether a folder has a file that a server makes after the tables.
  private static func hasSecrets(_ folder: String) -> Bool {
    SmallFiles.secrets.contains { FileManager.default.fileExists(atPath: "\(folder)/\($0)") }
  }

  /// Removes the damaged rows of a database. Returns the lines of the report, and the record of the rules.
  ///
  /// - Parameter hasBeenUsed: whether the folder has had tables.
  private func removeDamage(
    in folder: String, hasBeenUsed: Bool
  ) async throws -> ([String], RulesRecord?) {
    var configuration = SQLiteStore.Configuration()
    configuration.acceptsLoss = true
    configuration.keepsFormerFiles = false
    configuration.createsFolder = false
    configuration.hasBeenUsed = hasBeenUsed
    let (losses, store) = try await SQLiteStore(folder: folder, configuration: configuration)
      .acceptLossesAndReopen(at: Composition.now())
    let record: RulesRecord?
    var latest: Int64?
    do {
      // As a server does at its start.
      _ = try await store.load(keeping: IndexPlan())
      record = try await store.rulesRecord()
      if clockWasAhead { latest = try await store.lowerKeyTime(to: Composition.now()) }
    } catch {
      try? store.close()
      throw error
    }
    try store.close()
    func text(_ time: Int64?) -> String {
      time.map { Date(timeIntervalSince1970: Double($0) / 1_000).formatted(.iso8601) }
        ?? "an unknown time"
    }
    let keyLines =
      latest.map {
        ["keys continue at the present time; the latest one is of \(text($0))"]
      } ?? []
    if losses.notes.isEmpty {
      let line =
        losses.isEndProven
        ? "all commits are kept"
        : "nothing else is damaged, but without an intact canopy.tail a loss of the last commits is not noticed"
      return ([line] + keyLines, record)
    }
    let kept =
      losses.keptTime == nil
      ? "no commit is kept beside the values of the checkpoint"
      : "the newest commit that is kept is of \(text(losses.keptTime))"
    let times = "\(kept); the newest that was stored is of \(text(losses.storedTime))"
    return (losses.notes.map { "lost: \($0)" } + [times] + keyLines, record)
  }

  /// Copies the rules of a namespace. Returns the lines of the report.
  private func repairRules(
    from source: String, to copy: String, initial: InitialRules, after record: RulesRecord?
  ) throws -> [String] {
    let (path, new) = (source + "/" + RulesKeeper.fileName, copy + "/" + RulesKeeper.fileName)
    guard access(path, R_OK) == 0 || errno != EACCES else {
      throw Failure("\(path) cannot be read: \(String(cString: strerror(EACCES)))")
    }
    guard !SmallFiles.isBrokenLink(path) else {
      throw Failure(
        "\(path) is a symbolic link to a missing file: put the file back, or remove the link")
    }
    let problem: String
    do {
      if try RulesKeeper(folder: source, initial: initial).isLost(after: record) {
        problem = "whose file is missing"
      } else {
        guard FileManager.default.fileExists(atPath: path) else { return [] }
        // The file may be a link, which would lead nowhere from the new folder.
        try Self.write(Data(contentsOf: URL(fileURLWithPath: path)), to: new)
        return []
      }
    } catch let error where error is RulesError || error is RulesFileError {
      problem = "which cannot be read"
    }
    try Self.write(Data(RulesFile.bytes(of: InitialRules.locked.text)), to: new)
    return ["lost: the rules, \(problem); the new ones allow nothing"]
  }

  /// Copies the token of the administrator and the keys of identity tokens. Returns the lines of the report.
  private func repairSecrets(
    from folders: NamespaceFolders, to copy: String
  ) async throws -> [String] {
    let folder = folders.path(of: .default)
    var lines: [String] = []
    for name in SmallFiles.secrets {
      do {
        guard
          let secret = try PrivateFile.read(
            folder + "/" + name, bytesMax: SmallFiles.secretBytesMax)
        else { continue }
        try Self.write(Data(secret), to: copy + "/" + name)
      } catch let problem as PrivateFileProblem {
        if case .system(_, let reason) = problem {
          throw Failure("\(folder)/\(name) cannot be read: \(reason)")
        }
        lines.append(SmallFiles.lossOfSecret(name))
      }
    }
    return lines + (await SmallFiles.removeDamagedSecrets(in: copy))
  }

  private static func write(_ contents: Data, to path: String) throws {
    do throws(FileError) { try AtomicFile.replace(path, with: Array(contents)) } catch {
      throw Failure("\(path) cannot be written: \(ExportFile.reason(error.code))")
    }
  }
}
