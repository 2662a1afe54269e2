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
    let parts = try await Composition(
      folder: try folder.folder(), now: { clock.now }, logger: logger)
    let counts = try await parts.use { parts in
      guard parts.engine.root.isAbsent else {
        throw Failure("the data folder has data already; seed an empty one")
      }
      return try await fixture.load(into: parts, clock: clock)
    }
    Output.note(
      "seeded \(counts.people) people, \(counts.posts) posts, \(counts.comments) comments, "
        + "\(counts.stars) stars")
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
