import ArgumentParser
import CanopyRules
import CanopyTree
import Foundation

/// `canopy rules get`.
struct GetRules: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "get", abstract: "Print the rules in force on a running server.")
  @OptionGroup var server: AdministratorOptions
  @Flag(help: "Print the built-in rules instead; no server is needed.") var builtIn = false

  func run() async throws {
    try await Failure.explaining {
      var text = BuiltInRules.text
      if !builtIn {
        let reply = try await server.use { connection in try await connection.success("RULES") }
        text = reply["text"]?.string ?? ""
      }
      // The text is unchanged, so that setting it again changes nothing.
      try Output.bytes(Data((text.hasSuffix("\n") ? text : text + "\n").utf8))
    }
  }
}

/// `canopy rules set`.
struct SetRules: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "set", abstract: "Replace the rules of a running server.",
    discussion: """
      The command checks the rules first. If it succeeds, they are in force and stored in the data \
      folder, and the server has authorized all subscriptions again. If it fails, nothing has changed.
      """)
  @OptionGroup var server: AdministratorOptions
  @Argument(help: "The file with the rules; - is stdin.") var file: String

  func run() async throws {
    try await Failure.explaining {
      let source = RulesSource(file)
      let argument = source.isBuiltIn ? RulesSource.builtIn : try Line.quoted(source.checkedText())
      let line = "RULES " + argument
      try await server.use { connection in
        let lineBytes = try await connection.success("HELLO")["limits"]?["lineBytes"]
        if case .leaf(let node) = lineBytes, let most = node.integerValue, line.utf8.count > most {
          throw Failure(
            "\(RulesSource.name(of: file)) takes \(line.utf8.count) bytes as a line of the protocol, and the server "
              + "allows \(most); start the server with a larger --line-bytes-max, or stop it and copy the file "
              + "to rules.json in the data folder")
        }
        _ = try await connection.success(line)
      }
      Output.note("the rules are in force")
    }
  }
}

/// `canopy rules explain`.
struct ExplainRules: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "explain",
    abstract: "Explain which rules of a running server decide a request, and why.",
    discussion: """
      The command changes nothing and shows no data. Examples:
        canopy rules explain --data data @ada read /posts '{"limitToLast":10}'
        canopy rules explain --data data null set /posts/x/title '"Hello"'
        canopy rules explain --data data '{"uid":"x"}' update / '{"a":1,"b":null}'
      """)
  @OptionGroup var server: AdministratorOptions
  @Argument(help: "The user: a uid, @username, auth as JSON, or null for an anonymous client.")
  var who: String
  @Argument(help: "The operation: read, set, update or remove.") var operation: String
  @Argument(help: "The path.") var path: String
  @Argument(help: "The new value of a write, or the query of a read, as JSON.") var json: String?

  func run() async throws {
    try await Failure.explaining {
      let who =
        who == "null" || who.utf8.first == UInt8(ascii: "{") ? Line.joined(who) : Line.quoted(who)
      let words =
        [who, Line.quoted(operation), Line.quoted(path)] + (json.map { [Line.joined($0)] } ?? [])
      let line = "EXPLAIN " + words.joined(separator: " ")
      let reply = try await server.use { connection in try await connection.success(line) }
      for step in reply["steps"]?.elements ?? [] {
        func text(_ name: String) -> String { step[name]?.string ?? "" }
        var lineNumber = ""
        if case .leaf(let node) = step["line"], let number = node.integerValue {
          lineNumber = " (line \(number))"
        }
        try Output.line(text("rule") + lineNumber + " at \(text("at")): \(text("outcome"))")
        for part in step["parts"]?.elements ?? [] {
          let texts = part.elements?.compactMap(\.string) ?? []
          try Output.line("    " + texts.joined(separator: "  =>  "))
        }
      }
      let reason = reply["reason"]?.string
      try Output.line(reason.map { "denied: " + $0 } ?? "allowed")
    }
  }
}
