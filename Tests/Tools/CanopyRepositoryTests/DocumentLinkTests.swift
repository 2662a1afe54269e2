import Foundation
import Testing

/// The links of README.md and of the articles, and their form.
///
/// `Scripts/docs` checks the links between articles and to symbols too. These tests take milliseconds, and need no
/// documentation compiler.
struct DocumentLinkTests {
  private static let documents = Result { try Document.all() }

  /// The names that each file of each module declares.
  private static let declarationsByFile = Result {
    var names: [String: [String: Set<String>]] = [:]
    for module in try Repository.modules() {
      for path in Repository.files(in: module.path, suffix: ".swift") {
        names[module.name, default: [:]][path] = declaredNames(in: try Repository.text(path))
      }
    }
    return names
  }

  /// The names that the files of each module declare.
  private static let declarations = declarationsByFile.map { modules in
    modules.mapValues { files in files.values.reduce(into: Set<String>()) { $0.formUnion($1) } }
  }

  private static let keywords = Set(
    [
      "func", "var", "let", "struct", "class", "enum", "case", "protocol", "typealias",
      "extension",
    ]
    .map { Array($0.utf8) })

  /// Returns the names that a text declares. Comments count too: this reads words, not Swift.
  private static func declaredNames(in text: String) -> Set<String> {
    let initializer = Array("init".utf8)
    var found: Set<[UInt8]> = []
    var last: [UInt8] = []
    let words = Array(text.utf8).split { byte in
      !(0x61...0x7A ~= byte || 0x41...0x5A ~= byte || 0x30...0x39 ~= byte || byte == 0x5F)
    }
    for word in words.map(Array.init) {
      if keywords.contains(last) || word == initializer { found.insert(word) }
      last = word
    }
    return Set(found.map { String(decoding: $0, as: UTF8.self) })
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
          [".png", ".svg"].contains(where: name.hasSuffix) && !name.contains("/")
          ? "Sources/Documentation.docc/Resources/\(name)" : String(name)
        #expect(Repository.contains(path), "\(document.path) names \(name)")
        count += 1
      }
    }
    #expect(count > 100)
  }

  @Test func `the pictures of the articles have at most 350 KB together`() throws {
    let pictures = Repository.files(in: "Sources/Documentation.docc/Resources")
    let sizes = try pictures.map {
      try Data(contentsOf: Repository.root.appending(path: $0)).count
    }
    #expect(pictures.count > 3 && sizes.reduce(0, +) <= 350_000, "\(zip(pictures, sizes))")
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
    for name in names where name != "Canopy" && name != "CanopyClient" {
      #expect(contents.contains("- <doc:\(name)>"), "\(name) is not in the contents, Canopy.md")
    }
  }

  @Test func `the documentation of the client library is complete without the other articles`()
    throws
  {
    let documents = try Self.documents.get().filter { $0.path.hasPrefix(Document.clientCatalog) }
    let names = documents.compactMap { document in
      document.path.wholeMatch(of: /.*\/(\w+)\.md/).map { String($0.1) }
    }
    #expect(names.count >= 5)
    for document in documents {
      for link in document.text.matches(of: /<doc:(\w+)>/) {
        #expect(names.contains(String(link.1)), "\(document.path) links to \(link.1)")
      }
      for link in document.text.matches(of: /(?:^|[^`])``(\w+)[^`]*``/) {
        #expect(link.1 == "CanopyClient", "\(document.path) links to \(link.1)")
      }
    }
    let contents = try Document.article("CanopyClient").text
    for name in names where name != "CanopyClient" {
      #expect(contents.contains("- <doc:\(name)>"), "\(name) is not in CanopyClient.md")
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

  @Test(arguments: ["LifeOfAStar", "LifeOfSetAndGet"])
  func `the functions of each step exist, and its file declares one of them`(
    _ name: String
  ) throws {
    let files = try Self.declarationsByFile.get().values
      .reduce(into: [String: Set<String>]()) { $0.merge($1) { first, _ in first } }
    let rows = try Document.article(name).text
      .matches(of: /(?m)^\| (.*?) \| (.*) \| `(Sources\/[^`]+\.swift)` \|$/)
    var previous = 0
    for row in rows {
      if let number = row.1.prefixMatch(of: /(\d+)\./).flatMap({ Int($0.1) }) {
        let follows = number == 1 || number == previous + 1
        #expect(follows, "\(name).md: the step \(number) follows the step \(previous)")
        previous = number
      }
      // Links to symbols are checked with those of the other articles.
      var functions = row.2.matches(of: /``\w+\/(?:[^`]*\/)?(\w+)[^`]*``/).map { String($0.1) }
      let plain = row.2.replacing(/``[^`]*``/, with: "")
      for span in plain.matches(of: /`([\w.]+)`/) {
        let parts = span.1.split(separator: ".").map(String.init)
        let isDeclared = files.values.contains { $0.isSuperset(of: parts) }
        #expect(isDeclared, "\(name).md: no file of Sources declares \(span.1), in: \(row.1)")
        functions += parts.suffix(1)
      }
      let declared = try #require(
        files[String(row.3)], "\(name).md: there is no file \(row.3), in: \(row.1)")
      #expect(
        !declared.isDisjoint(with: functions),
        "\(name).md: \(row.3) declares none of \(functions), in: \(row.1)")
    }
    #expect(rows.count >= 20)
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

  @Test(arguments: ["README.md", "Sources/Documentation.docc/Architecture.md"])
  func `every module of the server and of the client library is in the picture`(
    _ path: String
  ) throws {
    let picture = try #require(
      Document(path).blocks.first { $0.lines.contains { $0.contains("CanopyTree") } }, "\(path)")
    let words = Set(picture.lines.joined(separator: "\n").split { !$0.isLetter }.map(String.init))
    for module in try Repository.modules()
    where module.name == "CanopyClient"
      || ["Core", "Blog", "Storage", "Serving"].contains(module.floor)
        && module.name.lowercased().hasPrefix("canopy")
    {
      let isInPicture = words.contains(module.name)
      #expect(isInPicture, "\(module.name) is not in the picture of \(path)")
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
