import CanopyTesting
import Foundation
import Testing

/// README.md and the articles, compared with the program.
struct DocumentTests {
  @Test(.timeLimit(.minutes(20)))
  func `the data in the article about the layout has the fields of real data`()
    async throws
  {
    let blocks = try Document.article("DataLayout").blocks
    let block = try #require(blocks.first { $0.language == "json" })
    let shown = Data(block.lines.joined(separator: "\n").utf8)
    let folder = try TemporaryFolder()
    let (data, file) = (folder.file("data"), folder.file("tree.json"))
    let seed = [
      "seed", "--data", data, Repository.root.appending(path: SeedTests.path).path,
    ]
    for arguments in [seed, ["export", "--data", data, "/", file]] {
      let outcome = try await Program.run(Program.canopy, arguments)
      try #require(outcome.status == 0, "\(outcome.errors)")
    }
    let real = try Data(contentsOf: URL(filePath: file))
    let (expected, actual) = (try Self.fields(in: shown), try Self.fields(in: real))
    #expect(
      expected == actual,
      """
      the example of DataLayout.md differs from data of the server
      only in the article: \(expected.subtracting(actual).sorted().joined(separator: ", "))
      only in real data: \(actual.subtracting(expected).sorted().joined(separator: ", "))
      """)
  }

  /// Returns the paths of leaves with their types, with ID for every id: `/users/ID/username text`.
  private static func fields(in json: Data) throws -> Set<String> {
    var fields: Set<String> = []
    func visit(_ value: JSON, _ path: String) {
      switch value {
      case .object(let members):
        for (key, child) in members {
          let isID = Document.isID(key[...]) || path == "/usernames"
          visit(child, path + "/" + (isID ? "ID" : key))
        }
      case .bool: fields.insert(path + " bool")
      case .number: fields.insert(path + " number")
      case .text: fields.insert(path + " text")
      }
    }
    visit(try JSONDecoder().decode(JSON.self, from: json), "")
    return fields
  }

  @Test(.timeLimit(.minutes(20)))
  func `the commands for a data folder in an article succeed one after the other`()
    async throws
  {
    let folder = try TemporaryFolder()
    try FileManager.default.createSymbolicLink(
      at: folder.url.appending(path: "Seeds"),
      withDestinationURL: Repository.root.appending(path: "Seeds"))
    let shown = try Document.article("Operating").blocks.flatMap(\.lines)
      .filter { $0.hasPrefix("canopy ") }
    #expect(shown.count >= 5)
    for line in ["canopy seed --data data Seeds/demo.json"] + shown + ["canopy verify --data new"] {
      let words = line.prefix { $0 != "#" }.split(separator: " ").dropFirst().map(String.init)
      let outcome = try await Program.run(Program.canopy, words, in: folder.url)
      #expect(outcome.status == 0, "\(line): \(outcome.output)\(outcome.errors)")
    }
  }

  @Test(.timeLimit(.minutes(20)))
  func `each command has a row in the table of commands`() async throws {
    let help = try await Program.run(Program.canopy, ["help"])
    let list = try #require(help.output.firstRange(of: "SUBCOMMANDS:"))
    let commands = Set(
      help.output[list.upperBound...].matches(of: /(?m)^ {2}([a-z]+)\b/).map { "canopy \($0.1)" })
    #expect(commands.count > 10)
    let rows = try Document.article("Operating").text.matches(of: /(?m)^\| `(canopy [a-z]+)` \|/)
    #expect(Set(rows.map { String($0.1) }) == commands)
  }

  @Test(.timeLimit(.minutes(20)))
  func `the rules in an article load, and its cases pass`() async throws {
    let shown = try Document.article("SecurityRules").blocks.filter { $0.language == "jsonc" }
    try #require(shown.count == 2)
    let folder = try TemporaryFolder()
    let files = [folder.file("rules.json"), folder.file("cases.json")]
    for (file, block) in zip(files, shown) {
      try Data(block.lines.joined(separator: "\n").utf8).write(to: URL(filePath: file))
    }
    let outcome = try await Program.run(Program.canopy, ["rules", "test"] + files)
    #expect(outcome.output == "2 cases, 0 failed\n", "\(outcome.errors)")
  }

  @Test(.timeLimit(.minutes(20)))
  func `the options that the documents name exist, and those of serve have their defaults`()
    async throws
  {
    let documents = try Document.all()
    var help: [String: String] = [:]
    for command in [
      "serve", "seed", "import", "export", "verify", "user list", "user delete", "shell",
      "rules get", "rules set",
      "migrate", "namespace create", "backup", "restore", "repair",
    ] {
      let outcome = try await Program.run(
        Program.canopy, ["help"] + command.split(separator: " ").map(String.init))
      try #require(outcome.status == 0)
      help[command] = outcome.output
    }
    let all = help.values.joined()
    let support =
      Repository.files(in: "Tests").filter { !$0.hasPrefix(Repository.corpus) }
      + Repository.files(in: "Sources/Tools/CanopyTesting")
    let shell = try ScriptTests.scripts.map { try Repository.text($0) }.joined()
    let scripts = try shell + support.map { try Repository.text($0) }.joined()
    let client = try Repository.files(in: "Sources/Client").filter { $0.hasSuffix(".swift") }
      .map { try Repository.text($0) }.joined()
    let names = documents.flatMap { document in
      document.text.matches(of: /(?:`|\s|^)(--[a-z][a-z-]*|CANOPY_[A-Z_]+)/).map {
        (document.path, $0.1)
      }
    }
    #expect(names.count > 40)
    for (path, match) in names {
      let name = String(match)
      let option = "--" + name.dropFirst(7).lowercased().replacing("_", with: "-")
      let exists =
        name.hasPrefix("--")
        ? all.contains(name + " ") || shell.contains("[\(name)") || shell.contains("\(name) ")
          || ["--help", "--in-place", "--recursive", "--directory", "--network"].contains(name)
        : all.contains(option + " ") || scripts.contains(name) || client.contains(name)
      #expect(exists, "\(path): \(name)")
    }
    let serve = try #require(help["serve"]).split(whereSeparator: \.isWhitespace)
      .joined(separator: " ")
    let rows = try Document.article("Operating").text
      .matches(of: /(?m)^\| `(--[a-z-]+)` \| (.+?) \|/)
    for row in rows where row.2 != "none" {
      let entry = try #require(serve.range(of: " \(row.1) <", options: .backwards), "\(row.1)")
      let text = serve[entry.upperBound...].prefix { $0 != ">" }
      let rest = serve[entry.upperBound...].dropFirst(text.count)
      let described = rest.firstMatch(of: /\(([^)]*)\)/)
      #expect(described?.1 == row.2, "the default of \(row.1)")
    }
    let options = Set(
      (help["serve"] ?? "").matches(of: /(?m)^ +(--[a-z-]+) </).map { String($0.1) })
    #expect(options == Set(rows.map { String($0.1) }), "each option of serve has its row")
  }

  @Test func `HELLO reports every limit, except those with a reason`() throws {
    // A client sees only the effect of these limits, or another limit implies them.
    let untold = [
      "writeBytesMax": "a write is never larger than its line",
      "administratorLocationsMax": "only the administrator meets it",
      "updateEntriesMax": "it counts the indexes, and the refusal says what to do: split it",
      "commitLocationsMax": "the refusal of a larger write says what to do: split it",
      "commitPrioritiesMax": "the refusal of a larger write says what to do: split it",
      "commitBytesMax": "the refusal of a larger write says what to do: split it",
      "requestBytesMax": "requests wait to be read, and none is refused",
      "memoryMax": "a client that reads its replies does not meet it",
      "treeMax": "it bounds the data of all clients, and the refusal says what to do",
      "unreadReplyBytesMax": "a client that reads its replies does not meet it",
      "initialEventsBytesMax": "the refusal of a larger list says what to do: listen with a limit",
      "wholeReplyBytesMax": "a larger reply has the same bytes",
      "rememberedWritesMax":
        "no client is refused: the oldest record of the user that has the most is removed",
      "resumedCommitsMax": "no client is refused: the server sends the whole state",
      "resumedSizeMax": "a bound of a measurement for resumedCommitsMax",
      "resumptionsMax": "no client is refused: they wait for their turn",
      "pushIDAgeMax": "the rules contain it, only for posts and comments",
      "pushIDLeadMax": "the rules contain it, only for posts and comments",
      "viewsPerAddressMax": "it counts the connections of others at the same address as well",
      "connectionsMax": "a client that reads HELLO is connected",
      "connectionsPerAddressMax": "a client that reads HELLO is connected",
    ]
    let hello = try #require(
      try Document.all().flatMap(\.transcripts).flatMap(\.exchanges)
        .first { $0.typed == "HELLO" }?.replies.first,
      "an article shows HELLO, and a test compares that with the server's reply")
    let limits = try Repository.text("Sources/Core/CanopyTree/Limits.swift")
      .matches(of: /public (?:static let|var) (\w+)Max\b/).map { String($0.1) }
    #expect(limits.count >= 8)
    for limit in limits where untold[limit + "Max"] == nil {
      #expect(hello.contains("\"\(limit)\":"), "\(limit)")
    }
  }
}

extension DocumentTests {
  @Test func `the article about the disk names every table, column, number and migration`() throws {
    let schema = try Repository.text("Sources/Storage/CanopySQLite/Schema.swift")
    let meta = try Repository.text("Sources/Storage/CanopySQLite/Meta.swift")
    let article = try Document.article("OnDiskFormat").text
    let tables = schema.matches(of: /CREATE TABLE (\w+)\(([^;]*?)\) STRICT/)
    #expect(tables.count >= 8)
    var names = tables.map { String($0.1) }
    for table in tables {
      names += table.2.matches(of: /(?:^|,)\s*([a-z_]+) (?:TEXT|INTEGER|BLOB)/).map { String($0.1) }
    }
    names += schema.matches(of: /ADD COLUMN (\w+)/).map { String($0.1) }
    names += schema.matches(of: /registerMigration\("([^"]+)"\)/).map { String($0.1) }
    for line in meta.matches(of: /(?m)^    case (\w+)(?: = "(\w+)")?$/) {
      names.append(String(line.2 ?? line.1))
    }
    #expect(names.count > 40)
    for name in Set(names).sorted() {
      let isNamed = article.contains("`\(name)`")
      #expect(isNamed, "OnDiskFormat.md does not name \(name)")
    }
  }

  @Test func `the article about operating has every limit with its value`() throws {
    let source = try Repository.text("Sources/Core/CanopyTree/Limits.swift")
    let rows = try Document.article("Operating").text
      .matches(of: /(?m)^\| `(\w+)` \| (\d+) \| .+ \|$/)
    var values: [String: String] = [:]
    for limit in source.matches(
      of: /(?m)^  public (?:static let|var) (\w+)(?:: Int64)? = ([\d_]+(?: \* [\d_]+)*)$/)
    {
      let factors = limit.2.replacing("_", with: "").split(separator: " * ").compactMap { Int($0) }
      values[String(limit.1)] = String(factors.reduce(1, *))
    }
    // This limit is computed from two others.
    values["resumedCommitsMax"] = "16384"
    #expect(values.count >= 20)
    #expect(
      Dictionary(rows.map { (String($0.1), String($0.2)) }) { $1 } == values,
      "the table of limits in Operating.md")
  }
}

/// Data of a tree, which has no null and, in the articles, no arrays.
private enum JSON: Decodable {
  case object([String: JSON])
  case bool
  case number
  case text

  init(from decoder: any Decoder) throws {
    let container = try decoder.singleValueContainer()
    if let members = try? container.decode([String: JSON].self) {
      self = .object(members)
    } else if (try? container.decode(Bool.self)) != nil {
      self = .bool
    } else if (try? container.decode(Double.self)) != nil {
      self = .number
    } else {
      _ = try container.decode(String.self)
      self = .text
    }
  }
}
