import CanopyTree

extension Comparison {
  /// Measures the time to start, and the time of a list, with ten times as many posts.
  func measureManyPosts() throws {
    guard let folders else { return }
    var many = data
    many.posts = plan.manyPosts
    say("Canopy: loading \(shortText(Double(many.posts))) posts")
    try folders.make(folder + "/canopy-many", holding: many)
    if works.contains("start-up") { try measureStartUp(folders, many) }
    if works.contains("scale") { try measureScale(folders, many) }
  }

  /// Measures the time from starting the process to its reply with a post. The files are in the system's cache.
  private func measureStartUp(_ folders: CanopyFolders, _ many: DataSet) throws {
    var redis: RedisPeer?
    if systems.contains(.redis) {
      say("Redis: loading \(shortText(Double(many.posts))) posts")
      let peer = try RedisPeer(many, folder: folder + "/redis-many")
      try peer.load()
      redis = peer
    }
    var seconds: [PeerName: [Double]] = [:]
    for _ in 0..<plan.startUps {
      var started = monotonicNanoseconds()
      let server = try Server(folder: folder + "/canopy-many")
      let reply = try LineSocket(port: server.port).success("RECENT {\"limit\":1}")
      seconds[.canopy, default: []].append(Double(monotonicNanoseconds() - started) / 1e9)
      guard reply.elements?.count == 1 else { throw BenchFailure("Canopy started without posts") }
      try server.stop()
      guard let redis else { continue }
      redis.stop()
      started = monotonicNanoseconds()
      try redis.start()
      let posts = try redis.posts()
      seconds[.redis, default: []].append(Double(monotonicNanoseconds() - started) / 1e9)
      guard posts == many.posts else { throw BenchFailure("Redis started with \(posts) posts") }
    }
    redis?.stop()
    for name in [PeerName.canopy, .redis] {
      guard let seconds = seconds[name] else { continue }
      say("start-up, \(name.rawValue): \(seconds.map { shortText($0) }.joined(separator: ", ")) s")
    }
    guard let other = seconds[.redis] else { return }
    report.findings.append(
      Report.Finding(
        work: "start-up with \(shortText(Double(many.posts))) posts", measure: "seconds",
        canopy: median(seconds[.canopy] ?? []), against: PeerName.redis.rawValue,
        other: median(other), goal: .atMost(1)))
  }

  /// Measures the same lists of few posts and of many, which must differ only by O(log n).
  private func measureScale(_ folders: CanopyFolders, _ many: DataSet) throws {
    // There are few users, so that each has a full list of posts.
    let few = DataSet(
      posts: plan.fewPosts, users: max(connections, 50), bodyBytes: data.bodyBytes,
      uids: data.uids)
    try folders.make(folder + "/canopy-few", holding: few)
    let peers = [
      (few, try CanopyPeer(few, folder: folder + "/canopy-few", tokens: folders.tokens)),
      (many, try CanopyPeer(many, folder: folder + "/canopy-many", tokens: folders.tokens)),
    ]
    for (_, peer) in peers { try peer.connect(connections) }
    for (title, mix) in [("RECENT 100", Mix.recent), ("TOP me 10", .top)] {
      var samples: [[Sample]] = [[], []]
      for _ in 0..<plan.rounds {
        let seed = nextSeed()
        for (i, (data, peer)) in peers.enumerated() {
          samples[i].append(
            try peer.measure(
              Round(
                mix: mix, warmUpSeconds: plan.warmUpSeconds, seconds: plan.seconds,
                posts: data.posts, seed: seed)))
        }
      }
      let rows = peers.indices.map { i in
        Report.Row(
          "\(title) of \(shortText(Double(peers[i].0.posts))) posts", .canopy, samples[i])
      }
      for row in rows { add(row) }
      for sample in samples.joined() where sample.wrong > 0 {
        fail("\(title) at scale: \(sample.wrong) wrong: \(sample.firstWrong ?? "")")
      }
      report.findings.append(
        Report.Finding(
          work: rows[1].work, measure: "p50 ms", canopy: rows[1].millisecondsP50,
          against: "itself with \(shortText(Double(few.posts)))", other: rows[0].millisecondsP50,
          goal: .atMost(1.3)))
    }
    for (_, peer) in peers { try peer.stop() }
  }
}
