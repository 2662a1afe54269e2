import ArgumentParser
import CanopyBackup
import CanopyEngine
import CanopySocial
import CanopySystem
import CanopyTree
import Foundation
import Logging
import Synchronization

struct Seed: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Create a data folder with a demo community.",
    discussion: """
      The command performs the sign-ups, posts, comments and stars of the file in the order of their \
      times, by the same code as the server. The data folder must be new or empty.
      """)

  @OptionGroup var folder: FolderOption
  @Argument(help: "The JSON file of the community, such as Seeds/demo.json.") var file: String

  func run() async throws {
    try await Failure.explaining { try await seed() }
  }

  private func seed() async throws {
    guard let data = FileManager.default.contents(atPath: file) else {
      throw Failure("\(file) cannot be read; check its name and its permissions")
    }
    let json = try data.withUnsafeBytes { try JSONValue(json: $0, limits: .none) }
    let fixture = try Fixture(json)
    let clock = FixtureClock()
    let logger = Logger(label: "canopy.seed") { StreamLogHandler.standardError(label: $0) }
    // The folder gets its name when it is complete, so that an interrupted command leaves no incomplete folder.
    // A slash at the end, or a dot, would put the temporary folder into the folder itself.
    let folder = Self.resolved(NewFolder(try folder.folder()).path)
    try checkIsFree(folder)
    let filling = NewFolder(folder).unusedPath(
      for: "seeding", number: Int(ProcessInfo.processInfo.processIdentifier))
    let counts: Fixture.Counts
    do {
      counts = try await Interruption.removing([filling]) {
        let parts = try await Composition(folder: filling, now: { clock.now }, logger: logger)
        let counts = try await parts.use { try await fixture.load(into: $0, clock: clock) }
        try Self.move(filling, to: folder)
        return counts
      }
    } catch {
      try? FileManager.default.removeItem(atPath: filling)
      throw error
    }
    Output.note(
      "seeded \(counts.people) people, \(counts.posts) posts, \(counts.comments) comments, "
        + "\(counts.stars) stars")
  }

  /// Gives the complete folder its name.
  ///
  /// An empty folder with that name stays, because it may be the current folder of the user's shell. The database is the
  /// first file that it gets, so it is complete from then on.
  static func move(_ filling: String, to folder: String) throws {
    let files = FileManager.default
    func move(_ from: String, _ to: String) throws {
      guard FileCalls.renameFile(from, to: to) == 0 else {
        throw Failure("\(to) cannot be created: \(String(cString: strerror(errno)))")
      }
    }
    guard files.fileExists(atPath: folder) else {
      return try NewFolder(folder).replace(by: filling)
    }
    let names = try files.contentsOfDirectory(atPath: filling)
    for name in names.filter({ $0 == "canopy.sqlite" }) + names.filter({ $0 != "canopy.sqlite" }) {
      try move(filling + "/" + name, folder + "/" + name)
    }
    do throws(FileError) { try AtomicFile.synchronize(folder) } catch {
      throw Failure("\(folder) cannot be written to the disk: \(error.reason)")
    }
    rmdir(filling)
  }

  /// Returns the path without links of a folder that exists; the same path if it does not exist.
  private static func resolved(_ folder: String) -> String {
    guard let path = realpath(folder, nil) else { return folder }
    defer { free(path) }
    return String(cString: path)
  }

  private func checkIsFree(_ folder: String) throws {
    let files = FileManager.default
    guard files.fileExists(atPath: folder) else { return try NewFolder(folder).checkIsFree() }
    guard let contents = try? files.contentsOfDirectory(atPath: folder), contents.isEmpty else {
      throw Failure("\(folder) is not empty; name a folder that is new or empty")
    }
  }
}

/// A clock that the fixture sets.
final class FixtureClock: Sendable {
  private let milliseconds = Mutex<Int64>(0)

  var now: Int64 { milliseconds.withLock { $0 } }

  func set(_ now: Int64) {
    milliseconds.withLock { $0 = now }
  }
}
