import Foundation
import Testing

/// A pattern that must not return to the code, with its replacement.
struct Ban: CustomTestStringConvertible, Sendable {
  /// A regular expression that is searched in each line.
  var pattern: String
  /// The replacement.
  var instead: String
  /// The folders and files of Swift code that are searched, without comments and contents of strings; nil for every
  /// line of every file that people write.
  var places: [String]?
  /// The files, and folders with a `/` at the end, that need the pattern, with the reason.
  var allowed: [String: String] = [:]

  var testDescription: String { pattern }
}

extension Ban {
  static let all = [
    Ban(
      pattern:
        #"\bDate\(\)|\bDate\.now\b|clock_gettime|gettimeofday|\b(Continuous|Suspending)Clock\b"#,
      instead: "take the time as a parameter (`now`), so that a test or a replay sets it",
      places: ["Sources"],
      allowed: [
        "Sources/Blog/CanopyAccounts/AccountEnvironment.swift": "the one live clock of the server",
        "Sources/Client/CanopyClient/ClientEnvironment.swift": "the one live clock of a client",
        "Sources/Core/CanopyEngine/Engine.swift": "the default measure of work",
        "Sources/Core/CanopySystem/SystemClocks.swift":
          "the cheap clock of metrics and a measure of work, which metrics and the engine get as parameters",
        "Sources/Serving/canopy/Composition.swift": "the clock of the waits of checkpoints",
        "Sources/Tools/CanopyTesting/NodeJournal.swift":
          "the default clock of waits, which no result depends on",
        "Sources/Tools/CanopyTesting/NodeParts.swift":
          "the default clock of waits, which no result depends on",
        "Sources/Tools/CanopyClientBench/": "measures time, and is not part of the library",
        "Sources/Tools/CanopyBench/": "measures time, and is not part of the server",
      ]),
    Ban(
      pattern:
        #"\.random\(in:(?!.*using:)|SystemRandomNumberGenerator|\.(randomElement|shuffled|shuffle)\(\)|\bUUID\(\)"#,
      instead: "take the source of randomness as a parameter (`random`)",
      places: ["Sources"],
      allowed: [
        "Sources/Blog/CanopyAccounts/AccountEnvironment.swift": "the live source for secrets",
        "Sources/Serving/canopy/Composition.swift": "the live source for push ids",
        "Sources/Client/CanopyClient/ClientEnvironment.swift": "the live source of a client",
        "Sources/Tools/CanopyClientBench/": "draws a seed, which it prints",
        "Sources/Tools/CanopyBench/": "draws a seed, which it prints, and unique names",
        "Sources/Tools/CanopyTesting/": "draws a seed, which it prints",
      ]),
    Ban(
      pattern: #"@[A-Z][A-Z0-9]+@"#,
      instead: "measure the number that is missing here, and write it", places: nil),
    Ban(
      pattern: #"\b(print|debugPrint|dump|NSLog)\("#,
      instead: "write to the Logger; in the command, results go through `Output`",
      places: ["Sources"],
      allowed: [
        "Sources/Tools/CanopyBench/": "its measurements are its output",
        "Sources/Client/CanopyBlogSample/": "its results are its output",
        "Sources/Tools/CanopyClientBench/": "its measurements are its output",
        "Sources/Tools/CanopySimulator/": "its findings are its output",
        "Sources/Tools/CanopyFuzz/": "the list of decoders is its output",
        "Sources/Tools/CanopyTesting/": "the seed of a run, in the output of a test",
      ]),
    Ban(
      pattern: #"(^|[^.\w])(sleep|usleep|nanosleep)\(|\b(Task|Thread)\.sleep"#,
      instead:
        "wait for the event itself (a reply, a continuation, the end of a process, `eventually`), or "
        + "move a manual clock",
      places: ["Tests", "Sources/Tools/CanopyTesting"],
      allowed: [
        "Sources/Tools/CanopyTesting/StepClock.swift": "a clock that a test advances",
        "Sources/Tools/CanopyTesting/EagerClock.swift": "a clock whose sleeps end at once",
      ]),
    Ban(
      pattern: #"\b(rename|renameat2?)\(|\.(moveItem|replaceItem\w*)\("#,
      instead:
        "`FileCalls.renameFile`, which tests can make fail, and `AtomicFile.synchronizeFolder` after it; for a new data "
        + "folder, `NewFolder.fill`",
      places: [
        "Sources/Storage", "Sources/Serving/canopy", "Sources/Core/CanopySystem",
        "Sources/Blog/CanopyAccounts", "Sources/Blog/CanopyIdentity",
      ],
      allowed: [
        "Sources/Core/CanopySystem/FileCalls.swift": "the call itself"
      ]),
    Ban(
      pattern: #"\btry!"#, instead: "`try`, and let the test or the caller have the error",
      places: ["Sources", "Tests"]),
    Ban(
      pattern: #"\bas!"#, instead: "`as?` with a guard, or `try #require(… as? …)` in a test",
      places: ["Sources", "Tests"]),
    Ban(
      pattern: #"\.(first|last|min\(\)|max\(\)|randomElement\(\))!"#,
      instead: "`guard let`, or `try #require(…)` in a test", places: ["Sources", "Tests"]),
    Ban(
      pattern: #"\bfatalError\("#,
      instead:
        "throw an error with a sentence; use `precondition` for a state that only an error in this code "
        + "can cause",
      places: ["Sources", "Tests"]),
    Ban(
      pattern: #"\bimport XCTest\b"#,
      instead: "Swift Testing; Scripts/test runs no others", places: ["Tests"]),
    Ban(
      // Operations of `String` that compare or split characters: with a string literal, on a value that is not a
      // `Path`, in a closure, or on the texts of keys and nodes; and operations that fold case.
      pattern:
        #"([^h]|[^t]h|[^a]th|[^pP]ath)\.has(Prefix|Suffix)\("#
        + #"|\.(contains|split|(first|last)Index|(firstR|r)anges?|components|replacing\w*|starts"#
        + #"|trimming\w+)\((\w+: )?""[,)]|\{ ?\$0 (==|!=) """#
        + #"|\.(lowercased|uppercased|capitalized)\b|caseInsensitiveCompare|localizedStandard"#
        + #"|(^|[^s])\.(isLetter|isWhitespace|isNewline|isPunctuation|isUppercase|isLowercase)\b"#
        + #"|\.(text|stringValue) (==|!=) (?!nil)|(==|!=) [\w.?()$]*\.(text|stringValue)\b"#,
      instead:
        "data is bytes: `hasBytePrefix`, `hasSameBytes`, `asciiLowercased` and so on (CanopyTree), the "
        + "`utf8` view, or a `Key`; a character may form one grapheme with the next, and texts with other "
        + "bytes may be equal",
      places: ["Sources"],
      allowed: [
        "Sources/Core/CanopyRules/Evaluator+Values.swift":
          "the language has a method that folds case",
        "Sources/Blog/CanopyAccounts/EmailAddress.swift":
          "people type addresses in many ways, so they are folded and composed once, then compared by "
          + "bytes; the parts are scalars",
        "Sources/Blog/CanopyAccounts/PasswordPolicy.swift":
          "passwords that look alike are as easily guessed",
        "Sources/Blog/CanopyAccounts/CommonPasswords.swift": "a list in the program",
        "Sources/Client/CanopyClient/Auth/AuthError.swift": "a sentence of the server",
        "Sources/Serving/canopy/": "options of the command, and text for people",
        "Sources/Tools/CanopyBench/": "its own text, and that of other programs",
        "Sources/Tools/CanopyClientBench/": "its own text",
        "Sources/Tools/CanopySimulator/": "its own text",
        "Sources/Tools/CanopyFuzz/FuzzedDecoder+Identity.swift":
          "the pattern of a request, with names that it replaces; the decoders get the result",
        "Sources/Tools/CanopyTesting/": "the text of tests",
      ]),
    Ban(
      // Collections that compare texts, and comparisons of uids.
      pattern:
        #"\[String\??: |\b(Dictionary|Set|OrderedSet|RateLimiter|RecencyTable|RecencyOrder"#
        + #"|LeastUsedFirst|FairQueue|PathTrie)<String\b|\bSet\((?!.*ByteString).*\.(uid|token|name|client)\)"#
        + #"|\.(uid|owner) (==|!=) (?!nil)|(==|!=) [\w.?()$]*\.(uid|owner)\b(?!\.map)"#,
      instead:
        "a text that identifies something is compared by its bytes: a `Key` if it is the name of a child, "
        + "otherwise a `ByteString` (CanopyTree), or `[UInt8]` in CanopyAccounts; texts with other bytes may be equal",
      places: [
        "Sources/Core", "Sources/Storage", "Sources/Blog", "Sources/Serving",
        "Sources/Client/CanopyClient/Auth",
      ],
      allowed: [
        "Sources/Core/CanopyRules/Compiler+Members.swift": "the names of methods in the program",
        "Sources/Core/CanopySystem/ServiceManager.swift":
          "the variables of the process, whose names are in the program",
        "Sources/Core/CanopyRules/Compiler.swift": "the names of wildcards are ASCII",
        "Sources/Core/CanopyRules/RuleLoader.swift": "the names of wildcards are ASCII",
        "Sources/Core/CanopyRules/RuleCaseReader.swift": "the names of members in the program",
        "Sources/Core/CanopyRealtimeWire/Query+Wire.swift": "the names of options in the program",
        "Sources/Core/CanopyTree/Query/Query+Options.swift":
          "the names of options in the program",
        "Sources/Core/CanopyWire/Options.swift": "the names of options in the program",
        "Sources/Core/CanopyEngine/WriteTurns.swift": "networks, which the server writes",
        "Sources/Core/CanopyEngine/Listeners.swift": "networks, which the server writes",
        "Sources/Core/CanopyEngine/WriterWatch.swift": "the names of work in the program",
        "Sources/Storage/CanopySQLite/Meta.swift": "the names of numbers in the program",
        "Sources/Storage/CanopyPostgres/PostgresError.swift": "codes of PostgreSQL, in ASCII",
        "Sources/Storage/CanopyPostgres/Link.swift": "statements in the program",
        "Sources/Blog/CanopyIdentity/IdentityService+Tokens.swift":
          "the names of claims in the program; none has a character to which another is equivalent",
        "Sources/Blog/CanopyAccounts/PasswordHash.swift": "a hash of the store, in ASCII",
        "Sources/Serving/CanopyGateway/RequestOptions.swift": "the names of options in the program",
        "Sources/Serving/CanopyGateway/HTTPMetrics.swift": "methods, in ASCII",
        "Sources/Serving/CanopyGateway/Gateway.swift": "origins and hosts, in ASCII",
        "Sources/Serving/CanopyRealtime/RealtimeConnections.swift": "origins, in ASCII",
        "Sources/Serving/CanopySession/Session+Subscriptions.swift": "a uid that is a `Key`",
        "Sources/Serving/CanopyMetrics/MetricsText.swift":
          "the names of metrics in the program, and of namespaces, in ASCII",
        "Sources/Serving/canopy/": "options of the command, and the names in a fixture",
        "Sources/Client/CanopyClient/Auth/": "an interface of the original",
      ]),
    Ban(
      pattern: #"\bunsafeFlags\b"#,
      instead: "the settings that all targets share", places: ["Package.swift"]),
    // The pattern is written so that it does not match itself.
    Ban(
      pattern: #"\b(TO"# + #"DO|FIX"# + #"ME|XX"# + #"X|HA"# + #"CK)\b"#,
      instead: "finish it, or state the missing part and the reason in a comment"),
    Ban(
      pattern: #"(^|[^\w.)-])/(work|home|root|Users)/"#,
      instead: "a path from the root of the repository, or one that is given as a parameter"),
  ]
}

struct TidyTests {
  @Test(arguments: Ban.all)
  func `no file contains a banned pattern, except those with a reason`(_ ban: Ban) throws {
    let pattern = try TextPattern(ban.pattern)
    var allowedThatAreNeeded: Set<String> = []
    // Most files have no match. One search of all lines takes less time than a search of each.
    for (path, text) in try Self.texts(ban.places) where pattern.isFound(in: text) {
      let lines = text.split(separator: "\n", omittingEmptySubsequences: false)
      for (index, line) in lines.enumerated() where pattern.isFound(in: String(line)) {
        if let place = ban.allowed.keys.first(where: {
          $0.hasSuffix("/") ? path.hasPrefix($0) : path == $0
        }) {
          allowedThatAreNeeded.insert(place)
        } else {
          Issue.record("\(path):\(index + 1): \(line)\ninstead: \(ban.instead)")
        }
      }
    }
    #expect(allowedThatAreNeeded == Set(ban.allowed.keys), "an exception is no longer needed")
  }

  @Test func `the ban on operations on characters does not match operations on bytes`() throws {
    let ban = try #require(Ban.all.first { $0.pattern.contains("lowercased") })
    let pattern = try TextPattern(ban.pattern)
    for line in [
      #"text.hasSuffix("/x")"#, "name.hasPrefix(other)", "  .hasPrefix(other)",
      #"url.range(of: ":")"#,
      #"text.split(separator: " ")"#, #"path.contains("?")"#, #"text.drop { $0 == "/" }"#,
      "name.lowercased()", "a.stringValue == b", "a == key.text", "text.split { $0.isWhitespace }",
    ] {
      #expect(pattern.isFound(in: SwiftCode(line).text), "\(line)")
    }
    for line in [
      "location.path.hasPrefix(path)", "spec.path.hasPrefix(other)",
      #"bytes.starts(with: "x".utf8)"#,
      "text.utf8.contains(0x2F)", "scalar.properties.isWhitespace", "holder.stringValue == nil",
      "text.hasBytePrefix(other)", "name.asciiLowercased", "// name.lowercased()",
    ] {
      #expect(!pattern.isFound(in: SwiftCode(line).text), "\(line)")
    }
  }

  @Test func `the ban on identities that are texts does not match keys and bytes`() throws {
    let ban = try #require(Ban.all.first { $0.pattern.contains("RateLimiter") })
    let pattern = try TextPattern(ban.pattern)
    for line in [
      "let clients: [String: Client] = [:]", "var names: [String?: Owner]", "Set<String>",
      "Mutex<RateLimiter<String>>", "Set(found.map(\\.uid))", "user.uid == other.uid",
      "a.owner != b", "x == account.uid",
    ] {
      #expect(pattern.isFound(in: SwiftCode(line).text), "\(line)")
    }
    for line in [
      "let clients: [ByteString: Client] = [:]", "[Key: Int]", "Set<Key>", "RateLimiter<[UInt8]>",
      "account.uid.hasSameBytes(as: uid)", "origin.owner == nil", "names: [String]",
    ] {
      #expect(!pattern.isFound(in: SwiftCode(line).text), "\(line)")
    }
  }

  @Test func `each promise to the compiler has its reason in a comment beside it`() throws {
    let pattern = try TextPattern(
      #"@unchecked Sendable|nonisolated\(unsafe\)|unowned\(unsafe\)|@preconcurrency"#)
    for path in Repository.files(in: "Sources", suffix: ".swift") {
      guard try pattern.isFound(in: SwiftCode.ofFile(path).text) else { continue }
      let source = try Repository.text(path)
      let text = source.split(separator: "\n", omittingEmptySubsequences: false)
      for (index, line) in try SwiftCode.ofFile(path).lines.enumerated()
      where pattern.isFound(in: String(line)) {
        let nearby = text[max(0, index - 6)...index]
        #expect(
          nearby.contains { $0.contains("//") },
          "\(path):\(index + 1): say in a comment why this is safe: \(line)")
      }
    }
  }

  @Test(.enabled("in a clone, where git lists the tracked files") { Repository.contains(".git") })
  func `no build product and no data is tracked`() async throws {
    let tracked = try await Program.run(
      "/usr/bin/env", ["git", "-C", Repository.root.path, "ls-files"])
    #expect(tracked.status == 0, "\(tracked.errors)")
    let files = tracked.output.split(separator: "\n")
    #expect(files.contains("Package.swift"))
    let product =
      /(^|\/)(\.build[^\/]*|\.swiftpm|data|DerivedData)\/|\.(o|a|so|swiftmodule|xctest|sqlite|log|orig|rej)$|~$/
    for file in files {
      #expect(!file.contains(product), "\(file) is made by a build or a run; git rm --cached it")
    }
  }
}

extension TidyTests {
  private static func texts(_ places: [String]?) throws -> [(path: String, text: String)] {
    guard let places else {
      return try Repository.writtenFiles().map { ($0, try Repository.text($0)) }
    }
    let paths = places.flatMap {
      $0.hasSuffix(".swift") ? [$0] : Repository.files(in: $0, suffix: ".swift")
    }
    return try paths.map { ($0, try SwiftCode.ofFile($0).text) }
  }
}
