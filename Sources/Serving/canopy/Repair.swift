import ArgumentParser
import CanopyAccounts
import CanopyBackup
import CanopyIdentity
import CanopyRules
import CanopySession
import CanopySQLite
import CanopyWire
import Foundation

struct Repair: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Salvage the undamaged data of a folder into a new folder.",
    discussion: """
      Restore a backup if there is one: it has everything up to its time. The command copies the folder, removes the \
      damaged rows from the copy, and keeps the others and the commits up to the first one that is damaged or missing. \
      It prints one line for each loss, and the times of the newest commit that is kept and of the newest one that was \
      stored. Rules that cannot be read become rules that allow nothing. Secrets that cannot be read are left out; the \
      next start makes new ones, and all logins end. The old folder stays as it is. Stop its server first.
      """)

  @OptionGroup var folder: FolderOption
  @Option(help: "The new folder. It must be empty or not exist.") var to: String

  func run() async throws {
    try await Failure.explaining {
      let folders = NamespaceFolders(try folder.existingFolder())
      let new = NewFolder(to)
      try new.checkIsFree()
      let work = "\(new.path).repairing-\(ProcessInfo.processInfo.processIdentifier)"
      guard mkdir(work, 0o700) == 0 else {
        throw Failure("\(work) cannot be created: \(String(cString: strerror(errno)))")
      }
      defer { try? FileManager.default.removeItem(atPath: work) }
      try await Interruption.removing([work]) {
        var lines: [String] = []
        for name in try [.default] + folders.names() {
          lines += try await repair(name, from: folders, to: NamespaceFolders(work))
        }
        lines += try await repairSecrets(from: folders, to: work)
        let problems = try await FolderCheck(NamespaceFolders(work)).run()
        try new.replace(by: work)
        for line in lines { try Output.line(line) }
        for problem in problems { try Output.line("a problem remains: \(problem.text)") }
        try Output.line("\(new.path) has the data that is whole")
      }
    }
  }

  /// Copies a namespace and removes its damaged rows. Returns the lines of the report.
  ///
  /// - Throws: the error of the default namespace. Another one that cannot be repaired is left out.
  private func repair(
    _ name: NamespaceName, from folders: NamespaceFolders, to new: NamespaceFolders
  ) async throws -> [String] {
    let (source, copy) = (folders.path(of: name), new.path(of: name))
    do {
      try FileManager.default.createDirectory(
        atPath: copy, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
      try SQLiteStore.copyFiles(of: source, to: copy)
      let lines = try await removeDamage(in: copy) + repairRules(from: source, to: copy)
      return lines.map { "namespace \(name): \($0)" }
    } catch let error as StoreError {
      guard name != .default else { throw error }
      if case .inUse = error { throw error }
      try? FileManager.default.removeItem(atPath: copy)
      return ["namespace \(name): lost as a whole: \(error.sentence)"]
    }
  }

  private func removeDamage(in folder: String) async throws -> [String] {
    var configuration = SQLiteStore.Configuration()
    configuration.acceptsLoss = true
    configuration.createsFolder = false
    let store = try SQLiteStore(folder: folder, configuration: configuration)
    let result: Result<Losses, any Error>
    do { result = .success(try await store.acceptLosses()) } catch { result = .failure(error) }
    try store.close()
    let losses = try result.get()
    if losses.notes.isEmpty { return ["all commits are kept"] }
    func text(_ time: Int64?) -> String {
      time.map { Date(timeIntervalSince1970: Double($0) / 1_000).formatted(.iso8601) }
        ?? "an unknown time"
    }
    return losses.notes.map { "lost: \($0)" } + [
      "the newest commit that is kept is of \(text(losses.keptTime)), the newest that was stored of \(text(losses.storedTime))"
    ]
  }

  /// Copies the rules of a namespace. Returns the lines of the report.
  private func repairRules(from source: String, to copy: String) throws -> [String] {
    let (path, new) = (source + "/" + RulesKeeper.fileName, copy + "/" + RulesKeeper.fileName)
    guard FileManager.default.fileExists(atPath: path) else { return [] }
    do {
      _ = try RulesKeeper(folder: source, initial: .locked)
      try FileManager.default.copyItem(atPath: path, toPath: new)
      return []
    } catch let error where error is RulesError || error is RulesFileError {
      try Data(InitialRules.locked.text.utf8).write(to: URL(fileURLWithPath: new))
      return ["lost: the rules, which cannot be read; the new ones allow nothing"]
    }
  }

  /// Copies the token of the administrator and the keys of identity tokens. Returns the lines of the report.
  private func repairSecrets(
    from folders: NamespaceFolders, to copy: String
  ) async throws -> [String] {
    let folder = folders.path(of: .default)
    var lines: [String] = []
    for name in [AdministratorToken.fileName, IdentityKeys.fileName] {
      let (path, new) = (folder + "/" + name, copy + "/" + name)
      guard FileManager.default.fileExists(atPath: path) else { continue }
      do {
        try FileManager.default.copyItem(atPath: path, toPath: new)
        if name.utf8.elementsEqual(AdministratorToken.fileName.utf8) {
          _ = try AdministratorToken.load(from: copy)
        } else {
          _ = try await IdentityKeys.loadOrCreate(in: copy, environment: Composition.environment)
        }
      } catch {
        try? FileManager.default.removeItem(atPath: new)
        lines.append("lost: \(name), which cannot be read; the next start makes a new one")
      }
    }
    return lines
  }
}
