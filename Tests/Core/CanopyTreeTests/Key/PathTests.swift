import Testing

@testable import CanopyTree

struct PathTests {
  @Test(arguments: [
    ("", ""), ("/", ""), ("//", ""), ("a", "a"), ("/a", "a"), ("a/", "a"), ("//a//b//", "a/b"),
    ("posts/-OaBcDeFgHiJkLmNoPqR/title", "posts/-OaBcDeFgHiJkLmNoPqR/title"),
    ("0/-1/007", "0/-1/007"), ("é/e\u{301}", "é/e\u{301}"), ("a b/c", "a b/c"),
  ])
  func `slashes only separate keys`(text: String, expected: String) throws {
    let path = try Path(text)
    #expect(path.text.utf8.elementsEqual(expected.utf8))
    #expect(path.description == "/" + expected)
    #expect(try Path(path.text) == path)
  }

  @Test(arguments: [
    "a.b", "a/.priority", ".priority", "a/$b", "a#", "[0]", "a/b]/c", "a\u{7}", "a\u{0}b", "\u{7F}",
    "\r\n", String(repeating: "k", count: 769),
  ])
  func `an invalid key makes an invalid path`(text: String) {
    #expect {
      try Path(text)
    } throws: {
      if case .invalidPath? = $0 as? TreeError { true } else { false }
    }
  }

  @Test func `a path has at most 32 keys`() throws {
    let keys = [Key](repeating: "a", count: 32)
    let text = keys.map(\.text).joined(separator: "/")
    #expect(try Path(text).count == 32)
    #expect(try Path(keys).count == 32)
    #expect(throws: TreeError.self) { try Path(text + "/a") }
    #expect(throws: TreeError.self) { try Path(keys + ["a"]) }
  }

  @Test func `parents, children and prefixes`() {
    let path: Path = "a/b/c"
    #expect(path.parent?.text == "a/b")
    #expect(path.last == "c")
    #expect(Path.root.parent == nil && Path.root.last == nil && Path.root.isRoot)
    #expect(path.child("d").text == "a/b/c/d")
    #expect(path.appending(Path("d/e")).text == "a/b/c/d/e")
    #expect(path.appending(.root) == path && Path.root.appending(path) == path)
    #expect(path.prefix(2).text == "a/b" && path.prefix(9) == path)
    #expect(path.hasPrefix(.root) && path.hasPrefix(path) && path.hasPrefix(Path("a/b")))
    #expect(!path.hasPrefix(Path("a/b/c/d")) && !path.hasPrefix(Path("b")))
    #expect(path.relative(to: Path("a"))?.text == "b/c")
    #expect(path.relative(to: path) == .root)
    #expect(path.relative(to: Path("a/c")) == nil)
  }

  @Test func `a path sorts after its ancestors and before its later siblings`() throws {
    let texts = ["", "-5", "2", "2/a", "10", "a", "a/b", "a/b/c", "a/c", "ab", "b"]
    let paths = try texts.map { try Path($0) }
    for (i, a) in paths.enumerated() {
      for (j, b) in paths.enumerated() { #expect((a < b) == (i < j), "\(a) < \(b)") }
    }
  }
}
