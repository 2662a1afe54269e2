import CanopyTree

extension Comparison {
  /// The works that are measured on one node and on several.
  private static let worksOfNodes: [(title: String, mix: Mix)] = [
    ("SHOW", .show), ("RECENT 100", .recent), ("POST", .post),
    ("STAR, everyone on one post", .starOne), ("STAR, spread over all posts", .starAll),
  ]
  private static let nodeCount = 3

  /// Measures the same load on one node and on three nodes of one PostgreSQL server, and the cost of a commit for each
  /// process.
  func measureNodes(_ peers: [any Peer]) throws {
    guard let canopy = peers.lazy.compactMap({ $0 as? CanopyPeer }).first(where: \.isNode) else {
      return
    }
    say("Canopy: starting \(Self.nodeCount - 1) more nodes")
    for _ in 1..<Self.nodeCount { try canopy.addNode() }
    let before = try canopy.totals()
    let placements = [
      ("one node", try canopy.load(connections, on: [canopy.server])),
      ("\(Self.nodeCount) nodes", try canopy.load(connections, on: canopy.servers)),
    ]
    var expected = before
    for (title, mix) in Self.worksOfNodes {
      for (place, client) in placements {
        let samples = try (0..<plan.rounds).map { _ in
          try measure(canopy) { try client.run(round(mix), usage: canopy.usage.cpuSeconds) }
        }
        report("\(title), \(place)", samples)
        let posts = samples.reduce(0) { $0 + $1.posts }
        expected?.posts += posts
        expected?.copies += posts
        if mix == .starOne {
          let stars = samples.reduce(0) { $0 + $1.stars }
          expected?.starCount += stars
          expected?.stars += stars
        }
      }
    }
    let posts = try measureCosts(canopy, placements[0].1)
    expected?.posts += posts
    expected?.copies += posts
    try measureFanOut(of: canopy)
    try awaitTotals(expected, of: canopy)
  }

  private func round(_ mix: Mix) -> Round {
    Round(
      mix: mix, warmUpSeconds: plan.warmUpSeconds, seconds: plan.seconds, posts: data.posts,
      seed: nextSeed())
  }

  /// Adds the peak of the memory of all processes to a sample.
  private func measure(_ canopy: CanopyPeer, _ run: () throws -> Sample) throws -> Sample {
    canopy.usage.resetPeak()
    var sample = try run()
    sample.peakBytes = canopy.usage.peakBytes()
    return sample
  }

  private func report(_ title: String, unit: String? = nil, _ samples: [Sample]) {
    var row = Report.Row(title, .canopyOnPostgres, samples)
    if let unit { row.unit = unit }
    add(row)
    for sample in samples where sample.wrong > 0 {
      fail("\(title): \(sample.wrong) wrong: \(sample.firstWrong ?? "")")
    }
  }

  /// Measures the CPU that a commit of the first node costs each process.
  ///
  /// - Returns: the number of new posts.
  private func measureCosts(
    _ canopy: CanopyPeer, _ client: LoadClient<LineDialect>
  ) throws -> Int {
    guard let postgres = canopy.postgres else { return 0 }
    let parts = [
      ("at its node", [Usage(processID: canopy.server.processID)]),
      ("at each other node", canopy.nodes.map { Usage(processID: $0.processID) }),
      ("in PostgreSQL", [postgres.usage]),
    ]
    var posts = 0
    for (title, mix) in [("POST", Mix.post), ("STAR, spread over all posts", .starAll)] {
      var costs = parts.map { _ in [Double]() }
      for _ in 0..<plan.rounds {
        var marks: [[Double]] = []
        let sample = try client.run(round(mix)) {
          marks.append(
            try parts.map { part in
              try part.1.reduce(0) { $0 + (try $1.cpuSeconds()) } / Double(part.1.count)
            })
          return 0
        }
        posts += sample.posts
        guard let start = marks.first, let end = marks.last, sample.operations > 0 else { continue }
        for index in parts.indices {
          costs[index].append((end[index] - start[index]) * 1e6 / Double(sample.operations))
        }
      }
      for (part, costs) in zip(parts, costs) {
        let cost = Report.Cost(what: "\(title), \(part.0)", microseconds: median(costs))
        say(cost.markdown)
        report.costs.append(cost)
      }
    }
    return posts
  }

  /// Measures one write to listeners that are at one node, and to as many that are spread over all.
  private func measureFanOut(of canopy: CanopyPeer) throws {
    let name = "one write to \(shortText(Double(listeners))) listeners"
    for (place, servers) in [
      ("one node", [canopy.server]), ("\(Self.nodeCount) nodes", canopy.servers),
    ] {
      let client = try FanOutClient(
        try .values(canopy.server, textBytes: 300), ports: servers.map(\.port),
        listeners: listeners)
      let samples = try (0..<plan.rounds).map { _ in
        try measure(canopy) {
          try client.run(
            warmUpSeconds: plan.warmUpSeconds, seconds: plan.seconds,
            usage: canopy.usage.cpuSeconds)
        }
      }
      report("\(name) of \(place)", unit: "events", samples)
    }
  }

  /// Waits until the first node has the commits of the others, and checks that its data have grown by exactly the
  /// acknowledged writes.
  private func awaitTotals(_ expected: Totals?, of canopy: CanopyPeer) throws {
    let end = monotonicNanoseconds() + 10_000_000_000
    var totals = try canopy.totals()
    while totals != expected, monotonicNanoseconds() < end { totals = try canopy.totals() }
    guard let totals, let expected, totals == expected else {
      return fail("nodes: they hold \(totals as Any) and should hold \(expected as Any)")
    }
  }
}
