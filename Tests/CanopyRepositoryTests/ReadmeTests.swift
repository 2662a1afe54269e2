import Foundation
import Testing

struct ReadmeTests {
  let readme: Readme

  init() throws {
    readme = try Readme()
  }

  @Test func `every file that the README links to exists, and every module is in the tour`() throws
  {
    let links = readme.text.matches(of: /\]\(([^)#]+)\)/).map { String($0.1) }
    #expect(links.count > 20)
    for link in links where !link.contains("://") {
      #expect(Repository.contains(link), "\(link)")
    }
    for module in try Repository.modules() {
      #expect(
        readme.text.contains("**\(module)**") || readme.text.contains("`\(module)`"), "\(module)")
    }
    for script in readme.text.matches(of: /Scripts\/[-\w]+/).map({ String($0.0) }) {
      #expect(Repository.contains(script), "\(script)")
    }
  }

  @Test(.timeLimit(.minutes(5)))
  func `the data that the README shows has the fields of real data`() async throws {
    let block = try #require(readme.blocks.first { $0.language == "json" })
    let shown = Data(block.lines.joined(separator: "\n").utf8)
    let folder = try TemporaryFolder()
    let (data, file) = (folder.path("data"), folder.path("tree.json"))
    let seed = [
      "seed", "--data", data, Repository.root.appending(path: SeedTests.path).path,
    ]
    for arguments in [seed, ["export", "--data", data, "/", file]] {
      let outcome = try await Program.run(Program.canopy, arguments)
      try #require(outcome.status == 0, "\(outcome.errors)")
    }
    let real = try Data(contentsOf: URL(filePath: file))
    #expect(try Self.fields(in: shown) == Self.fields(in: real))
  }

  /// The locations of leaves with their types, all ids being one: `/users/ID/username text`.
  private static func fields(in json: Data) throws -> Set<String> {
    var fields: Set<String> = []
    func visit(_ value: JSON, _ path: String) {
      switch value {
      case .object(let members):
        for (key, child) in members {
          let isID = Readme.isID(key[...]) || path == "/usernames"
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

  @Test(.timeLimit(.minutes(5)))
  func `the commands for a data folder that the README shows succeed one after the other`()
    async throws
  {
    let folder = try TemporaryFolder()
    try FileManager.default.createSymbolicLink(
      at: folder.url.appending(path: "Seeds"),
      withDestinationURL: Repository.root.appending(path: "Seeds"))
    let shown = readme.blocks.flatMap(\.lines).filter { $0.hasPrefix("canopy ") }
    #expect(shown.count >= 5)
    for line in ["canopy seed --data data Seeds/demo.json"] + shown + ["canopy verify --data new"] {
      let words = line.prefix { $0 != "#" }.split(separator: " ").dropFirst().map(String.init)
      let outcome = try await Program.run(Program.canopy, words, in: folder.url)
      #expect(outcome.status == 0, "\(line): \(outcome.output)\(outcome.errors)")
    }
  }

  @Test(.timeLimit(.minutes(5)))
  func `the rules that the README shows can be used, and the cases go as it says`() async throws {
    let shown = readme.blocks.filter { $0.language == "jsonc" }
    try #require(shown.count == 2)
    let folder = try TemporaryFolder()
    let files = [folder.path("rules.json"), folder.path("cases.json")]
    for (file, block) in zip(files, shown) {
      try Data(block.lines.joined(separator: "\n").utf8).write(to: URL(filePath: file))
    }
    let outcome = try await Program.run(Program.canopy, ["rules", "test"] + files)
    #expect(outcome.output == "2 cases, 0 failed\n", "\(outcome.errors)")
  }

  @Test(.timeLimit(.minutes(5)))
  func `the options that the README names are those that there are, with their defaults`()
    async throws
  {
    var help: [String: String] = [:]
    for command in [
      "serve", "seed", "import", "export", "verify", "user list", "shell", "rules get", "rules set",
    ] {
      let outcome = try await Program.run(
        Program.canopy, ["help"] + command.split(separator: " ").map(String.init))
      try #require(outcome.status == 0)
      help[command] = outcome.output
    }
    let all = help.values.joined()
    let support = Repository.files(in: "Tests") + Repository.files(in: "Sources/CanopyTesting")
    let shell = try ScriptTests.scripts.map { try Repository.text($0) }.joined()
    let scripts = try shell + support.map { try Repository.text($0) }.joined()
    for match in readme.text.matches(of: /`?(--[a-z][a-z-]*|CANOPY_[A-Z_]+)/) {
      let name = String(match.1)
      let option = "--" + name.dropFirst(7).lowercased().replacing("_", with: "-")
      let exists =
        name.hasPrefix("--")
        ? all.contains(name + " ") || shell.contains("[\(name)") || name == "--help"
        : all.contains(option + " ") || scripts.contains(name)
      #expect(exists, "\(name)")
    }
    let serve = try #require(help["serve"]).split(whereSeparator: \.isWhitespace)
      .joined(separator: " ")
    let rows = readme.text.matches(of: /(?m)^\| `(--[a-z-]+)` \| (.+?) \|/)
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

  @Test func `every bound in Limits is told by HELLO, except those that say why not`() throws {
    // Seen by a client only in what they lead to, or implied by another.
    let untold = [
      "writeBytesMax": "a write is never larger than its line",
      "requestBytesMax": "requests wait to be read, and none is refused",
      "memoryMax": "a client that reads its replies does not meet it",
      "unreadReplyBytesMax": "whoever reads their replies never meets it",
      "wholeReplyBytesMax": "a larger reply has the same bytes",
      "clientsMax": "no client is refused: those that wrote longest ago are forgotten",
      "resumedCommitsMax": "no client is refused: everything is told anew",
      "resumedSizeMax": "a bound on what is measured for resumedCommitsMax",
      "resumptionsMax": "no client is refused: they wait for their turn",
      "connectionsMax": "whoever reads HELLO is connected",
      "connectionsPerAddressMax": "whoever reads HELLO is connected",
    ]
    let hello = try #require(
      readme.transcripts.flatMap(\.exchanges).first { $0.typed == "HELLO" }?.replies.first,
      "the README shows HELLO, and a test compares that with what the server says")
    let limits = try Repository.text("Sources/CanopyTree/Limits.swift")
      .matches(of: /public (?:static let|var) (\w+)Max\b/).map { String($0.1) }
    #expect(limits.count >= 8)
    for limit in limits where untold[limit + "Max"] == nil {
      #expect(hello.contains("\"\(limit)\":"), "\(limit)")
    }
  }
}

/// Tree data: no null, and here no arrays.
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
