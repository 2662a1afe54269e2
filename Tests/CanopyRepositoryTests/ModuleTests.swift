import Foundation
import Testing

/// Which module may know which: dependencies point one way only, and what a module must not know it
/// cannot even name. The compiler refuses an import that Package.swift does not declare; this keeps
/// what may be declared.
struct ModuleTests {
  /// What each module may import. Later modules may use earlier ones, never the other way round.
  static let allowed: [(module: String, imports: Set<String>)] = [
    ("CArgon2", []),
    ("CEpoll", []),
    // Calls of the operating system that several modules need.
    ("CanopySystem", ["Glibc", "Musl", "Synchronization"]),
    // No I/O, no clock, no logging: a value and what can be computed from it.
    ("CanopyTree", ["Crypto", "Foundation", "Synchronization"]),
    // Not sockets, storage or who is logged in: a tree, a caller and a verdict.
    ("CanopyRules", ["CanopyTree"]),
    // Not SQLite, sockets or posts.
    (
      "CanopyEngine",
      ["CanopySystem", "CanopyTree", "DequeModule", "Dispatch", "Logging", "Synchronization"]
    ),
    // Not the tree, not sockets.
    (
      "CanopyAccounts",
      ["CArgon2", "CanopySystem", "Crypto", "Foundation", "Glibc", "Musl", "Synchronization"]
    ),
    // The only one of the server that knows GRDB. Not what the tree means.
    (
      "CanopyStore",
      [
        "CanopyTree", "CanopyEngine", "CanopyAccounts", "Dispatch", "Foundation", "GRDB",
        "GRDBSQLite", "Logging", "Synchronization",
      ]
    ),
    // Not sockets, SQL or the text of JSON.
    ("CanopySocial", ["CanopyTree", "CanopyEngine"]),
    // Not NIO, not the engine: for both ends of a connection.
    ("CanopyWire", ["CanopyTree"]),
    // Not the engine, not the server: what an application links.
    (
      "CanopyClient",
      [
        "CanopyTree", "CanopyWire", "DequeModule", "Dispatch", "Foundation", "GRDB", "Logging",
        "NIOCore", "NIOPosix", "NIOSSL", "Synchronization",
      ]
    ),
    // Not sockets, event loops or SQL: a connection without its transport, and the requests themselves.
    (
      "CanopySession",
      [
        "CanopyTree", "CanopyRules", "CanopyEngine", "CanopyAccounts", "CanopySocial", "CanopyWire",
        "DequeModule", "Dispatch", "Foundation", "Logging", "Synchronization",
      ]
    ),
    // Not SQL.
    (
      "CanopyServer",
      [
        "CanopyTree", "CanopyRules", "CanopyEngine", "CanopyAccounts", "CanopySession",
        "CanopySocial", "CanopyWire", "DequeModule", "Dispatch", "Foundation", "Logging", "NIOCore",
        "NIOExtras", "NIOPosix",
        "ServiceLifecycle",
        "Synchronization",
      ]
    ),
    // Puts the others together, and only that: not GRDB.
    (
      "canopy",
      [
        "ArgumentParser", "CanopyAccounts", "CanopyEngine", "CanopyRules", "CanopyServer",
        "CanopySession",
        "CanopySocial", "CanopyStore", "CanopyTree", "Foundation", "Logging", "NIOCore", "NIOPosix",
        "ServiceLifecycle", "Synchronization", "UnixSignals",
      ]
    ),
    // Support for tests: may know all that a test may, but not GRDB. Not part of the server.
    (
      "CanopyTesting",
      [
        "CanopyAccounts", "CanopyEngine", "CanopyServer", "CanopySession", "CanopySocial",
        "CanopyStore",
        "CanopyTree", "CanopyWire", "Foundation", "Glibc", "Logging", "NIOCore", "NIOEmbedded",
        "NIOPosix", "ServiceLifecycle", "Synchronization", "Testing",
      ]
    ),
    // An application, as small as can be: by the client library alone.
    ("CanopyBlogSample", ["CanopyClient"]),
    // Measures the client library through its public interface; of the tree only the random generator.
    (
      "CanopyClientBench",
      [
        "ArgumentParser", "CanopyClient", "CanopyTree", "Dispatch", "Foundation", "Logging",
        "NIOCore",
        "NIOPosix", "Synchronization",
      ]
    ),
    // Measures the command from outside, so no part of it but JSON; and the core of the client library.
    (
      "CanopyBench",
      [
        "ArgumentParser", "CEpoll", "CanopyClient", "CanopyTree", "Foundation", "Histogram",
        "NIOCore", "NIOPosix", "Synchronization",
      ]
    ),
  ]

  @Test func `every module says what it may import`() throws {
    #expect(
      try Set(Repository.modules()) == Set(Self.allowed.map(\.module)),
      "a new module goes into the list in this test, with what it may import")
  }

  @Test(arguments: allowed)
  func `a module imports only what it may know`(module: String, imports: Set<String>) throws {
    for path in Repository.files(in: "Sources/\(module)", suffix: ".swift") {
      for (line, name) in Self.imports(try Repository.text(path)) {
        #expect(
          imports.contains(name),
          "\(path):\(line): \(module) must not know \(name); the list in ModuleTests.swift says why"
        )
      }
    }
  }

  @Test func `dependencies point down the list only`() {
    var earlier: Set<String> = []
    let modules = Set(Self.allowed.map(\.module))
    for (module, imports) in Self.allowed {
      #expect(imports.intersection(modules).isSubset(of: earlier), "\(module) looks upwards")
      earlier.insert(module)
    }
  }

  @Test func `every import is seen, however it is written`() {
    let source = """
      import A
      public import struct B.C
      @testable import D
      @preconcurrency internal import E
        import F  // why
      // import G
      let text = "import H"
      """
    #expect(Self.imports(source).map(\.name) == ["A", "B", "D", "E", "F"])
  }

  @Test func `every target is built with the common settings`() throws {
    let package = try Repository.text("Package.swift")
    let targets = package.matches(of: /\.(target|executableTarget|testTarget)\(/).count
    let settings = package.matches(of: /swiftSettings: settings\)/).count
    // Samples for applications are compiled as applications are.
    let samples = package.matches(of: /swiftSettings: applicationSettings\)/).count
    #expect(samples == 1)
    #expect(
      targets == settings + samples, "each target of Swift code has `swiftSettings: settings`")
  }

  private static func imports(_ source: String) -> [(line: Int, name: String)] {
    SwiftCode(source).lines.enumerated().compactMap { index, line in
      line.firstMatch(
        of:
          /^\s*(?:@\w+\s+)*(?:\w+\s+)?import\s+(?:(?:struct|class|enum|protocol|func|var|let|typealias)\s+)?(\w+)/
      ).map { (index + 1, String($0.1)) }
    }
  }
}
