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
    let new = NewFolder(try folder.folder())
    try new.checkIsFree()
    let filling = new.workPath(
      for: "seeding", number: Int(ProcessInfo.processInfo.processIdentifier))
    let counts: Fixture.Counts
    do {
      counts = try await Interruption.removing([filling]) {
        let parts = try await Composition(folder: filling, now: { clock.now }, logger: logger)
        let counts = try await parts.use { try await fixture.load(into: $0, clock: clock) }
        try new.fill(from: filling, willName: Interruption.complete)
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
}

/// A clock that the fixture sets.
final class FixtureClock: Sendable {
  private let milliseconds = Mutex<Int64>(0)

  var now: Int64 { milliseconds.withLock { $0 } }

  func set(_ now: Int64) {
    milliseconds.withLock { $0 = now }
  }
}
