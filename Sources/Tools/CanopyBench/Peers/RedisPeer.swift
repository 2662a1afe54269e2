import Foundation

/// Redis as a peer, with an append-only file. A write is on the disk before its reply.
final class RedisPeer: Peer {
  static let executable = "/usr/bin/redis-server"

  let name = PeerName.redis
  private let folder: String
  private let data: DataSet
  private let options: [String]
  private var process: ChildProcess
  let port: Int
  private var client: LoadClient<RedisDialect>?

  var usage: Usage { Usage(processID: process.processID) }

  init(
    _ data: DataSet, folder: String, checkpoints: Checkpoints = .later, clientsMax: Int = 10_000
  ) throws {
    self.data = data
    self.folder = folder
    options =
      ["--maxclients", "\(clientsMax)"]
      + (checkpoints == .later ? ["--auto-aof-rewrite-percentage", "0"] : [])
    try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
    port = try freePort()
    process = try Self.process(folder, port, options)
    try waitUntilReady()
  }

  /// Starts Redis. Hashes are packed lists up to a kilobyte, which includes posts: a third less memory, and not slower.
  private static func process(
    _ folder: String, _ port: Int, _ options: [String]
  ) throws -> ChildProcess {
    let arguments = [
      "--port", "\(port)", "--bind", "127.0.0.1", "--dir", folder, "--save", "",
      "--appendonly", "yes", "--appendfsync", "always",
      "--hash-max-listpack-value", "1024", "--tcp-backlog", "1024",
    ]
    return try ChildProcess(
      executable, arguments + options, log: folder + ".log", endedBy: SIGKILL)
  }

  /// Waits until Redis has loaded its file. Before, it replies with an error.
  private func waitUntilReady() throws {
    try process.waitUntilReady {
      let reply = try Channel<RESPFramer>(port: port).exchange(RESP.command(["PING"]))
      guard !reply.frame.isError else { throw BenchFailure(reply.text) }
    }
  }

  /// Loads the data, and makes Redis write the file that is fastest to load: a snapshot without later commands.
  func load() throws {
    let channel = try Channel<RESPFramer>(port: port)
    _ = try ask(channel, "CONFIG", "SET", "appendfsync", "no")
    for batch in stride(from: 0, to: data.posts, by: 500) {
      let posts = batch..<min(batch + 500, data.posts)
      for post in posts { append(post, to: &channel.output) }
      while try !channel.flush() {}
      for _ in 0..<4 * posts.count {
        let reply = try channel.awaitReply()
        guard !reply.frame.isError else { throw BenchFailure("loading Redis: \(reply.text)") }
      }
    }
    _ = try ask(channel, "SET", "nextPost", "\(data.posts)")
    _ = try ask(channel, "CONFIG", "SET", "appendfsync", "always")
    _ = try ask(channel, "BGREWRITEAOF")
    repeat {
      usleep(20_000)
    } while try info("aof_rewrite_in_progress") != 0
      || info("aof_rewrite_scheduled") != 0
    guard try ask(channel, "INFO", "persistence").contains("aof_last_bgrewrite_status:ok") else {
      throw BenchFailure("Redis could not rewrite its file")
    }
  }

  private func append(_ post: Int, to output: inout [UInt8]) {
    let user = data.author(of: post)
    RESP.append(
      [
        "HSET", "post:\(post + 1)", "uid", "\(user)", "author", data.username(user),
        "title", data.title(post), "body", data.body(post), "createdAt", "\(data.createdAt(post))",
        "starCount", "0",
      ], to: &output)
    RESP.append(["ZADD", "recent", "\(post + 1)", "\(post + 1)"], to: &output)
    RESP.append(["ZADD", "user:\(user)", "0", "\(post + 1)"], to: &output)
    RESP.append(["ZADD", "top", "0", "\(post + 1)"], to: &output)
  }

  /// Restarts Redis with its file.
  func start() throws {
    process = try Self.process(folder, port, options)
    try waitUntilReady()
  }

  func connect(_ connections: Int) throws {
    let channel = try Channel<RESPFramer>(port: port)
    let dialect = RedisDialect(
      data,
      hashes: (
        try hash(channel, RedisDialect.post), try hash(channel, RedisDialect.star),
        try hash(channel, RedisDialect.comment)
      ))
    client = try LoadClient(dialect, (0..<connections).map { _ in try Channel(port: port) })
  }

  private func hash(_ channel: Channel<RESPFramer>, _ script: String) throws -> String {
    let words = try ask(channel, "SCRIPT", "LOAD", script).split(separator: "\r\n")
    guard words.count == 2, words[1].count == 40 else {
      throw BenchFailure("SCRIPT LOAD: \(words)")
    }
    return String(words[1])
  }

  func run(_ round: Round) throws -> Sample {
    guard let client else { throw BenchFailure("Redis is not connected") }
    return try client.run(round, usage: usage.cpuSeconds)
  }

  /// Returns the number of posts.
  func posts() throws -> Int {
    try number(Channel<RESPFramer>(port: port), "ZCARD", "recent")
  }

  func totals() throws -> Totals? {
    let channel = try Channel<RESPFramer>(port: port)
    let copies = try (0..<data.users).reduce(0) { sum, user in
      sum + (try number(channel, "ZCARD", "user:\(user)"))
    }
    let popular = Mix.popularPost + 1
    return Totals(
      posts: try number(channel, "ZCARD", "recent"), copies: copies,
      starCount: try number(channel, "HGET", "post:\(popular)", "starCount"),
      stars: try number(channel, "SCARD", "stars:\(popular)"))
  }

  func ranking() throws -> Ranking? {
    let channel = try Channel<RESPFramer>(port: port)
    let reply = try ask(channel, "ZREVRANGE", "top", "0", "\(BlogRequest.topCount - 1)")
    // `*10`, and for each id its length and its text.
    let ids = reply.split(separator: "\r\n").dropFirst().filter { !$0.hasPrefix("$") }
    return Ranking(
      entries: try ids.map { id in
        Ranking.Entry(
          starCount: try number(channel, "ZSCORE", "top", String(id)),
          stars: try number(channel, "SCARD", "stars:\(id)"))
      })
  }

  private func ask(_ channel: Channel<RESPFramer>, _ words: String...) throws -> String {
    let reply = try channel.exchange(RESP.command(words))
    guard !reply.frame.isError else { throw BenchFailure("\(words[0]): \(reply.text)") }
    return reply.text
  }

  private func number(_ channel: Channel<RESPFramer>, _ words: String...) throws -> Int {
    let reply = try channel.exchange(RESP.command(words)).text
    return reply.split(separator: "\r\n").last.flatMap { Int($0.drop { $0 == ":" }) } ?? -1
  }

  /// Returns a number from INFO.
  func info(_ name: String) throws -> Int {
    let text = try ask(Channel<RESPFramer>(port: port), "INFO")
    let line = text.split(separator: "\r\n").first { $0.hasPrefix(name + ":") }
    return line?.split(separator: ":").last.flatMap { Int($0) } ?? -1
  }

  func stop() {
    client = nil
    process.stop(SIGKILL)
  }
}
