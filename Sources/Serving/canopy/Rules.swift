import ArgumentParser
import CanopyRules
import Foundation

struct Rules: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Check, test, explain and replace security rules.",
    discussion: """
      In place of a file with rules, the word built-in names the built-in rules.
      """,
    subcommands: [
      Check.self, Test.self, ExplainRules.self, GetRules.self, SetRules.self,
    ])

  struct Check: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      abstract: "Check a file with rules, and print one line for each problem.",
      discussion: "The exit code is 1 if there is a problem.")
    @Argument(help: "The file with the rules; - is stdin.") var file: String

    func run() async throws {
      try await Failure.explaining {
        _ = try RulesSource(file).load()
        try Output.line("ok")
      }
    }
  }

  struct Test: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      abstract: "Test rules: compare their decisions about requests with expected ones.",
      discussion: """
        For each case with another decision than expected, the command prints how the rules decided. \
        The exit code is 1 if there is such a case.
        """)
    @Argument(help: "The file with the rules; - is stdin.") var file: String
    @Argument(help: "The file with the cases; - is stdin.") var cases: String

    func validate() throws {
      guard file != "-" || cases != "-" else {
        throw ValidationError(
          "the rules and the cases cannot both be stdin; name a file for one of them")
      }
    }

    func run() async throws {
      let failed = try await Failure.explaining {
        let rules = try RulesSource(file).load()
        let name = RulesSource.name(of: cases)
        guard let text = String(validating: try RulesSource.bytes(cases), as: UTF8.self) else {
          throw Failure("\(name): the file is not UTF-8; save it as UTF-8")
        }
        let outcomes: [RuleCases.Outcome]
        do throws(RuleCaseError) { outcomes = try RuleCases(json: text).run(rules) } catch {
          throw Failure("\(name): \(error.sentence)")
        }
        let failed = outcomes.filter { !$0.isAsExpected }
        for outcome in failed {
          try Output.line(
            "FAILED: \(outcome.name): expected \(outcome.isAllowed ? "allow" : "deny")")
          for line in outcome.explanation.text.split(separator: "\n") {
            try Output.line("  " + line)
          }
        }
        try Output.line("\(outcomes.count) cases, \(failed.count) failed")
        return failed.count
      }
      if failed > 0 { throw ExitCode(1) }
    }
  }
}

/// The source of rules in the arguments of a command: a file, stdin or the built-in rules.
struct RulesSource {
  /// The word that names the built-in rules.
  static let builtIn = "built-in"

  private let name: String

  init(_ name: String) {
    self.name = name
  }

  var isBuiltIn: Bool { name == RulesSource.builtIn }

  /// Returns the rules after checking them.
  func load() throws -> RuleSet {
    if isBuiltIn { return try BuiltInRules.load() }
    return try RuleSet(utf8: try RulesSource.bytes(name), file: Self.name(of: name))
  }

  /// Returns the text of the rules after checking it.
  func checkedText() throws -> String {
    let bytes = try RulesSource.bytes(name)
    _ = try RuleSet(utf8: bytes, file: Self.name(of: name))
    return String(decoding: bytes, as: UTF8.self)
  }

  /// Returns the name of a file for errors.
  static func name(of file: String) -> String {
    file == "-" ? "stdin" : file
  }

  /// More bytes than rules and their cases have. A file may have no end.
  private static let bytesMax = 64 * 1024 * 1024

  /// Returns the bytes of a file or a pipe, or of stdin for `-`.
  static func bytes(_ file: String) throws -> [UInt8] {
    func failure() -> Failure {
      Failure("\(name(of: file)) cannot be read: \(String(cString: strerror(errno)))")
    }
    let descriptor = file == "-" ? STDIN_FILENO : open(file, O_RDONLY | O_CLOEXEC)
    guard descriptor >= 0 else { throw failure() }
    defer { if descriptor != STDIN_FILENO { close(descriptor) } }
    var bytes: [UInt8] = []
    var buffer = [UInt8](repeating: 0, count: 65_536)
    while true {
      let count = read(descriptor, &buffer, buffer.count)
      if count < 0, errno == EINTR { continue }
      guard count >= 0 else { throw failure() }
      if count == 0 { return bytes }
      bytes += buffer.prefix(count)
      guard bytes.count <= bytesMax else {
        throw Failure("\(name(of: file)) has more than \(bytesMax) bytes; name a file with rules")
      }
    }
  }
}
