import CanopyRows
import CanopyTesting
import CanopyTree
import Testing

@testable import CanopySQLite

struct LocationSetTests {
  private func sorted(_ texts: [String]) throws -> [String] {
    var set = LocationSet()
    for text in texts { set.insert(try Location(text)) }
    return set.sorted.map(\.text)
  }

  @Test func `a location at or below another is not stored`() throws {
    #expect(try sorted([]) == [])
    #expect(try sorted(["a/b", "a/b", "a/b/c", "a/d"]) == ["a/b", "a/d"])
    #expect(try sorted(["a/b/c", "a/b", "a"]) == ["a"])
    #expect(try sorted(["a", "", "b/c"]) == [""])
    #expect(try sorted(["a/.priority", "a/.priority", "a/b"]) == ["a/.priority", "a/b"])
    #expect(try sorted(["a/.priority", "a"]) == ["a"])
    #expect(try sorted([".priority", "a!", "a", "a/b"]) == [".priority", "a", "a!"])
  }

  @Test func `the count is the number of insertions that were not covered`() throws {
    var set = LocationSet()
    let counts = try ["a/b", "a/b", "a/.priority", "a/.priority", "a/c", "a", "a/b", "a", "b"].map {
      set.insert(try Location($0))
      return set.count
    }
    #expect(counts == [1, 1, 2, 2, 3, 4, 4, 4, 5])
  }

  @Test func `the set is equal to a sorted list without covered locations`() throws {
    var random = SeededGenerator(printingSeedFor: "LocationSetTests")
    let writes = RandomWrites()
    for _ in 0..<300 {
      var locations: [Location] = []
      for _ in 0..<Int.random(in: 0...20, using: &random) {
        locations += writes.next(&random).items.map(\.location)
      }
      var expected: [Location] = []
      for location in locations.sorted() {
        if let last = expected.last, last.overlaps(next: location) { continue }
        expected.append(location)
      }
      var set = LocationSet()
      for location in locations { set.insert(location) }
      #expect(set.sorted == expected)
    }
  }
}
