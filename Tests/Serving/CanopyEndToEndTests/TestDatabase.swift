#if PostgreSQL
  import CanopyTesting
  import CanopyTree
  import Foundation
  import Testing

  /// A database of its own for a test, on the server that `Scripts/postgres-test` starts.
  struct TestDatabase {
    /// The URL of the first database of the server, or nil if no server was started.
    static let base = ProcessInfo.processInfo.environment["CANOPY_POSTGRES_URL"]
    static let isMissing: Comment = "Scripts/postgres-test starts a database for these tests"

    /// The server has refused a statement.
    struct Refused: Error {
      let reason: String
    }

    /// The folder of the programs of PostgreSQL.
    static let programs =
      ProcessInfo.processInfo.environment["POSTGRES_BIN"] ?? "/usr/lib/postgresql/15/bin"

    /// The URL.
    let url: String

    init() async throws {
      let base = try #require(Self.base)
      let name = "test_" + UUID().uuidString.lowercased().replacing("-", with: "")
      try await Self.run("CREATE DATABASE \(name)", at: base)
      let end = try #require(base.lastIndex(of: "/"))
      url = base[...end] + name
    }

    /// Runs a statement, and returns the values that it finds, one on each line.
    @discardableResult
    func query(_ sql: String) async throws -> String { try await Self.run(sql, at: url) }

    @discardableResult
    private static func run(_ sql: String, at url: String) async throws -> String {
      let ending = try await Command.run(
        [
          "--no-psqlrc", "--quiet", "--tuples-only", "--no-align", "--set", "ON_ERROR_STOP=1",
          "--dbname", url + "?target_session_attrs=read-write", "--command", sql,
        ], program: programs + "/psql")
      guard ending.status == 0 else { throw Refused(reason: ending.errors) }
      return ending.text
    }
  }

  /// A node of a server: a process, and its data folder.
  struct NodeServer {
    let folder: TemporaryFolder
    let process: ServerProcess
    var data: String { folder.path + "/node" }

    /// Starts a node.
    ///
    /// - Parameter folder: that of an earlier run of the node; nil for a new one.
    init(
      _ url: String, folder: TemporaryFolder? = nil, _ arguments: [String] = [],
      environment: [String: String] = [:], through command: [String] = []
    ) async throws {
      let folder = try folder ?? TemporaryFolder()
      self.folder = folder
      process = try await ServerProcess(
        data: folder.path + "/node", ["--postgres", url] + arguments, environment: environment,
        through: command)
    }

    /// Connects as the administrator.
    func administrator() async throws -> LineSocketClient {
      let client = try await process.connect()
      try await client.value(try ServerProcess.authentication(data: data))
      return client
    }
  }

  extension LineSocketClient {
    /// Returns the number of the commit of a write.
    func sequence(_ line: String) async throws -> Int64 {
      try #require(try await value(line)["seq"]?.integer)
    }
  }
#endif
