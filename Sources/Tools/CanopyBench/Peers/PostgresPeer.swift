/// PostgreSQL as a peer: the blog as tables and functions.
final class PostgresPeer: Peer {
  let name = PeerName.postgres
  private let data: DataSet
  private let server: PostgresServer
  private var client: LoadClient<PostgresDialect>?

  var usage: Usage { server.usage }

  init(_ data: DataSet, folder: String, checkpoints: Checkpoints = .later) throws {
    self.data = data
    server = try PostgresServer(
      folder: folder, checkpoints: checkpoints,
      settings: [
        "max_parallel_workers_per_gather": "0", "plan_cache_mode": "force_generic_plan",
        // Some plans are created once, while their table is still empty. They must suit full tables.
        "enable_seqscan": "off",
      ])
  }

  private func check(_ reply: Channel<PostgresFramer>.Reply, _ what: String) throws {
    guard reply.frame.isError else { return }
    let text = reply.text.map { $0.isASCII && $0 != "\0" ? $0 : " " }
    throw BenchFailure("\(what): \(String(text))")
  }

  /// Creates the tables, fills them with COPY, and then creates the indexes, which is faster in this order.
  func load() throws {
    let channel = try server.open()
    try query(channel, PostgresDialect.schema)
    try copy(channel, to: "posts")
    try copy(channel, to: "user_posts")
    try query(channel, "SELECT setval('posts_id_seq', \(data.posts))")
    try query(channel, PostgresDialect.indexes)
    try query(channel, PostgresDialect.functions)
    for table in ["posts", "user_posts"] { try query(channel, "VACUUM (ANALYZE, FREEZE) \(table)") }
    try query(channel, "CHECKPOINT")
  }

  private func copy(_ channel: Channel<PostgresFramer>, to table: String) throws {
    channel.output += PostgresMessages.query(
      "COPY \(table) (id, uid, author, title, body, created_at) FROM STDIN")
    for post in 0..<data.posts {
      let user = data.author(of: post)
      let line =
        "\(post + 1)\t\(user)\t\(data.username(user))\t\(data.title(post))\t"
        + "\(data.body(post))\t\(data.createdAt(post))\n"
      channel.output.append(message: "d") { $0 += line.utf8 }
      if channel.output.count > 256 * 1024 { while try !channel.flush() {} }
    }
    channel.output.append(message: "c") { _ in }
    while try !channel.flush() {}
    try check(channel.awaitReply(), "COPY")
  }

  private func query(_ channel: Channel<PostgresFramer>, _ text: String) throws {
    try check(channel.exchange(PostgresMessages.query(text)), text)
  }

  func connect(_ connections: Int) throws {
    client = try LoadClient(
      PostgresDialect(data),
      (0..<connections).map { _ in
        let channel = try server.open()
        try check(
          channel.exchange(PostgresMessages.prepare(PostgresDialect.statements)), "preparing")
        return channel
      })
  }

  func run(_ round: Round) throws -> Sample {
    guard let client else { throw BenchFailure("PostgreSQL is not connected") }
    return try client.run(round, usage: usage.cpuSeconds)
  }

  func totals() throws -> Totals? {
    let channel = try server.open()
    let post = Mix.popularPost + 1
    return Totals(
      posts: try number(channel, "SELECT count(*) FROM posts"),
      copies: try number(channel, "SELECT count(*) FROM user_posts"),
      starCount: try number(channel, "SELECT star_count FROM posts WHERE id = \(post)"),
      stars: try number(channel, "SELECT count(*) FROM stars WHERE post = \(post)"))
  }

  func ranking() throws -> Ranking? {
    let list = try value(
      server.open(),
      """
      SELECT string_agg(star_count || ' ' || (SELECT count(*) FROM stars WHERE post = id), ','
        ORDER BY star_count DESC, id DESC)
      FROM (SELECT id, star_count FROM posts ORDER BY star_count DESC, id DESC
        LIMIT \(BlogRequest.topCount)) AS best
      """)
    return Ranking(
      entries: list.split(separator: ",").map { entry in
        let numbers = entry.split(separator: " ").map { Int($0) ?? -1 }
        return Ranking.Entry(starCount: numbers.first ?? -1, stars: numbers.last ?? -1)
      })
  }

  private func number(_ channel: Channel<PostgresFramer>, _ text: String) throws -> Int {
    Int(try value(channel, text)) ?? -1
  }

  /// Returns the only value of a row in text format; empty if there is none.
  private func value(_ channel: Channel<PostgresFramer>, _ text: String) throws -> String {
    let reply = try channel.exchange(PostgresMessages.query(text))
    try check(reply, text)
    let start = reply.frame.firstRow + 7
    guard reply.frame.rows == 1, start + 4 <= reply.bytes.count else { return "" }
    let length = Int(reply.bytes.bigEndian(Int32.self, at: start))
    guard length >= 0, start + 4 + length <= reply.bytes.count else { return "" }
    return String(decoding: reply.bytes[(start + 4)..<(start + 4 + length)], as: UTF8.self)
  }

  func stop() {
    client = nil
    server.stop()
  }
}
