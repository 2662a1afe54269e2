import ArgumentParser
import CanopyEngine
import CanopySocial
import CanopyTree
import Foundation
import Logging
import Synchronization

struct Seed: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Load a fixture community into an empty data folder.",
    discussion: """
      Everything goes through the same domain as requests do, in the order of time, so it cannot \
      disagree with it.
      """)

  @OptionGroup var folder: FolderOption
  @Argument(help: "The fixture, such as Seeds/demo.json.") var file: String

  func run() async throws {
    try await Failure.explaining { try await seed() }
  }

  private func seed() async throws {
    guard let data = FileManager.default.contents(atPath: file) else {
      throw Failure("\(file) cannot be read")
    }
    let json = try data.withUnsafeBytes { try JSONValue(json: $0, limits: .none) }
    let fixture = try Fixture(json)
    let clock = FixtureClock()
    let logger = Logger(label: "canopy.seed") { StreamLogHandler.standardError(label: $0) }
    // Filled under another name, so that a seeding that is cut short leaves no half-filled folder.
    let folder = try folder.folder()
    try checkIsFree(folder)
    let filling = folder + ".seeding-\(ProcessInfo.processInfo.processIdentifier)"
    let counts: Fixture.Counts
    do {
      let parts = try await Composition(folder: filling, now: { clock.now }, logger: logger)
      counts = try await parts.use { try await fixture.load(into: $0, clock: clock) }
      // Replaces an empty folder as well.
      guard rename(filling, folder) == 0 else {
        throw Failure("\(folder) cannot be made: \(String(cString: strerror(errno)))")
      }
    } catch {
      try? FileManager.default.removeItem(atPath: filling)
      throw error
    }
    Output.note(
      "seeded \(counts.people) people, \(counts.posts) posts, \(counts.comments) comments, "
        + "\(counts.stars) stars")
  }

  private func checkIsFree(_ folder: String) throws {
    let files = FileManager.default
    guard files.fileExists(atPath: folder) else { return }
    guard let contents = try? files.contentsOfDirectory(atPath: folder), contents.isEmpty else {
      throw Failure("\(folder) is in use already; name a folder that is new or empty")
    }
  }
}

/// A clock that stands where the fixture says.
final class FixtureClock: Sendable {
  private let milliseconds = Mutex<Int64>(0)

  var now: Int64 { milliseconds.withLock { $0 } }

  func set(_ now: Int64) {
    milliseconds.withLock { $0 = now }
  }
}
