import Foundation
import Testing

/// The table of the article `PortedBehaviours`.
struct PortedTableTests {
  private static let root = URL(filePath: #filePath).deletingLastPathComponent()
    .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
    .deletingLastPathComponent()

  /// Returns the rows for the tests in a source file that name tests of the original client.
  static func rows(in source: String) throws -> [String] {
    let marked = try Regex<(Substring, Substring, Substring)>(
      #"(?s)\.ported\(((?:\s*"[^"]+",?)+)\s*\).*?func `([^`]+)`"#)
    let name = try Regex<(Substring, Substring, Substring)>(#""(\w+)\.(\w+)""#)
    return source.matches(of: marked).flatMap { test in
      test.output.1.matches(of: name).map { original in
        "| `\(original.output.1)` | `\(original.output.2)` | \(test.output.2) |"
      }
    }
  }

  @Test func `the article lists exactly the tests that name a test of the original client`() throws
  {
    let folder = Self.root.appending(path: "Tests/Client")
    let sources = try #require(FileManager.default.enumerator(atPath: folder.path))
    var rows: [String] = []
    for case let file as String in sources
    where file.hasSuffix(".swift") && !file.hasSuffix("PortedTableTests.swift") {
      rows += try Self.rows(in: String(contentsOf: folder.appending(path: file), encoding: .utf8))
    }
    rows.sort()
    #expect(rows.count >= 40)
    let article = try String(
      contentsOf: Self.root.appending(
        path: "Sources/Client/CanopyClient/CanopyClient.docc/PortedBehaviours.md"),
      encoding: .utf8)
    let shown = article.split(separator: "\n").map(String.init).filter { $0.hasPrefix("| `") }
    let (missing, extra) = (Set(rows).subtracting(shown), Set(shown).subtracting(rows))
    #expect(
      missing.isEmpty, "add to PortedBehaviours.md:\n\(missing.sorted().joined(separator: "\n"))")
    #expect(
      extra.isEmpty, "remove from PortedBehaviours.md:\n\(extra.sorted().joined(separator: "\n"))")
    #expect(shown == rows, "the rows of PortedBehaviours.md are not sorted, or one is there twice")
    // The counts of the article.
    #expect(article.contains("\n\(rows.count) rows: "), "PortedBehaviours.md: \(rows.count) rows")
    let files = Dictionary(grouping: shown) { $0.split(separator: "`").dropFirst().first ?? "" }
    let counts = files.sorted { $0.key < $1.key }.map { "| \($0.value.count) | `\($0.key)` |" }
    let stated = article.split(separator: "\n").map(String.init)
      .filter { $0.wholeMatch(of: /\| \d+ \| `\w+` \|/) != nil }
    #expect(stated == counts, "PortedBehaviours.md:\n\(counts.joined(separator: "\n"))")
  }

  @Test func `a test may name several tests of the original client`() throws {
    let source = """
      @Test(.ported("A.one", "B.two"), arguments: [1])
      func `does both`() {}
      @Test func `names none`() {}
      @Test(
        .ported(
          "C.three"
        ))
      func `does more`(x: Int) async throws {}
      """
    #expect(
      try Self.rows(in: source) == [
        "| `A` | `one` | does both |", "| `B` | `two` | does both |",
        "| `C` | `three` | does more |",
      ])
  }
}
