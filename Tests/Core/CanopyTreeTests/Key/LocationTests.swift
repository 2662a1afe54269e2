import Testing

@testable import CanopyTree

struct LocationTests {
  @Test(arguments: [
    ("", "", false), ("a/b", "a/b", false), (".priority", "", true), ("/.priority", "", true),
    ("a/.priority", "a", true), ("/a//b/.priority", "a/b", true),
  ])
  func `a path may end in .priority`(text: String, path: String, isPriority: Bool) throws {
    let location = try Location(text)
    #expect(try location.path == Path(path))
    #expect(location.isPriority == isPriority)
    #expect(try Location(location.text) == location)
  }

  @Test(arguments: [
    "a\u{600}", "\u{600}", "a/\u{301}b\u{110BD}", "a\u{200D}", "\u{1F1E6}", "\u{E0062}",
  ])
  func `a key may end with a character that combines with the slash after it`(path: String) throws {
    let location = try Location(path + "/.priority")
    #expect(try location == Location(Path(path), isPriority: true))
    #expect(Array(location.text.utf8) == Array((path + "/.priority").utf8))
    #expect(try !Location(path).isPriority)
  }

  @Test(arguments: [
    "a.priority", ".priority/a", "a/.priority/b", ".value", "a/.value", "a/.priority/.priority",
    "a/.Priority", "a/.priority\u{301}", "a/\u{301}.priority", ".sv",
  ])
  func `no other path may contain a dot`(text: String) {
    #expect(throws: TreeError.self) { try Location(text) }
  }

  @Test func `the priority of a location at full depth is a location`() throws {
    let text = [String](repeating: "a", count: 32).joined(separator: "/")
    #expect(try Location(text + "/.priority").isPriority)
    #expect(throws: TreeError.self) { try Location(text + "/a/.priority") }
  }

  @Test func `a node sorts before its priority and both before the nodes below`() throws {
    let texts = ["", ".priority", "a", "a/.priority", "a/b", "a/b/.priority", "b"]
    let locations = try texts.map { try Location($0) }
    for (i, a) in locations.enumerated() {
      for (j, b) in locations.enumerated() { #expect((a < b) == (i < j), "\(a.text) < \(b.text)") }
    }
  }
}
