import CanopyTesting
import Testing

@testable import CanopyTree

struct LocationCoverTests {
  private static func random(_ random: inout SeededGenerator) -> Location {
    let keys: [Key] = ["a", "b", "c"]
    let depth = Int.random(in: 0...3, using: &random)
    let path = Path(keys: (0..<depth).map { _ in keys.randomElement(using: &random) ?? "a" })
    return Location(path, isPriority: Int.random(in: 0..<4, using: &random) == 0)
  }

  @Test func `random locations are covered as by trying each`() {
    var random = SeededGenerator(printingSeedFor: "LocationCoverTests")
    for _ in 0..<500 {
      let locations = (0..<Int.random(in: 0..<8, using: &random)).map { _ in
        Self.random(&random)
      }
      let asked = (0..<20).map { _ in Self.random(&random) }.sorted()
      var cover = LocationCover(locations)
      for location in asked {
        let found = cover.location(covering: location)
        let expected = locations.filter { other in
          other == location || (!other.isPriority && location.path.hasPrefix(other.path))
        }
        // Of those that cover each other the outermost is kept.
        #expect(found == expected.min(), "\(location) in \(locations)")
      }
    }
  }

  @Test func `a write loses the items that a location covers and keeps the others`() throws {
    var write = try Write.update(
      .root, ["a/x", "a/y", "b", "c/.priority", "d"].map { (try Location($0), WriteValue(1)) })
    let cover = LocationCover(
      try ["c", "nothing", "a", "a/x", "b/below"].map { text throws(TreeError) in
        try Location(text)
      })
    #expect(write.removeItems(coveredBy: cover).map(\.text) == ["a", "c"])
    #expect(write.items.map(\.location.text) == ["b", "d"])
    #expect(write.removeItems(coveredBy: cover).isEmpty)
    #expect(write.items.count == 2)
  }

  #if CANOPY_COUNT_WORK
    @Test func `the locations that are compared grow with the items and not with their square`()
      throws
    {
      func work(_ items: Int, _ locations: Int, offset: Int = 0) throws -> Int {
        func write(_ range: Range<Int>) throws -> Write {
          try Write.update(
            .root, range.map { (try Location("a/k\(1_000_000 + $0)"), WriteValue(1)) })
        }
        var armed = try write(0..<items)
        let cover = LocationCover(
          try write(offset..<offset + locations).items.map(\.location))
        return WorkCounter.nodesTouched { _ = armed.removeItems(coveredBy: cover) }
      }
      for offset in [0, 1_000, 1_000_000, -1_000_000] {
        #expect(try work(2_000, 2_000, offset: offset) <= 4 * 2_000)
        #expect(try work(20_000, 20_000, offset: offset) <= 4 * 20_000)
        #expect(try work(1, 20_000, offset: offset) <= 40)
        #expect(try work(20_000, 1, offset: offset) <= 3 * 20_000)
      }
    }
  #endif
}
