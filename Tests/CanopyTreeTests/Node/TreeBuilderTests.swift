import CanopyTesting
import Testing

@testable import CanopyTree

struct TreeBuilderTests {
  private func build(_ rows: [(String, String)]) throws -> (node: Node, read: Int, found: Int) {
    var builder = TreeBuilder()
    for (location, json) in rows {
      try Array(json.utf8).withUnsafeBytes { json in
        try Array(location.utf8).withUnsafeBytes { try builder.add(json: json, at: $0) }
      }
    }
    let counts = builder.counts
    return (try builder.finish(), counts.read, counts.found)
  }

  @Test func `a copy is found by its text, is not read, and shares its memory`() throws {
    let post = #"{".priority":2,"body":"some text","stars":{"a":true}}"#
    let built = try build([
      ("posts/-OaBcDeFgHiJkLmNoPqR", post), ("user-posts/u/-OaBcDeFgHiJkLmNoPqR", post),
    ])
    #expect(built.read == 1 && built.found == 1)
    let (a, b) = (
      built.node.at(Path("posts/-OaBcDeFgHiJkLmNoPqR")),
      built.node.at(Path("user-posts/u/-OaBcDeFgHiJkLmNoPqR"))
    )
    #expect(a.isIdentical(to: b))
    #expect(a == (try Node(json: post)))
  }

  @Test(arguments: [
    #"{"a":1,"b":3}"#, #"{"a":1}"#, #"{"b":2,"a":1}"#, #"{"a":1,"b":2.0}"#, #"{"a":1,"b":2} "#, "1",
    #"{"a":1,"b":2,".priority":0}"#,
  ])
  func `another text under the same push id is read`(_ text: String) throws {
    let built = try build([
      ("a/-OaBcDeFgHiJkLmNoPqR", #"{"a":1,"b":2}"#), ("b/-OaBcDeFgHiJkLmNoPqR", text),
    ])
    #expect(built.read == 2 && built.found == 0)
    #expect(built.node.at(Path("b/-OaBcDeFgHiJkLmNoPqR")) == (try Node(json: text)))
  }

  @Test func `a row that comes twice is an error, found by its text or not`() throws {
    let row = ("a/-OaBcDeFgHiJkLmNoPqR", #"{"a":1}"#)
    #expect(throws: TreeError.self) { try build([row, row]) }
    #expect(throws: TreeError.self) { try build([row, ("a/-OaBcDeFgHiJkLmNoPqR", "1")]) }
  }

  @Test func `random trees with copies come out as they are`() throws {
    var random = SeededRandom(printingSeedFor: "TreeBuilderTests")
    for _ in 0..<500 {
      let copies = (0..<4).map { _ in random.tree(height: 3).node }
      // Rows of absent values do not come about.
      let rows = copies.enumerated().filter { !$1.isAbsent }.map { index, node in
        var output = JSONOutput()
        output.append(copies[0].isAbsent || random.oneIn(2) ? node : copies[0], style: .export)
        return ("\(index)/-OaBcDeFgHiJkLmNoPqR", output.text)
      }
      var expected = Node.absent
      for (location, json) in rows {
        expected.set(try Node(json: json), at: try Path(location))
      }
      #expect(try build(rows).node == expected)
    }
  }
}

struct TextTableTests {
  private func text(_ table: TextTable, _ text: String) -> String? {
    Array(text.utf8).withUnsafeBytes { table.text($0) }
  }

  @Test(arguments: [(15, 0), (16, 1), (64, 1), (65, 0)])
  func `a text of 16 to 64 bytes is found again`(_ bytes: Int, _ found: Int) {
    let table = TextTable()
    let name = String(repeating: "x", count: bytes)
    for _ in 0..<2 { #expect(text(table, name) == name) }
    #expect(table.found == found)
  }

  @Test func `texts that fall on one place are told apart`() {
    let table = TextTable(places: 1)
    for number in [1, 2, 2, 1, 12] {
      let name = "the name of the user \(number)"
      #expect(text(table, name)?.utf8.elementsEqual(name.utf8) == true)
    }
    #expect(table.found == 1)
  }

  @Test func `canonically equal texts are different ones`() throws {
    let table = TextTable(places: 1)
    for name in ["\u{E9}, which is one character", "e\u{301}, which is one character"] {
      #expect(text(table, name)?.utf8.elementsEqual(name.utf8) == true)
    }
  }

  @Test func `numbered texts spread over the places`() {
    let table = TextTable()
    for _ in 0..<2 {
      for number in 0..<1000 { _ = text(table, "u\(1_000_000_000_000_000_000 + number)") }
    }
    // By chance an eighth or so fall together.
    #expect(table.found > 700)
  }

  @Test func `bytes that are no UTF-8 have no text`() {
    let table = TextTable()
    let bytes = [UInt8](repeating: 0xFF, count: 20)
    for _ in 0..<2 { #expect(bytes.withUnsafeBytes { table.text($0) } == nil) }
  }
}
