import Foundation

/// A PostgreSQL server on a data folder of its own. A commit is on the disk before its reply.
final class PostgresServer {
  private static let folderOfPrograms = "/usr/lib/postgresql/15/bin"

  let port: Int
  /// The name of the superuser, who needs no password.
  let user: String
  private let process: ChildProcess

  var usage: Usage { Usage(processID: process.processID, hasChildren: true) }

  /// The URL of the database that exists from the start.
  var url: String { "postgresql://\(user)@127.0.0.1:\(port)/postgres" }

  /// Makes the data folder, starts the server, and returns when it answers.
  ///
  /// - Parameter settings: further settings of the server, with their values.
  init(
    folder: String, checkpoints: Checkpoints = .later,
    settings: KeyValuePairs<String, String> = [:]
  ) throws {
    port = try freePort()
    // PostgreSQL refuses to run as root; Debian's package has created a user for it.
    let isRoot = getuid() == 0
    user = isRoot ? "postgres" : NSUserName()
    let programs = Self.folderOfPrograms
    try FileManager.default.createDirectory(
      atPath: folder, withIntermediateDirectories: true,
      attributes: [.posixPermissions: 0o700])
    if isRoot {
      try FileManager.default.setAttributes([.ownerAccountName: user], ofItemAtPath: folder)
    }
    func command(_ words: [String]) -> (String, [String]) {
      isRoot
        ? (
          "/usr/bin/setpriv",
          ["--reuid=postgres", "--regid=postgres", "--init-groups", "--"] + words
        ) : (words[0], Array(words.dropFirst()))
    }
    let (initialize, options) = command([
      "\(programs)/initdb", "-D", folder, "-U", user, "--auth=trust", "--encoding=UTF8",
      "--locale=C",
    ])
    try ChildProcess.run(initialize, options)
    let common: KeyValuePairs = [
      "listen_addresses": "127.0.0.1", "unix_socket_directories": "", "max_connections": "100",
      // The defaults are durable. There is memory for all data.
      "synchronous_commit": "on", "fsync": "on", "shared_buffers": "1GB", "jit": "off",
    ]
    let noCheckpoints: KeyValuePairs = ["max_wal_size": "8GB", "checkpoint_timeout": "30min"]
    let (serve, arguments) = command(
      ["\(programs)/postgres", "-D", folder, "-p", "\(port)"]
        + (Array(common) + Array(checkpoints == .later ? noCheckpoints : [:]) + Array(settings))
        .flatMap { ["-c", "\($0.key)=\($0.value)"] })
    // SIGQUIT ends it at once, with its processes.
    process = try ChildProcess(serve, arguments, log: folder + ".log", endedBy: SIGQUIT)
    _ = try process.waitUntilReady { try open() }
  }

  /// Opens a connection with a session.
  func open() throws -> Channel<PostgresFramer> {
    let channel = try Channel<PostgresFramer>(port: port)
    let reply = try channel.exchange(PostgresMessages.startup(user: user, database: "postgres"))
    guard !reply.frame.isError else { throw BenchFailure("starting a session: \(reply.text)") }
    return channel
  }

  /// Ends the server at once.
  func stop() {
    process.stop(SIGQUIT)
  }
}
