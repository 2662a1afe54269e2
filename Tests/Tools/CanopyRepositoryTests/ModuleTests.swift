import Foundation
import Testing

/// The modules that each module may import, and the order of the floors that group them.
///
/// The compiler refuses an import that Package.swift does not declare. These tests limit what may be declared.
struct ModuleTests {
  private struct Rule: Sendable, CustomTestStringConvertible {
    let floor: String
    let module: String
    let imports: Set<String>

    var testDescription: String { module }

    init(_ floor: String, _ module: String, _ imports: Set<String>) {
      self.floor = floor
      self.module = module
      self.imports = imports
    }
  }

  /// The floors that the modules of each floor may import from, besides their own.
  private static let floors: [String: Set<String>] = [
    "Core": [],
    "Blog": ["Core", "Tools"],
    "Storage": ["Core", "Blog", "Tools"],
    "Serving": ["Core", "Blog", "Storage", "Tools"],
    "Client": ["Core"],
    "Tools": ["Core", "Blog", "Storage", "Serving", "Client"],
  ]

  /// Modules of a floor that others may import only because they are C libraries.
  private static let libraries: Set<String> = [
    "CArgon2", "CEpoll", "CFaultyDisk", "CLibpq", "CMallocCount", "CPrefetch", "CSimulation",
    "CZlib",
  ]

  /// The rules in their order. A module may import only modules that precede it.
  private static let rules = [
    Rule("Tools", "CArgon2", []),
    Rule("Tools", "CEpoll", []),
    Rule("Tools", "CFaultyDisk", []),
    Rule("Tools", "CMallocCount", []),
    Rule("Tools", "CLibpq", []),
    Rule("Tools", "CSimulation", []),
    Rule("Tools", "CZlib", []),

    // An instruction that Swift cannot express.
    Rule("Core", "CPrefetch", []),
    // Calls of the operating system that several modules need.
    Rule("Core", "CanopySystem", ["Glibc", "Musl", "Synchronization"]),
    // No input or output, clock or logging: values and pure functions.
    Rule("Core", "CanopyTree", ["CPrefetch", "Crypto", "Foundation", "Synchronization"]),
    // Not sockets, storage or accounts: a tree, a caller and a decision.
    Rule("Core", "CanopyRules", ["CanopyTree"]),
    // Not NIO, not the engine: for both ends of a connection.
    Rule("Core", "CanopyWire", ["CanopyTree"]),
    // Not NIO, not the engine: text, for both ends of a WebSocket.
    Rule("Core", "CanopyRealtimeWire", ["CanopyTree", "CanopyWire"]),
    // Not SQLite, sockets or posts.
    Rule(
      "Core", "CanopyEngine",
      [
        "CanopySystem", "CanopyTree", "DequeModule", "Dispatch", "HeapModule", "Logging",
        "Synchronization",
      ]),

    // Not the tree, not sockets.
    Rule(
      "Blog", "CanopyAccounts",
      ["CArgon2", "CanopySystem", "Crypto", "Foundation", "Glibc", "Musl", "Synchronization"]),
    // Not sockets, HTTP servers, SQL or posts.
    Rule(
      "Blog", "CanopyIdentity",
      [
        "CanopyAccounts", "CanopyRules", "CanopySystem", "CanopyTree", "Crypto", "Foundation",
        "JWTKit", "Synchronization",
      ]),
    // Not sockets, SQL or the text of JSON.
    Rule("Blog", "CanopySocial", ["CanopyTree", "CanopyEngine", "Dispatch", "Synchronization"]),

    // Not SQL: the form of rows, and the order of work that every store shares.
    Rule(
      "Storage", "CanopyRows",
      ["CanopySystem", "CanopyTree", "CanopyEngine", "Foundation", "Synchronization"]),
    // The only module of the server that knows GRDB. It does not know the meaning of the tree.
    Rule(
      "Storage", "CanopySQLite",
      [
        "CanopySystem", "CanopyTree", "CanopyEngine", "CanopyAccounts", "CanopyRows", "Dispatch",
        "Foundation", "GRDB", "GRDBSQLite", "Logging", "Synchronization",
      ]),
    // Not SQL, requests or sockets: the files of backups. Not the meaning of the tree.
    Rule(
      "Storage", "CanopyBackup",
      [
        "CanopyEngine", "CanopySQLite", "CanopySystem", "CanopyWire", "Crypto", "Foundation",
        "Logging", "Synchronization",
      ]),
    // The only module that knows libpq. It does not know the meaning of the tree.
    Rule(
      "Storage", "CanopyPostgres",
      [
        "CLibpq", "CanopyAccounts", "CanopyEngine", "CanopyRows", "CanopySystem", "CanopyTree",
        "Foundation", "Glibc", "Logging", "Musl", "Synchronization",
      ]),

    // Not sockets, connections or SQL: numbers, and their text.
    Rule(
      "Serving", "CanopyMetrics",
      ["CanopyEngine", "CanopyTree", "CanopyWire", "CoreMetrics", "Synchronization"]),
    // Not sockets, event loops or SQL: a connection without its transport, and the requests themselves.
    Rule(
      "Serving", "CanopySession",
      [
        "CanopySystem", "CanopyTree", "CanopyRules", "CanopyEngine", "CanopyAccounts",
        "CanopyIdentity", "CanopyMetrics", "CanopySocial", "CanopyWire",
        "DequeModule", "Dispatch", "Foundation", "HeapModule", "Logging",
        "Synchronization",
      ]),
    // Not requests or the sockets of a protocol: events, and the connections that receive them.
    Rule(
      "Serving", "CanopyEvents",
      [
        "CanopySystem", "CanopyTree", "CanopyEngine", "CanopyAccounts", "CanopyMetrics",
        "CanopySession", "CanopyWire", "CanopyRealtimeWire", "DequeModule", "Dispatch",
        "Foundation", "Logging", "NIOCore",
        "NIOExtras", "NIOPosix", "NIOSSL", "NIOTLS", "Synchronization",
      ]),
    // Not SQL.
    Rule(
      "Serving", "CanopyLineServer",
      [
        "CanopyTree", "CanopyRules", "CanopyEngine", "CanopyAccounts", "CanopyEvents",
        "CanopyMetrics", "CanopySession", "CanopySocial", "CanopyWire", "DequeModule", "Dispatch",
        "Foundation",
        "Logging", "NIOCore", "NIOExtras",
        "NIOPosix", "ServiceLifecycle", "Synchronization",
      ]),
    // Not SQL, not HTTP: WebSockets that a listener has upgraded.
    Rule(
      "Serving", "CanopyRealtime",
      [
        "CanopyTree", "CanopyRules", "CanopyEngine", "CanopyWire", "CanopyRealtimeWire",
        "CanopyMetrics", "CanopySession", "CanopyEvents", "CanopyLineServer", "DequeModule",
        "Logging", "NIOCore",
        "NIOExtras", "NIOWebSocket", "Synchronization",
      ]),
    // Not HTTP: files, and the paths at which they are served.
    Rule("Serving", "CanopyWeb", ["Crypto"]),
    // Not SQL, not the text of other protocols: HTTP.
    Rule(
      "Serving", "CanopyGateway",
      [
        "CZlib", "CanopyTree", "CanopyEngine", "CanopyWire", "CanopyIdentity", "CanopyMetrics",
        "CanopySession", "CanopyEvents", "CanopyRealtime", "CanopyWeb", "CoreMetrics",
        "DequeModule",
        "Foundation", "HTTPTypes",
        "HummingbirdCore", "Logging", "NIOCore", "NIOExtras", "NIOHTTP1", "NIOHTTPTypes",
        "NIOHTTPTypesHTTP1", "NIOPosix", "NIOWebSocket", "ServiceLifecycle", "Synchronization",
      ]),
    // Composes the others. Not GRDB.
    Rule(
      "Serving", "canopy",
      [
        "ArgumentParser", "CanopyAccounts", "CanopyBackup", "CanopyEngine", "CanopyEvents",
        "CanopyGateway", "CanopyIdentity", "CanopyMetrics", "CanopyPostgres", "CanopyRules",
        "CanopyLineServer",
        "CanopySession", "CanopySocial", "CanopySQLite", "CanopySystem", "CanopyTree", "CanopyWire",
        "Dispatch", "Foundation", "Logging", "NIOCore",
        "NIOPosix", "ServiceLifecycle", "Synchronization", "UnixSignals",
      ]),

    // Not the engine, not the server: the library that an application links.
    Rule(
      "Client", "CanopyClient",
      [
        "CanopyTree", "CanopyWire", "CanopyRealtimeWire", "DequeModule", "Dispatch", "Foundation",
        "GRDB", "Logging", "NIOCore", "NIOHTTP1", "NIOPosix", "NIOSSL", "NIOWebSocket",
        "Synchronization",
      ]),
    // A small application that uses the client library alone.
    Rule("Client", "CanopyBlogSample", ["CanopyClient"]),

    // Support for tests. Not part of the server, and not GRDB.
    Rule(
      "Tools", "CanopyTesting",
      [
        "CanopyAccounts", "CanopyEngine", "CanopyIdentity", "CanopyLineServer", "CanopySession",
        "CanopySocial", "CanopySQLite", "CanopySystem", "CanopyTree", "CanopyWire", "Foundation",
        "Glibc", "Logging", "Musl", "NIOCore",
        "NIOEmbedded", "NIOPosix", "NIOSSL", "ServiceLifecycle", "Synchronization", "Testing",
      ]),
    // Runs the others in a simulated world. It needs everything that the line protocol and the client library need.
    Rule(
      "Tools", "CanopySimulator",
      [
        "ArgumentParser", "CSimulation", "CanopyAccounts", "CanopyClient", "CanopyEngine",
        "CanopyLineServer", "CanopySession", "CanopySocial", "CanopyTesting", "CanopyTree",
        "CanopyWire", "DequeModule", "Dispatch", "Foundation", "Logging", "NIOCore",
      ]),
    // Gives the decoders of all modules any bytes. Not sockets, and not threads.
    Rule(
      "Tools", "CanopyFuzz",
      [
        "CanopyAccounts", "CanopyBackup", "CanopyClient", "CanopyEngine", "CanopyGateway",
        "CanopyIdentity", "CanopyLineServer", "CanopyRealtime", "CanopyRealtimeWire", "CanopyRows",
        "CanopyRules", "CanopySQLite", "CanopySession", "CanopySocial", "CanopyTesting",
        "CanopyTree", "CanopyWire", "Crypto", "Dispatch", "Foundation", "HTTPTypes", "Logging",
        "NIOCore", "NIOEmbedded", "NIOHTTPTypes", "NIOWebSocket", "Synchronization",
      ]),
    // Measures the client library through its public interface. It needs the tree for its random generator.
    Rule(
      "Tools", "CanopyClientBench",
      [
        "ArgumentParser", "CanopyClient", "CanopyTree", "Dispatch", "Foundation", "Logging",
        "NIOCore",
        "NIOPosix", "Synchronization",
      ]),
    // Measures the command from outside. It needs the tree for JSON.
    Rule(
      "Tools", "CanopyBench",
      [
        "ArgumentParser", "CEpoll", "CanopyClient", "CanopyTree", "Foundation", "HTTPTypes",
        "Histogram", "Hummingbird", "Logging", "NIOHTTP1",
        "NIOCore",
        "NIOPosix", "Synchronization",
      ]),
  ]

  @Test func `every module has a rule, and is on the floor of its rule`() throws {
    #expect(
      try Set(Repository.modules().map(\.path))
        == Set(Self.rules.map { "Sources/\($0.floor)/\($0.module)" }),
      "add a new module to the rules in ModuleTests.swift, with the modules that it may import")
  }

  @Test(arguments: rules)
  private func `a module imports only modules of its rule`(rule: Rule) throws {
    for path in Repository.files(in: "Sources/\(rule.floor)/\(rule.module)", suffix: ".swift") {
      for (line, name) in Self.imports(try SwiftCode.ofFile(path)) {
        #expect(
          rule.imports.contains(name),
          "\(path):\(line): \(rule.module) must not import \(name); ModuleTests.swift has the reason"
        )
      }
    }
  }

  @Test
  func `a module imports only modules that precede it, on floors that its floor may use`()
    throws
  {
    var earlier: [String: String] = [:]
    for rule in Self.rules {
      let floors = try #require(Self.floors[rule.floor], "\(rule.floor) is not a floor")
      for name in rule.imports where Self.rules.contains(where: { $0.module == name }) {
        guard let floor = earlier[name] else {
          Issue.record("\(rule.module) imports \(name), which follows it")
          continue
        }
        #expect(
          floor == rule.floor || floors.contains(floor),
          "\(rule.module) imports \(name): the floor \(rule.floor) must not use the floor \(floor)")
        if floor == "Tools", rule.floor != "Tools" {
          #expect(Self.libraries.contains(name), "\(rule.module) imports \(name), which is a tool")
        }
      }
      earlier[rule.module] = rule.floor
    }
  }

  @Test func `imports in all forms are found`() {
    let source = """
      import A
      public import struct B.C
      @testable import D
      @preconcurrency internal import E
        import F  // why
      // import G
      let text = "import H"
      """
    #expect(Self.imports(SwiftCode(source)).map(\.name) == ["A", "B", "D", "E", "F"])
  }

  @Test func `every target is built with the common settings`() throws {
    let package = try Repository.text("Package.swift")
    let targets = package.matches(of: /\.(target|executableTarget|testTarget)\(/).count
    let settings = package.matches(of: /swiftSettings: settings\)/).count
    // Samples for applications are compiled as applications are.
    let samples = package.matches(of: /swiftSettings: applicationSettings\)/).count
    #expect(samples == 1)
    // Their names begin with a C and another capital letter.
    let written = package.matches(of: /\.target\(name: "C[A-Z]/).count
    #expect(
      targets == settings + samples + written,
      "each target of Swift code has `swiftSettings: settings`")
  }

  private static func imports(_ code: SwiftCode) -> [(line: Int, name: String)] {
    let pattern =
      /^\s*(?:@\w+\s+)*(?:\w+\s+)?import\s+(?:(?:struct|class|enum|protocol|func|var|let|typealias)\s+)?(\w+)/
      .matchingSemantics(.unicodeScalar)
    return code.lines.enumerated().compactMap { index, line in
      line.firstMatch(of: pattern).map { (index + 1, String($0.1)) }
    }
  }
}
