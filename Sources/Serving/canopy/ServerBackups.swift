import CanopyBackup
import CanopySession
import CanopySystem
import CanopyTree
import CanopyWire
import Foundation
import Logging

extension Backups {
  /// Creates the keeper of the backups of a server on a data folder. Removes the remains of a backup that the end of the
  /// last process has interrupted.
  convenience init(ofServerOn settings: Serve.Settings) {
    self.init(
      .ofFolder(
        settings.folder, isServed: true,
        pace: BackupPace(
          now: Composition.uptime, pause: { Thread.sleep(forTimeInterval: $0 / .seconds(1)) }),
        space: BackupSpace(besideWrites: settings.limits.freeBytesMin)),
      settings.backups, now: Composition.uptime, random: Composition.random,
      wasRemoved: { [folder = settings.folder] in NamespaceFolders(folder).wasRemoved($0) },
      logger: settings.logger)
    do { try removeRests() } catch {
      settings.logger.warning(
        "the folder of the backups cannot be used",
        metadata: ["error": "\(Backups.sentence(of: error))"])
    }
  }
}

extension BackupSpace {
  /// Creates the bound of a server that refuses writes when fewer bytes are free than a number.
  ///
  /// An eighth more must stay free. So a backup is given up before writes are refused, and after that they would be accepted
  /// again.
  fileprivate init(besideWrites bytesMin: Int) {
    let bytes = Int64(clamping: bytesMin)
    let (bound, overflow) = bytes.addingReportingOverflow(bytes / 8)
    self.init(bytesMin: overflow ? .max : bound) { DiskSpace.freeBytes(of: $0) }
  }
}

extension Scrubber {
  /// Creates the scrub of a server on a data folder; nil if the settings ask for none.
  convenience init?(ofServerOn settings: Serve.Settings) {
    guard let every = settings.scrubEvery else { return nil }
    let folders = NamespaceFolders(settings.folder)
    self.init(
      every: every,
      namespaces: {
        try ([.default] + folders.names()).map { ($0, folders.path(of: $0)) }
      },
      fileProblems: { SmallFiles.problems(in: $1, isDefault: $0 == .default) },
      now: Composition.now, logger: settings.logger)
  }
}

extension BackupMaker {
  /// Returns the maker of backups of a data folder with its namespaces.
  static func ofFolder(
    _ folder: String, isServed: Bool, pace: BackupPace, space: BackupSpace = .unbounded
  ) -> BackupMaker {
    let folders = NamespaceFolders(folder)
    return BackupMaker(
      folder: folder, isServed: isServed,
      namespaces: {
        // The removal of an old backup depends on these notes.
        if isServed { try folders.forgetRemovals() }
        let names = try folders.names()
        // A backup without the namespace could replace the last one that has it.
        do { try folders.checkNoneIsMissing() } catch let error as Failure {
          throw BackupError.unwritable(error.description)
        }
        return try names.compactMap { name in
          // A command may have removed the namespace since its name was read.
          do { return (name, try folders.existingPath(of: name)) } catch {
            if folders.exists(name) { throw error }
            return nil
          }
        }
      },
      program: "canopy \(Canopy.version)", now: Composition.now, pace: pace,
      space: space, fileProblem: SmallFiles.problem)
  }
}

/// The backups of a server on a data folder, as its administrator sees them.
struct ServerBackups: BackupOperations {
  /// The most backups of a list.
  private static let listMax = 1_000

  let backups: Backups

  func make() async throws -> ReplyJSON {
    do { return ReplyJSON(try await backups.make(.requested)) } catch { throw wireError(error) }
  }

  func list() async throws -> ReplyJSON {
    let stored: [StoredBackup]
    do { stored = try backups.stored().reversed() } catch { throw wireError(error) }
    let counts = backups.counts
    return [
      "running": counts.progress.map { progress in
        [
          "namespace": .text("\(progress.namespace)"), "bytes": .number(Int64(progress.bytes)),
          "of": .number(Int64(progress.bytesMax)),
        ]
      } ?? .null,
      "failure": counts.lastFailure.map { .text($0) } ?? .null,
      "failures": .number(Int64(counts.failed)),
      "every": backups.settings.every.map { .number($0.components.seconds) } ?? .null,
      "kept": .number(Int64(backups.settings.kept)),
      "backups": .array(stored.prefix(Self.listMax).map { ReplyJSON($0) }),
      "more": .bool(stored.count > Self.listMax),
    ]
  }

  private func wireError(_ error: any Error) -> WireError {
    WireError(.unavailable, Backups.sentence(of: error))
  }
}

extension ReplyJSON {
  /// The description of a backup.
  fileprivate init(_ backup: StoredBackup) {
    self = [
      "file": .text(backup.name), "bytes": .number(Int64(backup.bytes)),
      "seq": .number(backup.sequence), "time": .number(backup.time),
    ]
  }
}
