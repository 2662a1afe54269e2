import Foundation
import Testing

/// The links of README.md and of the articles, and their form.
///
/// `Scripts/docs` checks the links between articles and to symbols too. These tests take milliseconds, and need no
/// documentation compiler.
struct DocumentLinkTests {
  private static let documents = Result { try Document.all() }

  /// The names that the files of each module declare. Comments count too: this reads words, not Swift.
  private static let declarations = Result {
    let keywords = Set(
      [
        "func", "var", "let", "struct", "class", "enum", "case", "protocol", "typealias",
        "extension",
      ]
      .map { Array($0.utf8) })
    let initializer = Array("init".utf8)
    var names: [String: Set<String>] = [:]
    for module in try Repository.modules() {
      var found: Set<[UInt8]> = []
      for path in Repository.files(in: module.path, suffix: ".swift") {
        var last: [UInt8] = []
        let words = Array(try Repository.text(path).utf8).split { byte in
          !(0x61...0x7A ~= byte || 0x41...0x5A ~= byte || 0x30...0x39 ~= byte || byte == 0x5F)
        }
        for word in words.map(Array.init) {
          if keywords.contains(last) || word == initializer { found.insert(word) }
          last = word
        }
      }
      names[module.name] = Set(found.map { String(decoding: $0, as: UTF8.self) })
    }
    return names
  }

  @Test func `every file that a document names exists`() throws {
    var count = 0
    for document in try Self.documents.get() {
      let links = document.text.matches(of: /\]\(([^)#]+)\)/).map { $0.1 }
      let names = document.text.matches(of: /`((?:Sources|Tests|Scripts|Seeds)\/[^`\s*]+)/)
        .map { $0.1 }
      let scripts = document.text.matches(of: /Scripts\/[-\w]+/).map { $0.0 }
      for name in links + names + scripts where !name.contains("://") {
        // An article names a picture of its catalogue by its file alone.
        let path =
          name.hasSuffix(".png") && !name.contains("/")
          ? "Sources/Documentation.docc/Resources/\(name)" : String(name)
        #expect(Repository.contains(path), "\(document.path) names \(name)")
        count += 1
      }
    }
    #expect(count > 100)
  }

  @Test func `every link to an article leads to one, and the contents list every article`() throws {
    let documents = try Self.documents.get()
    let names = documents.compactMap { document in
      document.path.wholeMatch(of: /.*\/(\w+)\.md/).map { String($0.1) }
    }
    for document in documents {
      for link in document.text.matches(of: /<doc:(\w+)>/) {
        #expect(names.contains(String(link.1)), "\(document.path) links to \(link.1)")
      }
    }
    let contents = try Document.article("Canopy").text
    for name in names where name != "Canopy" {
      #expect(contents.contains("- <doc:\(name)>"), "\(name) is not in the contents, Canopy.md")
    }
  }

  @Test func `every link to a symbol names declarations of its module`() throws {
    let declarations = try Self.declarations.get()
    var count = 0
    for document in try Self.documents.get() {
      for link in document.text.matches(of: /``(\w+)((?:\/[^`]+)?)``/) {
        let names = try #require(
          declarations[String(link.1)], "\(document.path): \(link.1) is not a module")
        for part in link.2.split(separator: "/") {
          let name = String(part.prefix { $0.isLetter || $0.isNumber || $0 == "_" })
          let isDeclared = names.contains(name)
          #expect(isDeclared, "\(document.path): \(link.0): \(link.1) declares no \(name)")
        }
        count += 1
      }
    }
    #expect(count > 60)
  }

  @Test func `the functions in the life of a star exist, and their numbers are right`() throws {
    let article = try Document.article("LifeOfAStar").text
    var (passing, parts) = (0, 0)
    for row in article.matches(of: /(?m)^\| `(Sources\/\S+\.swift)` \| (.*?) ?\| (.*?) ?\|$/) {
      let code = try Repository.text(String(row.1))
      func count(_ cell: Substring) -> Int {
        let names = cell.matches(of: /`(\w+)[^`]*`/).map { $0.1 }
        for name in names {
          let isDeclared = code.contains(name == "init" ? "init(" : "func \(name)")
          #expect(isDeclared, "LifeOfAStar.md: \(row.1) declares no \(name)")
        }
        return names.count
      }
      passing += count(row.2)
      parts += count(row.3)
    }
    let sentence = "\(passing) functions pass the star on, and \(parts) more do a part"
    let isRight = article.contains(sentence)
    #expect(isRight, "LifeOfAStar.md should say: \(sentence)")
    #expect(20...30 ~= passing, "a reader of the path follows at most 30 functions")
  }

  @Test func `every module is in the tour, and every script is described`() throws {
    let tour = try Document.article("SourceTour").text
    for module in try Repository.modules() {
      let isInTour = tour.contains("`\(module.name)`")
      #expect(isInTour, "\(module.name) is not in SourceTour.md")
    }
    let text = try Self.documents.get().map(\.text).joined()
    for script in Repository.files(in: "Scripts") {
      let isDescribed = text.contains(script)
      #expect(isDescribed, "no document says what \(script) is for")
    }
  }

  @Test func `README has at most 200 lines`() throws {
    #expect(
      try Document("README.md").text.split(separator: "\n", omittingEmptySubsequences: false).count
        <= 201)
  }

  @Test func `lines of text are at most 120 characters long`() throws {
    for document in try Self.documents.get() {
      let lines = document.text.split(separator: "\n", omittingEmptySubsequences: false)
      let blocks = document.blocks.map { $0.firstLine..<($0.firstLine + $0.lines.count) }
      for (index, line) in lines.enumerated() where line.count > 120 && !line.hasPrefix("|") {
        #expect(
          blocks.contains { $0.contains(index + 1) },
          "\(document.path):\(index + 1) has \(line.count) characters")
      }
    }
  }

  @Test func `the glossary has at most 40 terms, each once`() throws {
    let rows = try Document.article("Glossary").text.matches(of: /(?m)^\| \*\*(.+?)\*\* \| .+ \|$/)
      .map { String($0.1) }
    #expect(20...40 ~= rows.count)
    #expect(Set(rows).count == rows.count)
    #expect(rows == rows.sorted { $0.lowercased() < $1.lowercased() }, "the terms are sorted")
  }
}
