import CanopyTree
import Foundation

/// Canopy as a peer: on a data folder, or as nodes on a PostgreSQL server.
final class CanopyPeer: Peer {
  let name: PeerName
  /// The server, or the first node.
  let server: Server
  /// The other nodes.
  private(set) var nodes: [Server] = []
  /// The server with the journal; nil if it is in the folder.
  let postgres: PostgresServer?
  private let data: DataSet
  private let tokens: [String]
  /// The port of HTTP.
  let httpPort: Int
  private let dialect: LineDialect
  private var client: LoadClient<LineDialect>?

  var usage: Usage {
    Usage(
      processID: server.processID,
      others: nodes.map { Usage(processID: $0.processID) } + (postgres.map { [$0.usage] } ?? []))
  }

  /// Starts a server on a data folder.
  ///
  /// - Parameters:
  ///   - postgres: a server to which the data of the folder are moved first. A node on it then takes the place of a server
  ///     on the folder.
  ///   - arguments: further options of `canopy serve`.
  init(
    _ data: DataSet, folder: String, tokens: [String], movedTo postgres: PostgresServer? = nil,
    checkpoints: Checkpoints = .later, arguments: [String] = []
  ) throws {
    self.data = data
    self.tokens = tokens
    self.postgres = postgres
    name = postgres == nil ? .canopy : .canopyOnPostgres
    dialect = LineDialect(data)
    if let postgres {
      let outcome = try Server.run(["migrate", "--from", folder, "--to", postgres.url])
      guard outcome.status == 0 else { throw BenchFailure("canopy migrate: \(outcome.output)") }
    }
    server = try CanopyPeer.start(
      postgres == nil ? folder : folder + "-node", postgres, checkpoints, arguments)
    guard let port = server.httpPort else { throw BenchFailure("Canopy has no port for HTTP") }
    httpPort = port
  }

  private static func start(
    _ folder: String, _ postgres: PostgresServer?, _ checkpoints: Checkpoints,
    _ arguments: [String] = []
  ) throws -> Server {
    let pace =
      switch checkpoints {
      case .later:
        [
          "--checkpoint-after", "3600", "--checkpoint-every", "100000000",
          "--checkpoint-bytes", "1000000000000",
        ]
      case .byDefault: [] as [String]
      }
    return try Server(
      folder: folder,
      arguments: pace + arguments + (postgres.map { ["--postgres", $0.url] } ?? []),
      hasHTTP: true)
  }

  /// Starts another node on the PostgreSQL server.
  func addNode() throws {
    guard let postgres else { throw BenchFailure("a data folder has one server only") }
    nodes.append(try CanopyPeer.start(server.folder + "-\(nodes.count + 2)", postgres, .later))
  }

  /// Whether this is a node of a PostgreSQL server.
  var isNode: Bool { postgres != nil }
  /// The server or all nodes.
  var servers: [Server] { [server] + nodes }

  func connect(_ connections: Int) throws {
    client = try load(connections, on: [server])
  }

  /// Opens a logged-in connection for each of the first users, and spreads them over servers.
  func load(_ connections: Int, on servers: [Server]) throws -> LoadClient<LineDialect> {
    try LoadClient(
      dialect,
      tokens.prefix(connections).enumerated().map { index, token in
        let channel = try Channel<LineFramer>(port: servers[index % servers.count].port)
        let reply = try channel.exchange(Array("AUTH \(token)\n".utf8))
        guard !reply.frame.isError else { throw BenchFailure("AUTH: \(reply.text)") }
        return channel
      })
  }

  func run(_ round: Round) throws -> Sample {
    try connectedClient().run(round, usage: usage.cpuSeconds)
  }

  /// Returns the load generator of the connections.
  func connectedClient() throws -> LoadClient<LineDialect> {
    guard let client else { throw BenchFailure("Canopy is not connected") }
    return client
  }

  /// Connects as the administrator, who may read and write the whole tree.
  func administrator() throws -> LineSocket {
    let socket = try LineSocket(port: server.port)
    _ = try socket.success("AUTH \(try administratorToken())")
    return socket
  }

  func administratorToken() throws -> String {
    try String(contentsOfFile: server.folder + "/admin-token", encoding: .utf8)
      .trimmingCharacters(in: .whitespacesAndNewlines)
  }

  /// Returns the resident bytes of a server without posts.
  static func residentBytes(_ folders: CanopyFolders) throws -> Int {
    let server = try Server(folder: folders.accounts)
    let bytes = Usage(processID: server.processID).residentBytes()
    try server.stop()
    return bytes
  }

  func totals() throws -> Totals? {
    let socket = try administrator()
    let copies = try (0..<data.users).reduce(0) { sum, user in
      sum + (try count(socket, "/user-posts/\(data.uid(user))"))
    }
    let key = try keyOfPopularPost()
    let post = try socket.success("SHOW \(key)")
    guard case .leaf(let starCount) = post["starCount"] else {
      throw BenchFailure("SHOW has no starCount")
    }
    return Totals(
      posts: try count(socket, "/posts"), copies: copies,
      starCount: Int(starCount.integerValue ?? -1),
      stars: try count(socket, "/posts/\(key)/stars"))
  }

  func ranking() throws -> Ranking? {
    let socket = try administrator()
    let posts = try socket.success("TOP {\"limit\":\(BlogRequest.topCount)}").elements ?? []
    return Ranking(
      entries: try posts.map { post in
        guard let id = post["id"]?.string, case .leaf(let starCount)? = post["starCount"] else {
          throw BenchFailure("TOP has a post without an id or a starCount")
        }
        return Ranking.Entry(
          starCount: Int(starCount.integerValue ?? -1),
          stars: try count(socket, "/posts/\(id)/stars"))
      })
  }

  private func keyOfPopularPost() throws -> String {
    guard let key = DataSet(posts: Mix.popularPost + 1, users: 1).keys().last else {
      throw BenchFailure("there are no posts")
    }
    return key.text
  }

  private func count(_ socket: LineSocket, _ path: String) throws -> Int {
    guard case .leaf(let node) = try socket.success("COUNT \(path)") else { return -1 }
    return Int(node.integerValue ?? -1)
  }

  func stop() throws {
    client = nil
    for server in servers { try server.stop() }
    guard let postgres else { return }
    defer { postgres.stop() }
    let outcome = try Server.run(["migrate", "--from", postgres.url, "--to", folderAtEnd])
    guard outcome.status == 0 else { throw BenchFailure("canopy migrate: \(outcome.output)") }
  }

  /// The folder with the data, after `stop`.
  var folderAtEnd: String { isNode ? server.folder + "-end" : server.folder }
}

/// The data folders for Canopy, with accounts for the connected users.
struct CanopyFolders {
  /// The folder with the accounts and without posts.
  let accounts: String
  let uids: [String]
  let tokens: [String]

  /// Signs up the users, once for all folders: hashing a password is slow by design.
  init(in folder: String, users: Int) throws {
    accounts = folder + "/canopy-accounts"
    let server = try Server(folder: accounts)
    let socket = try LineSocket(port: server.port)
    let signedUp = try (0..<users).map { try socket.signUp("user\($0)") }
    uids = signedUp.map(\.uid)
    tokens = signedUp.map(\.token)
    try server.stop()
  }

  /// Creates a folder with the posts of a data set, through an export.
  func make(_ folder: String, holding data: DataSet) throws {
    try FileManager.default.copyItem(atPath: accounts, toPath: folder)
    let file = folder + ".json"
    defer { try? FileManager.default.removeItem(atPath: file) }
    try data.writeExport(to: file)
    let outcome = try Server.run(["import", "--data", folder, "/", file])
    guard outcome.status == 0 else { throw BenchFailure("canopy import: \(outcome.output)") }
  }
}
